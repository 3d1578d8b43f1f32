"""How events are shown: format files, the lines of a trace, the tracer function_graph."""

from __future__ import annotations

from typing import Any

from kprobe_sim.builds.gates.gate import gate, since, until
from kprobe_sim.builds.gates.question import ABSENT, ENABLE, LETTERS, OPEN, TOO_OLD, TRACE, Question, Unasked

_GRAPH_OPTIONS = (
    *("funcgraph-overrun", "funcgraph-cpu", "funcgraph-overhead", "funcgraph-proc", "funcgraph-duration"),
    *("funcgraph-abstime", "funcgraph-irqs", "funcgraph-tail", "sleep-time", "graph-time"),
)


def _event(event: str, reading: str, values: dict[str, Any], *, does: str = OPEN) -> Question:
    return Question((f"write @/events/{event}/enable 1", does, *TRACE), reading, values)


class TextGates:
    """How events are shown: format files, the lines of a trace, the tracer function_graph."""

    # ---- event formats ----

    # format shows u8 a[4], not u8 a[]
    array_length_in_format: bool = until(
        (5, 19, 0),
        "recorded formats 5.10 and 6.1: +0(%si):u8[4]",
        Question(
            ("write kprobe_events p:zz/q vfs_read a=+0(%si):u8[4]", "read events/zz/q/format"),
            r"u8 a(\[.*?\]);",
            {"[4]": True, "[]": False},
        ),
    )
    # name of the common field that nobody uses
    third_common: str = gate(
        "common_lock_depth",
        {(2, 6, 39): "common_padding"},
        "trace_define_common_fields() of 2.6.38 and 2.6.39; recorded formats of 3.2",
        TOO_OLD,
    )
    # formats have a padding field after the common ones
    common_padding: bool = until((3, 3, 0), "recorded formats 3.2 and 3.13", TOO_OLD)
    # how print fmt shows numbers: "untyped", "bare" or "prefixed" hexadecimal, "decimal" with types x8 to x64
    number_texts: str = gate(
        "untyped",
        {(2, 6, 35): "bare", (3, 15, 0): "prefixed", (4, 8, 0): "decimal"},
        "commit 93ccae7a2227; recorded formats of 3.13, 4.4 and 4.19: 'f8=%x', 'f8=0x%x', 'f8=%u'",
        TOO_OLD,
    )

    # ---- the lines of a trace ----

    # letters of the irq-info column
    context_letters: int = gate(
        4,
        {(5, 15, 0): 5},
        "recorded traces 5.10 and 6.1; docs/kernel/trace.md#number-of-letters",
        Question((*TRACE,), r"CPU#  (\|+)  ", {"||||": 4, "|||||": 5}),
    )
    # the first letter shows disabled bottom halves
    bh_letters: bool = since(
        (5, 19, 0),
        "docs/kernel/trace.md#interrupts",
        Question((*TRACE,), r"=> irqs-off(\S*)", {"match": False, "/BH-disabled": True}),
    )
    # common_flags 2 is a lazy need to reschedule, not "irqs unknown"
    lazy_resched: bool = since(
        (6, 14, 0),
        "docs/kernel/trace.md#reschedule; recorded traces 7.2: 'l', 'B'; RT 6.12",
        Question(
            ("write @/events/ftrace/print/trigger stacktrace", "write @/trace_marker hello", *TRACE),
            r" D(\S)Zff +\d+\.\d+: <stack trace>",
            {"none": ABSENT, "N": False, "B": True},  # all flags are set here; which ones a hit finds is up to chance
        ),
    )
    # with offsets, the trampoline of return probes is shown by its own name
    trampoline_by_name: bool = until(
        (5, 15, 0),
        "trace_output.c 5.10: kretprobed()",
        Question(
            (
                "write kprobe_events r:zz/q <open>",
                "write kprobe_events r:zz/r <open>",
                "write @/options/stacktrace 1",
                "write @/options/sym-offset 1",
                ENABLE,
                OPEN,
                *TRACE,
            ),
            r"(trampoline\+0x|unknown/kretprobe'd)",
            {"trampoline+0x": True, "unknown/kretprobe'd": False},
        ),
    )
    # numbers from 10 on are shown with 0x
    syscall_numbers_prefixed: bool = since(
        (6, 18, 0),
        "traces of 6.17.13 and 6.18.15: sys_fadvise64(…, offset: 0x1000",
        _event(
            "syscalls/sys_enter_prctl", r"sys_prctl\(option: (\w+),", {"f": False, "0xf": True}, does="rename other"
        ),
    )
    # system calls are shown with the strings that they point to, and small numbers in decimal
    syscalls_show_user_memory: bool = since(
        (6, 19, 0),
        "fixtures/static 7.2; a trace of 6.19: sys_openat",
        _event(
            "syscalls/sys_enter_openat",
            r"workload-.*: sys_openat\(dfd: \w+, filename: (.*?), flags",
            {"10000000": False, "0x10000000": False, '268435456 "/etc/hostname"': True},
        ),
    )
    # the option fields shows 64-bit numbers as symbols
    fields_as_symbols: bool = since(
        (6, 16, 0),
        "trace_output.c 6.12.117 and 7.2: print_fields(); campaign",
        Question(
            ("write kprobe_events p:zz/q <open>", "write @/options/fields 1", ENABLE, OPEN, *TRACE),
            r"workload-.*: q: __probe_ip=(0x|do_sys_openat2)",
            {"none": ABSENT, "0x": False, "do_sys_openat2": True},
        ),
    )
    # the option fields shows strings with unprintable bytes in hexadecimal too
    fields_strings_in_hex: bool = since(
        (6, 19, 0),
        "guests of 6.16.12 to 7.0.13: 'p:q do_sys_openat2 a=+0(%si):ustring'",
        Question(
            (
                "write kprobe_events p:zz/q <open> a=+0(%si):ustring",
                "write @/options/fields 1",
                ENABLE,
                "open /\x01",
                *TRACE,
            ),
            r"workload-.* a=/(\.)?",
            {"none": ABSENT, "match": False, ".": True},
        ),
    )
    # bytes of text that a read of trace_pipe can give
    trace_seq_size: int = gate(
        4096,
        {(6, 8, 0): 8156},
        "trace_seq.h 6.1 and 6.12: TRACE_SEQ_BUFFER_SIZE",
        Question(
            (*["write @/trace_marker " + "x" * 900] * 10, "hold rn @/trace_pipe", "take 65536"),
            r"\A(?:[^\n]*\n){5}",
            {"none": 4096, "match": 8156},
        ),
    )
    # the text of an event has at most a byte less than trace_seq_size
    last_byte_unused: bool = until((4, 4, 0), "recorded traces 3.2 and 4.4: a path of 3,999 bytes", TOO_OLD)
    # records of a removed event stay in the buffer, as an unknown type
    removed_are_unknown: bool = until((5, 0, 0), "recorded traces 4.19 and 5.10: 18_probes_removed", TOO_OLD)
    # width of the pid column
    pid_width: int = gate(5, {(5, 4, 0): 7}, "recorded traces 4.19 and 5.4: 02_comms", TOO_OLD)
    # header of the trace: "bare" of counts and irq-info, "narrow", "uncounted" with irq-info, or "wide"
    header: str = gate(
        "bare",
        {(3, 13, 0): "narrow", (4, 13, 0): "uncounted", (4, 15, 0): "narrow", (5, 4, 0): "wide"},
        "recorded traces: 02_comms; commit 441dae8f2f29 of 4.13",
        TOO_OLD,
    )
    # the header of latency-format has more blanks at the ends of its last lines
    latency_blanks: bool = until((4, 4, 0), "recorded traces 3.13 and 4.4: 03_opt_latency-format", TOO_OLD)
    # latency-format marks delays of more than 100 us
    long_delays: bool = since((4, 4, 0), "recorded traces 3.13 and 4.4: 03_opt_latency-format", TOO_OLD)

    # ---- the tracer function_graph ----

    # the text of function_graph is known for this kernel
    graph_known: bool = since(
        (3, 2, 0),
        "trace_functions_graph.c of 3.2.4 to 5.4.273; recorded traces 3.13, 4.4 and 4.19: 10_fgraph_*",
        TOO_OLD,
    )
    # the options of function_graph, if they weren't recorded
    graph_options: tuple[str, ...] = gate(
        _GRAPH_OPTIONS[:7],
        {(4, 4, 0): _GRAPH_OPTIONS},
        "trace_functions_graph.c of 3.2.4, 3.13.10 and 4.4.11; recorded traces 3.13 and 4.4: 10_fgraph_*",
        TOO_OLD,
    )
    # options/ has files only for options of the current tracer, once a tracer was chosen
    options_come: bool = until(
        (4, 4, 0),
        "recorded modes of 3.2, 3.13 and 4.4, before and after a tracer was chosen: options/test_nop_accept",
        TOO_OLD,
    )
    # latency-format has its own column for the irq-info
    graph_latency_apart: bool = since(
        (5, 4, 0), "print_graph_lat_fmt() of 4.19.108 and 5.4.273; traces of 4.19 and 5.10", TOO_OLD
    )
    # the end of an interrupt is also shown after a call on one line
    graph_leaf_arrow: bool = since(
        (4, 14, 67),
        "print_graph_entry_leaf() of 4.4.11, 4.9.229 (by backport), 4.14.67 and 4.19.108",
        TOO_OLD,
        backports=((4, 9, 229),),
    )
    # the irq-info is shown beside an interrupt's begin and end
    graph_arrow_letters: bool = since((4, 4, 0), "print_graph_irq() of 3.13.10 and 4.4.11", TOO_OLD)
    # function_graph is a user of ftrace like others: the last one added sees a function first
    graph_is_user: bool = since(
        (5, 16, 0),
        "commit 0c0593b45c9b; recorded traces 5.10 and 6.1: 10_fgraph_",
        Unasked("function_graph at the top level would empty the trace"),
    )
    # common_preempt_count of a return record includes the tracer's own handler
    graph_exit_deep: bool = since(
        (6, 16, 0),
        "the corpus of 6.12 and 6.16: graph.latency-format",
        Unasked("function_graph at the top level would empty the trace"),
    )

    # ---- flags and preemption count of a hit ----

    # common_flags and common_preempt_count of a probe on a function's entry
    plain_entry: tuple[int, int] = gate(
        (1, 0), {(4, 18, 0): (0, 0)}, "recorded traces 4.4, 4.9, 4.14 and 4.19: 02_comms", TOO_OLD
    )
    # a preemption count that asks to reschedule has its own flag; else N means the task's flag alone
    preempt_resched: bool = since(
        (3, 13, 0), "commit e5137b50a064; recorded traces 3.2 and 3.13: 09_irq_latency", TOO_OLD
    )
    # common_flags and common_preempt_count of a return probe
    plain_return: tuple[int, int] = gate(
        (1, 0),
        {(5, 15, 0): (0, 0)},
        "recorded traces 5.10 and 6.1: fr_schedule",
        Question(
            ("write kprobe_events r:zz/q <open>", ENABLE, OPEN, *TRACE),
            LETTERS,
            {"d,..": (1, 0), ".,..": (0, 0), ".,...": (0, 0)},
        ),
    )
    # common_flags and common_preempt_count of a probe that uses a breakpoint
    breakpoint: tuple[int, int] = gate(
        (1, 0),
        {(4, 4, 0): (9, 0), (4, 9, 0): (1, 0), (5, 10, 0): (0x49, 0), (5, 15, 0): (0x48, 0xFF)},
        "recorded traces 3.13 (d...), 4.4 (d.h.), 4.9 and 4.19 (d...), 5.10 (d.Z.) and 6.1 (..Zff): 11_offsets",
        Question(
            ("first kprobe_events p:zz/q <open>+{5|9}", ENABLE, OPEN, *TRACE),
            LETTERS,
            {"d,..": (1, 0), "d,h.": (9, 0), "d,Z.": (0x49, 0), ".,Zff": (0x48, 0xFF)},
        ),
    )
    # a uprobe's record takes one from a preemption depth of 0; else interrupts are off
    program_depth_taken: bool = since(
        (6, 1, 0),
        "recorded traces 5.10 (d...) and 6.1 (DNZff): 16_uprobe2; tracing_gen_ctx_dec() with preemption on",
        Unasked("no offset in the workload's program is known at which it would hit a uprobe"),
    )
    # what the handler of an fprobe on an entry adds to common_preempt_count
    fprobe_entry_depth: int = gate(
        0,
        {(7, 2, 0): 1},
        "guests of 6.12.117 to 7.1.13 and of 7.2.13: 'f:q openat'",
        Question(
            ("write dynamic_events f:zz/q <open>", ENABLE, OPEN, *TRACE),
            LETTERS,
            {"none": ABSENT, ".,...": 0, ".,.1.": 1},
        ),
    )
    # fprobes on a function's entry and on its return are two users of it
    fprobes_apart: bool = gate(
        True,
        {(6, 16, 0): False, (6, 19, 0): True},
        "guests of 6.16.12 to 6.19.14: depth of 'f:q do_sys_openat2' beside 'f:r do_sys_openat2%return'",
        Question(
            ("write dynamic_events f:zz/q <open>", "write dynamic_events f:zz/r <open>%return", ENABLE, OPEN, *TRACE),
            LETTERS,
            {"none": ABSENT, ".,...": False, ".,.1.": True, ".,.2.": True},  # more depth where there are two users
        ),
    )
    # common_preempt_count of the events in syscalls
    syscall_event_depth: int = gate(
        1,
        {(6, 16, 0): 0},
        "fixtures/static 6.1, 6.12, 7.2; a trace of 6.19: sys_openat",
        _event("syscalls/sys_enter_openat", LETTERS, {".,..": 1, ".,.1.": 1, ".,...": 0}),
    )
    # common_preempt_count of task_rename
    rename_depth: int = gate(
        1,
        {(6, 16, 0): 0},
        "fixtures/static 6.12, 7.2; a trace of 6.19: task_rename",
        _event(
            "task/task_rename",
            r" (\S)\S(\S+) +\d+\.\d+: task_rename: .* newcomm=other",
            {".,..": 1, ".,.1.": 1, ".,...": 0, ".,..1": 1 << 4},
            does="rename other",
        ),
    )
    # common_preempt_count of a mark
    marker_depth: int = gate(
        1,
        {(4, 4, 0): 0, (6, 17, 0): 1},
        "recorded traces 3.13, 4.4, 6.12 and 7.2: 07_marker; conformance on 6.19",
        Question(
            ("write @/trace_marker hello", *TRACE),
            r" (\S)\S(\S+) +\d+\.\d+: \S+: hello",
            {".,..": 0, ".,...": 0, ".,.1.": 1},
        ),
    )
    # common_flags and common_preempt_count of the stack that a trigger takes at a mark
    marker_stack: bytes = gate(
        b"\0\0",
        {(5, 12, 0): b"\xff\xff", (6, 17, 0): b"\0\0"},
        "tracing_gen_ctx_dec(): the mark's depth less one, -1 with a borrow; conformance suite on 5.10, 6.1 and 7.2",
        Question(
            ("write @/events/ftrace/print/trigger stacktrace", "write @/trace_marker hello", *TRACE),
            # the borrow takes one from the flags, too, which by chance had a need to reschedule
            r" \S\S\S(\S+) +\d+\.\d+: <stack trace>",
            {".": b"\0\0", "..": b"\0\0", "ff": b"\xff\xff"},
        ),
    )

    # ---- call stacks ----

    # several return probes on a function all know the caller
    nested_returns_know: bool = until(
        (5, 15, 0),
        "kernel/kprobes.c 5.10: correct_ret_addr",
        Question(
            ("write kprobe_events r:zz/q <open>", "write kprobe_events r:zz/r <open>", ENABLE, OPEN, *TRACE),
            r"workload-.*: [qr]: \((__x64_sys_openat|do_syscall_64|\[unknown/kretprobe'd\])",
            {"__x64_sys_openat": True, "do_syscall_64": True, "[unknown/kretprobe'd]": False},  # or what it jumped from
        ),
    )
    # a stack goes on beyond a return address that a probe replaced
    returns_unwound: bool = since(
        (5, 15, 0),
        "recorded traces 5.10 and 6.1 with stacks; x86/unwind since 5.15",
        Question(
            ("write kprobe_events r:zz/q <open>", "write @/options/stacktrace 1", ENABLE, OPEN, *TRACE),
            r"<stack trace>\n => (\S+)",
            {"__x64_sys_openat": True, "[unknown/kretprobe'd]": False},
        ),
    )
    # the stack of an fprobe on an entry begins in the tracer, unless a kprobe is there too
    fprobe_stacks_whole: bool = since(
        (6, 16, 0),
        "guests of 6.12.117 to 7.3-rc7: stacks at 'f:q do_sys_openat2'",
        Question(
            ("write dynamic_events f:zz/q <open>", "write @/options/stacktrace 1", ENABLE, OPEN, *TRACE),
            r"<stack trace>\n => (fentry_trace_func|do_sys_openat2)",
            {"none": ABSENT, "do_sys_openat2": False, "fentry_trace_func": True},
        ),
    )
    # the stack of an fprobe on a return goes on beyond the return address
    fprobe_returns_unwound: bool = gate(
        True,
        {(6, 16, 0): False, (6, 18, 0): True},
        "guests of 6.12.117 to 7.3-rc7: stacks at 'f:q do_sys_openat2%return'",
        Question(
            (
                "write dynamic_events f:zz/q <open>%return",
                "write @/events/zz/q/trigger stacktrace",
                *[OPEN] * 4,  # old contents of the kernel's stack may hide a caller now and then
                *TRACE,
            ),
            r"(?s)(?:.*? => (?:return_to_handler|arch_rethook_trampoline)\n( =>)|"
            r".* => (?:return_to_|arch_rethook_tramp))",
            {"none": ABSENT, "match": False, " =>": True},
        ),
    )
    # the stack at an entry begins with the "function" or with its "callers"
    entry_stack: str = gate("callers", {(4, 9, 0): "function"}, "recorded traces 4.4 and 4.9: stacktrace", TOO_OLD)
    # the stack at a return is what is "above" the caller, "both" the trampoline and that, or "usual"
    return_stack: str = gate(
        "above", {(4, 9, 0): "both", (5, 4, 0): "usual"}, "recorded traces 3.2 to 5.4: stacktrace", TOO_OLD
    )
