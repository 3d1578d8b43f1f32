"""The kernel versions in which features appeared or changed: one table, one row per feature, each with its source.

In a source 'definitions 6.1' is fixtures/definitions/6.1.jsonl, 'kinds 6.1' fixtures/kinds/6.1.jsonl; 'recorded
traces' are in fixtures/traces and fixtures/text, and tests/differential/found keeps what a 'campaign' found.

A row lists values by the first version that has them.  Stable kernels carry backports, so thresholds may name a point
release (6.1.190).  The builds that are known exactly are those that profile.available() lists; any other version takes
the value of the nearest older row.

Thresholds are right for the builds that they were taken from and a guess for those between.  The question of the same
name (kprobe_sim/builds/questions) settles a row where it can be asked, and the answer in a build's profile beats this
table.
"""

from __future__ import annotations

import errno

from kprobe_sim.builds.rows.early import EARLY
from kprobe_sim.builds.rows.gate import START as _START
from kprobe_sim.builds.rows.gate import Gate, Version
from kprobe_sim.builds.rows.gate import since as _since

__all__ = ["ROWS", "Gate", "Version"]

ROWS: tuple[Gate, ...] = (
    *EARLY,
    Gate(
        "first_language",
        ((_START, True), ((2, 6, 33), False)),
        "scenarios/replays/seeds: tracer-2009 and lwn-2009 against wind-river; commits 413d37d1eb69, 52a11f354970",
    ),
    _since(
        "first_names",
        (2, 6, 32),
        "scenarios/replays/seeds: lwn-2009 (revision 13), tracer-2009; commit eca0d916f642",
    ),
    _since("sort_takes_two", (6, 11, 0), "lib/sort.c 6.12: sort_r()"),
    _since("delete_is_raw", (5, 12, 0), "commit d262271d0483; definitions 5.10 and 6.1: ' -:foo'"),
    _since("delete_group", (6, 0, 0), "commit 95c104c378dc; definitions 6.1: '-:kprobes/'"),
    Gate(
        "delete_compares",
        ((_START, 63), ((5, 15, 0), None), ((6, 16, 0), 63), ((7, 1, 0), None)),
        "conformance suite on 5.10 and 6.1: a delete's arguments; answers of 6.12.117 to 7.2.13",
    ),
    _since("dot_separates_group", (5, 18, 0), "docs/kernel/definitions.md#group-and-event; definitions 6.1: 'p:my.ev'"),
    _since("hyphen_in_group", (5, 15, 0), "docs/kernel/definitions.md#group-and-event; definitions 6.1: 'p:g-h/ev'"),
    _since("empty_event_is_auto", (6, 0, 0), "commit 95c104c378dc; definitions 6.1: 'p:grp/'"),
    Gate("sanitized", ((_START, ":."), ((6, 5, 0), ":.*")), "docs/kernel/definitions.md#default-names"),
    Gate(
        "maxactive_on_probe",
        ((_START, "MAXACT_NO_KPROBE"), ((6, 5, 0), "BAD_MAXACT_TYPE")),
        "definitions 6.1 and 6.12: 'p10:x'",
    ),
    _since("maxactive_floor", (5, 11, 0), "commit 3b7ddab8a19a; definitions 5.10 (r2:) and 6.1 (r10:)"),
    Gate(
        "unknown_symbol_errno",
        ((_START, errno.ENOENT), ((6, 12, 0), errno.EINVAL)),
        "definitions 6.1 and 6.12: 'p:x no_such_function_xyz'",
    ),
    Gate(
        "ambiguous_symbol_errno",
        ((_START, errno.EADDRNOTAVAIL), ((6, 12, 0), errno.EINVAL)),
        "definitions 6.1 and 6.12: 'p:x t_show'",
    ),
    _since("module_symbols_counted", (6, 12, 0), "docs/kernel/places.md#symbols-of-modules"),
    _since(
        "vmlinux_wins", (7, 2, 13), "trace_kprobe.c 7.2.13: number_of_same_symbols(); docs/kernel/places.md#uniqueness"
    ),
    _since(
        "uniqueness_first",
        (6, 12, 0),
        "trace_kprobe.c 6.12.117: validate_probe_symbol(); docs/kernel/definitions.md#order-of-checks",
    ),
    _since("looks_up_address", (5, 18, 0), "definitions 5.10 and 6.1: 'p:x 12345', 'p:x 0xffffffffffffffff'"),
    _since("names_missing_entry", (6, 9, 0), "definitions 6.1 and 6.12: 'p:x do_sys_openat2+5 a=$arg1'"),
    Gate(
        "int3_errno", ((_START, errno.EINVAL), ((6, 2, 0), errno.EILSEQ)), "arch/x86/kernel/kprobes/core.c 6.1 and 6.12"
    ),
    Gate(
        "unsupported_instruction_errno",
        (
            (_START, 0),
            ((5, 10, 0), errno.EINVAL),
            ((5, 10, 262), errno.EOPNOTSUPP),
            ((5, 11, 0), errno.EINVAL),
            ((5, 13, 0), errno.EOPNOTSUPP),
        ),
        "commit 6256e668b7af; an iret in guests of 5.4.273 (taken), 5.10.262 (backport), 6.1, 6.12, 7.2 and 7.3",
    ),
    _since("endbr", (6, 12, 0), "docs/kernel/places.md#endbr (CONFIG_X86_KERNEL_IBT of the recorded builds)"),
    Gate("argument_size", ((_START, 63), ((7, 3, 0), 255)), "docs/kernel/arguments.md#length-of-an-argument"),
    Gate(
        "argument_size_errno",
        ((_START, errno.EINVAL), ((6, 12, 0), errno.E2BIG)),
        "definitions 6.1 and 6.12",
    ),
    Gate(
        "array_room_errno",
        ((_START, errno.EINVAL), ((6, 12, 0), errno.E2BIG)),
        "trace_probe.c 6.1.190 and 6.12.117: LP_ARRAY",
    ),
    Gate(
        "too_many_arguments",
        ((_START, None), ((6, 12, 0), "TOO_MANY_ARGS_UNLOGGED"), ((6, 16, 0), "TOO_MANY_ARGS")),
        "definitions 6.1, 6.12 and 7.2 with 129 arguments",
    ),
    Gate(
        "string_type_message",
        ((_START, "NEED_STRING_TYPE_UNLOGGED"), ((6, 7, 0), "NEED_STRING_TYPE")),
        "definitions 6.1 and 6.12: '$comm:u32'",
    ),
    _since("entry_arguments_at_return", (6, 9, 0), "docs/kernel/arguments.md#argn"),
    Gate(
        "variable_overflow_errno",
        ((_START, errno.EINVAL), ((7, 3, 0), errno.ERANGE)),
        "fixtures/definitions/observed.jsonl: '$stack99999999999999999999'",
    ),
    Gate(
        "event_size_limited",
        ((_START, True), ((6, 16, 0), False), ((7, 0, 0), True)),
        "definitions 6.1 to 7.3, answers of 6.16.12 to 7.0.13: nine arrays u64[64]",
    ),
    Gate(
        "variable_text",
        (
            (_START, "Invalid $-variable specified"),
            ((6, 16, 0), "Invalid $-valiable specified"),
            ((7, 1, 0), "Invalid $-variable specified"),
        ),
        "answers of 6.12.117, 6.16.12 to 7.0.13 and 7.1.13: 'p:q vfs_read a=$nosuch'",
    ),
    Gate(
        "zero_argument",
        ((_START, "BAD_ARG_NUM"), ((6, 16, 0), "NO_BTF_ENTRY"), ((7, 1, 0), "BAD_ARG_NUM")),
        "answers of 6.12.117, 6.16.12 to 7.0.13 and 7.1.13: 'p:q vfs_read $arg0'",
    ),
    _since("btf", (6, 5, 0), "docs/kernel/arguments.md#names-of-parameters"),
    Gate(
        "event_typecasts",
        ((_START, False), ((7, 1, 0), True), ((7, 3, 0), False)),
        "trace_probe.c 7.2.13: handle_typecast(); docs/kernel/arguments.md#typecasts",
    ),
    _since("typecasts", (7, 3, 0), "trace_probe.c 7.3: parse_probe_arg_nested(); fixtures/definitions/observed.jsonl"),
    _since("current", (7, 3, 0), "trace_probe.c 7.3: parse_probe_var_current(); fixtures/definitions/observed.jsonl"),
    _since("field_caret", (7, 3, 0), "trace_probe.c 7.2.13 and 7.3: `next - fieldname` in parse_btf_field()"),
    Gate(
        "unknown_parameters_go_on",
        ((_START, False), ((6, 16, 0), True), ((7, 2, 0), False), ((7, 3, 0), True)),
        "trace_probe.c 7.3: traceprobe_expand_meta_args(); fixtures/definitions/observed.jsonl: 'p:v schedule $arg*'",
    ),
    _since("caret_shift", (6, 5, 0), "docs/kernel/types.md#caret-of-a-type"),
    Gate("nesting", ((_START, None), ((7, 3, 0), 8)), "trace_probe.h 7.3: TRACEPROBE_MAX_NESTED_LEVEL"),
    _since("symstr", (6, 1, 190), "docs/kernel/types.md#symstr (6.2, and 6.1.190 by backport)"),
    _since("char", (6, 2, 0), "docs/kernel/types.md#char"),
    _since("dentry_types", (6, 10, 0), "docs/kernel/types.md#names-of-dentries"),
    Gate(
        "dentry_offsets",
        ((_START, (0x28, 0x48)),),
        "definitions 6.12 to 7.3: '%si:%pD'; an RT kernel of 6.12.117 0x38 and 0x68",
    ),
    Gate(
        "file_offset_text",
        (
            (_START, "File offset is not available with kprobe"),
            ((7, 3, 0), "File offset is not available for kernel probes"),
        ),
        "docs/kernel/errors.md#texts-of-probes",
    ),
    Gate(
        "empty_user_string_is_fault",
        ((_START, False), ((5, 10, 0), True), ((6, 16, 0), False)),
        "recorded traces 4.19, 5.10, 6.1, 6.12, 6.19: an empty path",
    ),
    Gate(
        "lone_quote_is_empty",
        ((_START, False), ((6, 16, 0), True), ((6, 19, 0), False)),
        "guests of 6.12.117, 6.16.12 to 6.18.15, 6.19.14 and 7.0.13: 'p:q vfs_read a=\\\\\"'",
    ),
    Gate(
        "array_length_in_format",
        ((_START, True), ((5, 19, 0), False)),
        "recorded formats 5.10 and 6.1: +0(%si):u8[4]",
    ),
    Gate(
        "error_log_command_size",
        ((_START, 256), ((5, 17, 0), None)),
        "commit 1581a884b7ca; docs/kernel/errors.md#long-commands",
    ),
    Gate(
        "removed_filter_is_empty",
        ((_START, False), ((5, 10, 0), True), ((6, 12, 0), False)),
        "event_filter_read() of 6.1.190 and 6.12.117; a guest of 4.9.115",
    ),
    Gate(
        "context_letters",
        ((_START, 4), ((5, 15, 0), 5)),
        "recorded traces 5.10 and 6.1; docs/kernel/trace.md#number-of-letters",
    ),
    _since("bh_letters", (5, 19, 0), "docs/kernel/trace.md#interrupts"),
    _since("lazy_resched", (6, 14, 0), "docs/kernel/trace.md#reschedule; recorded traces 7.2: 'l', 'B'; RT 6.12"),
    Gate("plain_return", ((_START, (1, 0)), ((5, 15, 0), (0, 0))), "recorded traces 5.10 and 6.1: fr_schedule"),
    Gate(
        "breakpoint",
        (
            (_START, (1, 0)),
            ((4, 4, 0), (9, 0)),
            ((4, 9, 0), (1, 0)),
            ((5, 10, 0), (0x49, 0)),
            ((5, 15, 0), (0x48, 0xFF)),
        ),
        "recorded traces 3.13 (d...), 4.4 (d.h.), 4.9 and 4.19 (d...), 5.10 (d.Z.) and 6.1 (..Zff): 11_offsets",
    ),
    _since(
        "program_depth_taken",
        (6, 1, 0),
        "recorded traces 5.10 (d...) and 6.1 (DNZff): 16_uprobe2; tracing_gen_ctx_dec() with preemption on",
    ),
    _since("returns_unwound", (5, 15, 0), "recorded traces 5.10 and 6.1 with stacks; x86/unwind since 5.15"),
    _since("stops_are_hidden", (6, 12, 0), "conformance suite on 6.1 and 6.12: open readers"),
    Gate(
        "held_size_errno",
        ((_START, errno.ENOMEM), ((6, 12, 0), errno.EBUSY)),
        "conformance suite on 6.1 and 6.12: open readers",
    ),
    Gate("nested_returns_know", ((_START, True), ((5, 15, 0), False)), "kernel/kprobes.c 5.10: correct_ret_addr"),
    Gate("trampoline_by_name", ((_START, True), ((5, 15, 0), False)), "trace_output.c 5.10: kretprobed()"),
    Gate(
        "mark_room",
        ((_START, True), ((6, 17, 0), False)),
        "conformance suite on 6.12 and 7.2: raw marks; trace.c of 6.12.117 and 7.2.13: FAULTED_SIZE",
    ),
    Gate("failed_element_keeps_room", ((_START, True), ((5, 15, 0), False)), "campaign 5.10, 6.1: '+0(%si):string[2]'"),
    Gate(
        "failed_kernel_read",
        ((_START, "zero"), ((6, 1, 0), "task"), ((6, 12, 0), "one")),
        "guests 5.10 to 7.3: 'a=@0xffffffffffe00000:x64'; __get_kernel_nofault() of 5.10 stores what its fixup made"
        " zero, later ones what the register held: `current`, or the count of disabled page faults",
    ),
    Gate(
        "read_faults",
        ((_START, ""), ((4, 19, 0), "4.19"), ((4, 20, 0), ""), ((5, 10, 0), "5.10"), ((5, 14, 0), "")),
        "guests of 4.19.108 and 5.10.262: kprobe_profile after 'a=@0x20000000:u64' and 60 more; commit ec6aba3d2be1."
        " Others before 5.14 count them, too, but weren't asked how many",
    ),
    Gate("pid_errno", ((_START, errno.EINVAL), ((5, 16, 0), errno.EPERM)), "campaign 5.10, 6.1: trace_pid_write()"),
    _since("pid_blanks_taken", (5, 15, 0), "campaign on 5.10 and 6.1: trace_pid_write()"),
    Gate("marks_seek", ((_START, True), ((5, 15, 0), False)), "campaign on 5.10 and 6.1: lseek(trace_marker)"),
    Gate("trace_seq_size", ((_START, 4096), ((6, 8, 0), 8156)), "trace_seq.h 6.1 and 6.12: TRACE_SEQ_BUFFER_SIZE"),
    _since("fields_as_symbols", (6, 16, 0), "trace_output.c 6.12.117 and 7.2: print_fields(); campaign"),
    _since("fields_strings_in_hex", (6, 19, 0), "guests of 6.16.12 to 7.0.13: 'p:q do_sys_openat2 a=+0(%si):ustring'"),
    Gate(
        "raw_mark_sizes",
        ((_START, (3072, 1024)), ((6, 8, 0), (4060, 4060)), ((6, 17, 0), (4064, 4064))),
        "trace.c 6.1, 6.12.117 and 7.2: tracing_mark_raw_write(), ring_buffer_max_event_size(); campaign on 6.12",
    ),
    Gate(
        "end_is_inside",
        ((_START, True), ((5, 16, 0), False)),
        "kallsyms.c 6.1.190: is_ksym_addr(); guests 5.10 and 6.1: 'r _end'",
    ),
    _since("eventfs", (6, 6, 0), "fs/tracefs/event_inode.c; conformance suite on 6.12: an event named like a file"),
    _since("index_is_whole", (6, 12, 0), "conformance suite on 5.10, 6.1 and 6.12: '12abc' to set_ftrace_filter"),
    Gate(
        "pid_limit",
        ((_START, 1 << 15), ((5, 16, 0), 1 << 30)),
        "conformance suite on 5.10 (pid_max of a small machine) and 6.1; trace_pid_list since 5.16",
    ),
    _since("module_events", (6, 14, 0), "README since 6.14; guests of 6.12.117 and 6.16.12 to 7.3-rc7: ':mod:foo'"),
    Gate("long_pids", ((_START, True), ((5, 16, 0), False)), "conformance suite on 5.10 and 6.1: 1 << 32"),
    Gate(
        "end_wakes",
        ((_START, False), ((6, 1, 0), True), ((6, 9, 0), False)),
        "trace.c: wait_pipe_cond(), commit 7af9ded0c2ca; conformance suite on 5.10, 6.1 and 6.12",
    ),
    Gate(
        "marker_depth",
        ((_START, 1), ((4, 4, 0), 0), ((6, 17, 0), 1)),
        "recorded traces 3.13, 4.4, 6.12 and 7.2: 07_marker; conformance on 6.19",
    ),
    Gate(
        "marker_stack",
        ((_START, b"\0\0"), ((5, 12, 0), b"\xff\xff"), ((6, 17, 0), b"\0\0")),
        "tracing_gen_ctx_dec(): the mark's depth less one, -1 with a borrow; conformance suite on 5.10, 6.1 and 7.2",
    ),
    Gate(
        "syscall_event_depth",
        ((_START, 1), ((6, 16, 0), 0)),
        "fixtures/static 6.1, 6.12, 7.2; a trace of 6.19: sys_openat",
    ),
    Gate("rename_depth", ((_START, 1), ((6, 16, 0), 0)), "fixtures/static 6.12, 7.2; a trace of 6.19: task_rename"),
    _since("syscalls_show_user_memory", (6, 19, 0), "fixtures/static 7.2; a trace of 6.19: sys_openat"),
    _since("syscall_numbers_prefixed", (6, 18, 0), "traces of 6.17.13 and 6.18.15: sys_fadvise64(…, offset: 0x1000"),
    Gate("marker_size", ((_START, 1024), ((6, 8, 0), 4054)), "docs/kernel/marks.md#size-of-a-mark"),
    Gate(
        "raw_data_type",
        ((_START, 16), ((5, 14, 0), 18), ((6, 16, 0), 19)),
        "recorded ids of ftrace/raw_data: 5.10, 6.1, 6.12, 7.2",
    ),
    _since("eprobes", (5, 15, 0), "trace_eprobe.c; README of 5.10 and 6.1"),
    _since(
        "fprobes",
        (6, 5, 0),
        "trace_fprobe.c; README of 6.1 and 6.12; docs/kernel/dynamic_events.md#definition-of-an-fprobe",
    ),
    Gate("fprobe_maxactive", ((_START, True), ((6, 14, 0), False)), "kinds 6.12 and 7.2: 'f10:fe vfs_read%return'"),
    _since("fprobes_late", (6, 16, 0), "trace_fprobe.c 7.2.13: trace_fprobe_verify_target(); kinds 6.12 and 7.2"),
    Gate(
        "fprobe_entry_depth", ((_START, 0), ((7, 2, 0), 1)), "guests of 6.12.117 to 7.1.13 and of 7.2.13: 'f:q openat'"
    ),
    _since("fprobes_wait", (6, 17, 0), "guests of 6.12.117 to 6.17.13: 't:q sched_switch' and 't:r sched_switch'"),
    _since("fprobe_stacks_whole", (6, 16, 0), "guests of 6.12.117 to 7.3-rc7: stacks at 'f:q do_sys_openat2'"),
    _since("graph_is_user", (5, 16, 0), "commit 0c0593b45c9b; recorded traces 5.10 and 6.1: 10_fgraph_"),
    _since("graph_exit_deep", (6, 16, 0), "the corpus of 6.12 and 6.16: graph.latency-format"),
    Gate(
        "fprobe_returns_unwound",
        ((_START, True), ((6, 16, 0), False), ((6, 18, 0), True)),
        "guests of 6.12.117 to 7.3-rc7: stacks at 'f:q do_sys_openat2%return'",
    ),
    Gate(
        "fprobes_apart",
        ((_START, True), ((6, 16, 0), False), ((6, 19, 0), True)),
        "guests of 6.16.12 to 6.19.14: depth of 'f:q do_sys_openat2' beside 'f:r do_sys_openat2%return'",
    ),
    Gate("eprobe_fields_late", ((_START, True), ((6, 5, 0), False)), "kinds 6.1 and 6.12: 'e:ep ... a=$nosuch'"),
    Gate(
        "event_variable_caret",
        ((_START, True), ((6, 16, 0), False), ((7, 0, 0), True)),
        "campaigns on 6.12.117, 6.16.12 to 6.19.14 and 7.0.13: 'e:a sched/sched_switch y=$nosuch'",
    ),
    _since("event_fields_by_name", (7, 3, 0), "kinds 7.2 and 7.3: 'e:ep sched/sched_switch prev_pid'"),
    _since("event_arrays_are_addresses", (6, 17, 0), "trace_eprobe.c 6.12.117 and 7.2.13: get_event_field()"),
    Gate("registers_refused_twice", ((_START, True), ((7, 3, 0), False)), "kinds 7.2 and 7.3: 'f:fe vfs_read a=%di'"),
    _since("uprobes_reject_symbols", (6, 5, 0), "kinds 6.1 and 6.12: 'p:up /bin/busybox:0x1000 a=%di:symbol'"),
    _since("synthetic_spaces", (6, 16, 0), "kinds 6.12 and 7.2: 's:syn u64 lat; pid_t pid'"),
    _since("unmatched_is_logged", (6, 19, 0), "docs/kernel/dynamic_events.md#no-kind"),
    _since("hist_hitcount", (6, 2, 0), "trace_events_hist.c of 6.1.190 and 6.12.117; fixtures/histograms"),
    Gate(
        "hist_percent",
        ((_START, True), ((6, 16, 0), False), ((7, 2, 0), True)),
        "answers of 6.1.190, 6.12.117, 6.16.12 to 7.1.13 and 7.2.13: 'hist:keys=prev_pid:vals=next_pid.percent'",
    ),
    _since("hist_comm", (6, 16, 0), "fixtures/histograms 6.12 and 6.19: 'hist:keys=common_comm'"),
    _since("hist_cpu_twice", (6, 16, 0), "fixtures/histograms 6.12 and 6.19: 'hist:keys=common_cpu'"),
    Gate(
        "hist_stacktrace_checked",
        ((_START, True), ((6, 16, 0), False), ((7, 2, 0), True)),
        "guests of 6.12.117, 6.16.12 to 7.1.13 and 7.2.13: 'hist:keys=a.stacktrace'",
    ),
    Gate(
        "hist_stack_fields",
        ((_START, False), ((6, 16, 0), True), ((7, 2, 0), False)),
        "guests of 6.12.117, 6.16.12 to 7.1.13 and 7.2.13: 'hist:keys=a:st=stacktrace'",
    ),
    Gate(
        "hist_held_by_names",
        ((_START, False), ((6, 16, 0), True), ((7, 2, 0), False)),
        "guests of 6.12.117, 6.16.12 to 7.1.13 and 7.2.13: 'hist:keys=a:name=n:x=a' in two instances, and rmdir",
    ),
    Gate(
        "hist_log2_wraps",
        (
            (_START, True),
            ((6, 1, 191), False),
            ((6, 2, 0), True),
            ((6, 12, 117), False),
            ((6, 13, 0), True),
            ((7, 2, 13), False),
            ((7, 3, 0), True),
            ((7, 3, 1), False),
        ),
        "hist_field_log2() of 6.1.192, 6.12.117, 7.2.13 and 7.3-rc7; fixtures/histograms: 'hist:keys=b.log2'; the "
        "release of 7.3 is assumed to be repaired",
    ),
    Gate(
        "hist_dollar_within",
        ((_START, False), ((6, 12, 117), True), ((6, 13, 0), False), ((7, 1, 13), True)),
        "6.1.190 and 6.19.14 against 6.12.117, 7.2.13 and 7.3-rc7: 'hist:keys=common_pid:vals=g.b.$x'",
    ),
    Gate(
        "hist_names_pile_up",
        ((_START, False), ((6, 16, 0), True), ((7, 0, 0), False)),
        "guests of 6.16.12, 6.19.14 and 7.0.13: a trigger with 'vals=zz.q.$x' read again and again",
    ),
    Gate(
        "hist_refused_fields",
        ((_START, True), ((6, 12, 117), False), ((6, 13, 0), True)),
        "guests of 6.1.190, 6.12.117 and 6.16.12 to 7.3-rc7: 'hist:keys=parent_pid:onmatch(sched.sched_process_wait)"
        ".zz_q(prio,nosuch)' beside 'hist:keys=pid' of sched_process_wait; create_field_var_hist() of 5.4.273",
    ),
    Gate(
        "ftrace_stops",
        ((_START, True), ((7, 3, 0), False)),
        "commit b0c857049153; guests of 5.10.262 to 7.2.13 and of 7.3-rc7: echo 0 > /proc/sys/kernel/ftrace_enabled",
    ),
    _since("dump_on_oops_text", (6, 9, 0), "commit 19f0423fd55c; guests of 6.1.190 and 6.12.117: echo foo > it"),
    Gate("perf_paranoid", ((_START, 1), ((4, 6, 0), 2)), "commit 0161028b7c8a"),
    _since("probe_pmus", (4, 17, 0), "commits e12f03d7031a and 33ea4b24277b; guests of 5.10.262 to 7.3-rc7"),
    _since("software_pmus_named", (6, 12, 0), "guests of 6.1.190 (kprobe has type 6) and 6.12.117 to 7.3-rc7 (8)"),
    Gate("hist_depth", ((_START, 2), ((6, 12, 0), 3)), "traces of 6.1, 6.12, 7.2, 7.3: get_hist_pad() since"),
)
