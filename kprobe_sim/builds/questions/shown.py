"""Questions about the text of traces and formats."""

from __future__ import annotations

from typing import Any

from kprobe_sim.builds.questions.question import ABSENT, Question, Unasked

_LETTERS = r"workload-\d+ +\[\d+\] (\S)\S(\S+) "  # but for the second: a need to reschedule comes by chance
_OPEN = "open /etc/hostname"
_SHOWN = ("write @/tracing_on 0", "read @/trace")  # else what reads it goes on filling it
_ON = "write @/events/zz/enable 1"


def _event(row: str, event: str, look: str, values: dict[str, Any], *, does: str = _OPEN) -> Question:
    return Question(row, (f"write @/events/{event}/enable 1", does, *_SHOWN), look, values)


QUESTIONS = (
    Question(
        "maxactive_floor",
        ("write kprobe_events r:zz/q vfs_read", "read kprobe_events"),
        r"^r(10|\d+):zz/q",
        {"10": True, "1": False},
    ),
    Question(
        "empty_user_string_is_fault",
        ("write kprobe_events p:zz/q <open> a=+0(%si):ustring", _ON, "open ", *_SHOWN),
        r"workload-.* a=(.*)\n",
        {"(fault)": True, '""': False},
    ),
    Question(
        "failed_kernel_read",
        ("write kprobe_events p:zz/q <open> a=@0xffffffffffe00000:x64", _ON, "open ", *_SHOWN),
        r"workload-.* a=0x(0|1|ffff8)",
        {"0": "zero", "1": "one", "ffff8": "task"},
    ),
    Question(
        "failed_element_keeps_room",  # the pointer is the first 8 letters of a path, and the room has what comes next
        ("write kprobe_events p:zz/q <open> a=+0(%si):string[1] b=$comm", _ON, _OPEN, *_SHOWN),
        r"workload-.* a=\{(.*)\} b=\"workload\"",
        {'"workload"': True, "(fault)": False},
    ),
    Question(
        "array_length_in_format",
        ("write kprobe_events p:zz/q vfs_read a=+0(%si):u8[4]", "read events/zz/q/format"),
        r"u8 a(\[.*?\]);",
        {"[4]": True, "[]": False},
    ),
    Question("context_letters", (*_SHOWN,), r"CPU#  (\|+)  ", {"||||": 4, "|||||": 5}),
    Question("bh_letters", (*_SHOWN,), r"=> irqs-off(\S*)", {"match": False, "/BH-disabled": True}),
    Question(
        "plain_return",
        ("write kprobe_events r:zz/q <open>", _ON, _OPEN, *_SHOWN),
        _LETTERS,
        {"d,..": (1, 0), ".,..": (0, 0), ".,...": (0, 0)},
    ),
    Question(
        "breakpoint",
        ("first kprobe_events p:zz/q <open>+{5|9}", _ON, _OPEN, *_SHOWN),
        _LETTERS,
        {"d,..": (1, 0), "d,h.": (9, 0), "d,Z.": (0x49, 0), ".,Zff": (0x48, 0xFF)},
    ),
    Question(
        "nested_returns_know",
        (
            "write kprobe_events r:zz/q <open>",
            "write kprobe_events r:zz/r <open>",
            _ON,
            _OPEN,
            *_SHOWN,
        ),
        r"workload-.*: [qr]: \((__x64_sys_openat|do_syscall_64|\[unknown/kretprobe'd\])",
        {"__x64_sys_openat": True, "do_syscall_64": True, "[unknown/kretprobe'd]": False},  # or what it jumped from
    ),
    Question(
        "trampoline_by_name",
        (
            "write kprobe_events r:zz/q <open>",
            "write kprobe_events r:zz/r <open>",
            "write @/options/stacktrace 1",
            "write @/options/sym-offset 1",
            _ON,
            _OPEN,
            *_SHOWN,
        ),
        r"(trampoline\+0x|unknown/kretprobe'd)",
        {"trampoline+0x": True, "unknown/kretprobe'd": False},
    ),
    Question(
        "returns_unwound",
        ("write kprobe_events r:zz/q <open>", "write @/options/stacktrace 1", _ON, _OPEN, *_SHOWN),
        r"<stack trace>\n => (\S+)",
        {"__x64_sys_openat": True, "[unknown/kretprobe'd]": False},
    ),
    Question(
        "fprobe_entry_depth",
        ("write dynamic_events f:zz/q <open>", _ON, _OPEN, *_SHOWN),
        _LETTERS,
        {"none": ABSENT, ".,...": 0, ".,.1.": 1},
    ),
    Question(
        "fprobe_stacks_whole",
        ("write dynamic_events f:zz/q <open>", "write @/options/stacktrace 1", _ON, _OPEN, *_SHOWN),
        r"<stack trace>\n => (fentry_trace_func|do_sys_openat2)",
        {"none": ABSENT, "do_sys_openat2": False, "fentry_trace_func": True},
    ),
    Question(
        "fprobe_returns_unwound",
        (
            "write dynamic_events f:zz/q <open>%return",
            "write @/events/zz/q/trigger stacktrace",
            *[_OPEN] * 4,  # what lay on the kernel's stack may hide a caller now and then
            *_SHOWN,
        ),
        r"(?s)(?:.*? => (?:return_to_handler|arch_rethook_trampoline)\n( =>)|.* => (?:return_to_|arch_rethook_tramp))",
        {"none": ABSENT, "match": False, " =>": True},
    ),
    Question(
        "fprobes_apart",
        (
            "write dynamic_events f:zz/q <open>",
            "write dynamic_events f:zz/r <open>%return",
            _ON,
            _OPEN,
            *_SHOWN,
        ),
        _LETTERS,
        {"none": ABSENT, ".,...": False, ".,.1.": True, ".,.2.": True},  # more depth where there are two users
    ),
    _event(
        "syscall_numbers_prefixed",
        "syscalls/sys_enter_prctl",
        r"sys_prctl\(option: (\w+),",
        {"f": False, "0xf": True},
        does="rename other",
    ),
    _event("syscall_event_depth", "syscalls/sys_enter_openat", _LETTERS, {".,..": 1, ".,.1.": 1, ".,...": 0}),
    _event(
        "syscalls_show_user_memory",
        "syscalls/sys_enter_openat",
        r"workload-.*: sys_openat\(dfd: \w+, filename: (.*?), flags",
        {"10000000": False, "0x10000000": False, '268435456 "/etc/hostname"': True},
    ),
    _event(
        "rename_depth",
        "task/task_rename",
        r" (\S)\S(\S+) +\d+\.\d+: task_rename: .* newcomm=other",
        {".,..": 1, ".,.1.": 1, ".,...": 0, ".,..1": 1 << 4},
        does="rename other",
    ),
    Question(
        "fields_as_symbols",
        ("write kprobe_events p:zz/q <open>", "write @/options/fields 1", _ON, _OPEN, *_SHOWN),
        r"workload-.*: q: __probe_ip=(0x|do_sys_openat2)",
        {"none": ABSENT, "0x": False, "do_sys_openat2": True},
    ),
    Question(
        "fields_strings_in_hex",
        (
            "write kprobe_events p:zz/q <open> a=+0(%si):ustring",
            "write @/options/fields 1",
            _ON,
            "open /\x01",
            *_SHOWN,
        ),
        r"workload-.* a=/(\.)?",
        {"none": ABSENT, "match": False, ".": True},
    ),
    Question(
        "marker_depth",
        ("write @/trace_marker hello", *_SHOWN),
        r" (\S)\S(\S+) +\d+\.\d+: \S+: hello",
        {".,..": 0, ".,...": 0, ".,.1.": 1},
    ),
    Question(
        "marker_stack",
        ("write @/events/ftrace/print/trigger stacktrace", "write @/trace_marker hello", *_SHOWN),
        # the borrow takes one from the flags, too, which by chance had a need to reschedule
        r" \S\S\S(\S+) +\d+\.\d+: <stack trace>",
        {".": b"\0\0", "..": b"\0\0", "ff": b"\xff\xff"},
    ),
    Question(
        "lazy_resched",
        ("write @/events/ftrace/print/trigger stacktrace", "write @/trace_marker hello", *_SHOWN),
        r" D(\S)Zff +\d+\.\d+: <stack trace>",
        {"none": ABSENT, "N": False, "B": True},  # where all flags are set: which others a hit finds is up to chance
    ),
    Question("raw_data_type", ("read events/ftrace/raw_data/format",), r"^ID: (\d+)", {"16": 16, "18": 18, "19": 19}),
    Question(
        "mark_room",
        ("write @/trace_marker_raw abcdefgh", *_SHOWN),
        r"# 64636261 buf: 65 66 67 (68 |68\n)",
        {"68 ": True, "68\n": False},
    ),
)

UNASKED: tuple[Unasked, ...] = (
    *(
        Unasked(row, "only kernels differ in it that are too old to be asked")
        for row in ("first_language", "first_names")
    ),
    Unasked("read_faults", "kprobe_profile counts what all tasks hit, so that the misses of one hit can't be told"),
    *(
        Unasked(row, "function_graph at the top level would empty the trace")
        for row in ("graph_is_user", "graph_exit_deep")
    ),
)
