"""Rows of the table of gates for features that appeared or changed before 5.10, and are the same in all kernels since.

Such kernels can't be booted here; where a row names a function or a file, that was read there, and nothing ran.  In a
source 'definitions 4.4' is fixtures/definitions/4.4.jsonl, what a real 4.4 answered, and likewise 'triggers' and
'recorded traces'; between two recorded series a threshold is that of a change log, or of the newer one.
"""

from __future__ import annotations

import errno

from kprobe_sim.builds.rows.gate import START, Gate, since

_GRAPH_OPTIONS = (
    *("funcgraph-overrun", "funcgraph-cpu", "funcgraph-overhead", "funcgraph-proc", "funcgraph-duration"),
    *("funcgraph-abstime", "funcgraph-irqs", "funcgraph-tail", "sleep-time", "graph-time"),
)

EARLY: tuple[Gate, ...] = (
    Gate(
        "early",
        ((START, False), ((2, 6, 33), True), ((4, 20, 0), False)),
        "definitions 3.2 to 4.19; dynamic events came with 5.0",
    ),
    since("used_kept", (3, 1, 1), "commit 16fd0c4105bb: unregister_trace_probe() of 3.1.0 and 3.1.1"),
    since("place_said", (3, 1, 0), "__register_trace_probe() of 3.0 and 3.1; kprobe_addr() of kernel/kprobes.c"),
    Gate("early_arguments", ((START, True), ((2, 6, 34), False)), "commit 14640106f243; trace_kprobe.c of 2.6.33"),
    since("bitfields", (2, 6, 39), "commit 1ff511e35ed8; trace_kprobe.c of 2.6.38 and 2.6.39"),
    since("long_lines", (2, 6, 39), "commit e3745369986d; WRITE_BUFSIZE of 2.6.38 and 2.6.39"),
    since("strings", (2, 6, 36), "commit e09c8614b329; trace_kprobe.c of 2.6.35 and 2.6.36"),
    since("arguments_checked", (2, 6, 36), "commits aba91595cfce, da34634fd399; trace_kprobe.c of 2.6.35 and 2.6.36"),
    Gate(
        "third_common",
        ((START, "common_lock_depth"), ((2, 6, 39), "common_padding")),
        "trace_define_common_fields() of 2.6.38 and 2.6.39; recorded formats of 3.2",
    ),
    since("early_maxactive", (4, 12, 0), "commit 696ced4fb1d7; definitions 4.4 and 4.19: 'r10:x'"),
    Gate(
        "address_or_symbol",
        ((START, False), ((4, 9, 229), True), ((4, 10, 0), False), ((4, 13, 0), True)),
        "commit 9e52b3256712 of 4.13; definitions 4.4, 4.9.229 (by backport) and 4.14: 'p:x 0xzz', 'p:x 1abc'; "
        "4.9.0 had said 'Failed to parse address.'",
    ),
    since("returns_checked", (4, 12, 0), "definitions 4.9 and 4.14: 'r:x no_such_function_xyz'"),
    Gate(
        "missing_file_said",
        ((START, True), ((4, 14, 67), False), ((4, 15, 0), True), ((4, 18, 0), False)),
        "definitions 4.9, 4.14 (by backport) and 4.19: 'p:u /nonexistent:0x10'",
    ),
    since("return_addresses", (4, 12, 0), "definitions 4.9 and 4.14: 'r:x 0xffffffff81000000'"),
    Gate(
        "directory_said",
        ((START, "debugfs"), ((4, 1, 0), "tracefs")),
        "definitions 3.13 and 4.4: the log of 'p:g/enable do_sys_open'; tracefs came with 4.1",
    ),
    since("spaced_target", (4, 9, 229), "definitions 4.4 and 4.9: the log of 'p:x nomod:nofunc'"),
    Gate(
        "signed_offsets",
        (
            (START, False),
            ((4, 9, 229), True),
            ((4, 10, 0), False),
            ((4, 14, 67), True),
            ((4, 15, 0), False),
            ((4, 17, 0), True),
        ),
        "definitions 4.4, 4.9 and 4.14 (by backports), and 4.19: 'p:x do_sys_open-4'",
    ),
    since("comm_variable", (4, 8, 0), "commit 35abb67de744; definitions 4.4 and 4.19: 'a=$comm'"),
    Gate(
        "number_texts",
        ((START, "untyped"), ((2, 6, 35), "bare"), ((3, 15, 0), "prefixed"), ((4, 8, 0), "decimal")),
        "commit 93ccae7a2227; recorded formats of 3.13, 4.4 and 4.19: 'f8=%x', 'f8=0x%x', 'f8=%u'",
    ),
    since("uprobe_memory", (3, 14, 0), "definitions 3.13 and 4.4: 'p:u /bin/busybox:0x1000 $stack0'"),
    Gate(
        "unplaceable_taken",
        ((START, False), ((3, 1, 0), True), ((3, 4, 0), False)),
        "register_kprobe() of 3.0 and 3.1, kernel_text_address() in it; definitions 3.2 and 3.13: 'p:x jiffies'",
    ),
    Gate(
        "name_in_use",
        ((START, errno.EPERM), ((3, 11, 0), None)),
        "definitions 3.2 and 3.13: 'p:g/enable', 'p:sched/sched_switch'",
    ),
    since("pointers_hashed", (4, 15, 0), "commit ad67b74d2469; definitions 3.2: 'p:x 12345'"),
    Gate("unreadable_string", ((START, "empty"), ((4, 3, 0), "fault")), "recorded traces 3.13 and 4.4: t_ustr"),
    Gate("common_padding", ((START, True), ((3, 3, 0), False)), "recorded formats 3.2 and 3.13"),
    Gate(
        "trigger_blanks_kept",
        ((START, True), ((4, 9, 229), False), ((4, 10, 0), True), ((4, 20, 0), False)),
        "triggers of 4.4, 4.9 (by backport), 4.14, 4.19, 5.4 and 5.10: 'traceon:'; "
        "a guest of 4.19.108: 'traceon  if a0 > 4'",
    ),
    Gate(
        "hist_sym_offset",
        ((START, True), ((4, 17, 0), False), ((4, 20, 0), True)),
        "triggers of 4.14, 4.19 and 6.1: 'hist:keys=ptr.sym-offset'; commit 100719dcef44 of 4.17",
    ),
    since("hist_variables", (4, 17, 0), "triggers of 4.14 and 4.19: 'hist:keys=dfd:ts0=common_timestamp.usecs'"),
    since("hist_added_last", (4, 17, 0), "triggers of 4.14: two histograms; hist_register_trigger() of 4.14 and 5.4"),
    since("hist_buckets", (5, 14, 0), "triggers of 4.19 and 6.1: 'hist:keys=dfd.buckets=5'"),
    Gate("pid_width", ((START, 5), ((5, 4, 0), 7)), "recorded traces 4.19 and 5.4: 02_comms"),
    Gate(
        "header",
        (
            (START, "bare"),
            ((3, 13, 0), "narrow"),
            ((4, 13, 0), "uncounted"),
            ((4, 15, 0), "narrow"),
            ((5, 4, 0), "wide"),
        ),
        "recorded traces: 02_comms; commit 441dae8f2f29 of 4.13",
    ),
    Gate("latency_blanks", ((START, True), ((4, 4, 0), False)), "recorded traces 3.13 and 4.4: 03_opt_latency-format"),
    since("long_delays", (4, 4, 0), "recorded traces 3.13 and 4.4: 03_opt_latency-format"),
    Gate(
        "uptime_in_ns",
        ((START, True), ((3, 16, 0), False)),
        "commit 58d4e21e50ff of July 2014; recorded traces 3.13 and 4.4: 04_clock_uptime",
    ),
    since("preempt_resched", (3, 13, 0), "commit e5137b50a064; recorded traces 3.2 and 3.13: 09_irq_latency"),
    Gate("plain_entry", ((START, (1, 0)), ((4, 18, 0), (0, 0))), "recorded traces 4.4, 4.9, 4.14 and 4.19: 02_comms"),
    Gate(
        "graph_known",
        ((START, False), ((3, 2, 0), True)),
        "trace_functions_graph.c of 3.2.4 to 5.4.273; recorded traces 3.13, 4.4 and 4.19: 10_fgraph_*",
    ),
    Gate(
        "graph_options",
        ((START, _GRAPH_OPTIONS[:7]), ((4, 4, 0), _GRAPH_OPTIONS)),
        "trace_functions_graph.c of 3.2.4, 3.13.10 and 4.4.11; recorded traces 3.13 and 4.4: 10_fgraph_*",
    ),
    Gate(
        "options_come",
        ((START, True), ((4, 4, 0), False)),
        "recorded modes of 3.2, 3.13 and 4.4, before and after a tracer was chosen: options/test_nop_accept",
    ),
    since("graph_latency_apart", (5, 4, 0), "print_graph_lat_fmt() of 4.19.108 and 5.4.273; traces of 4.19 and 5.10"),
    Gate(
        "graph_leaf_arrow",
        ((START, False), ((4, 9, 229), True), ((4, 10, 0), False), ((4, 14, 67), True)),
        "print_graph_entry_leaf() of 4.4.11, 4.9.229 (by backport), 4.14.67 and 4.19.108",
    ),
    since("graph_arrow_letters", (4, 4, 0), "print_graph_irq() of 3.13.10 and 4.4.11"),
    Gate(
        "removed_are_unknown",
        ((START, True), ((5, 0, 0), False)),
        "recorded traces 4.19 and 5.10: 18_probes_removed",
    ),
    Gate("entry_stack", ((START, "callers"), ((4, 9, 0), "function")), "recorded traces 4.4 and 4.9: stacktrace"),
    Gate(
        "return_stack",
        ((START, "above"), ((4, 9, 0), "both"), ((5, 4, 0), "usual")),
        "recorded traces 3.2 to 5.4: stacktrace",
    ),
    since(
        "read_bytes_counted",
        (5, 10, 0),
        "ring_buffer_read_page() and ring_buffer_bytes_cpu() of 4.14.67; guests of it and of 5.10.262",
    ),
    Gate("last_byte_unused", ((START, True), ((4, 4, 0), False)), "recorded traces 3.2 and 4.4: a path of 3,999 bytes"),
    Gate(
        "word_size",
        ((START, 8),),
        "a profile of i386 answers 4: replays/seeds/wind-river/01-definitions; unsigned long in arch/x86 of 3.13",
    ),
    since("printed_sources", (4, 14, 0), "definitions 4.9 and 4.14: the kernel's log"),
    Gate("insertion_said", ((START, True), ((4, 18, 0), False)), "definitions 4.14 and 4.19: the log of 'p:x jiffies'"),
    since("notrace_checked", (4, 18, 0), "definitions 4.14 and 4.19: 'p:x memcpy', refused before all else"),
    Gate(
        "too_long_said",
        (
            (START, "Line length is too long: Should be less than 128."),
            ((2, 6, 39), "Line length is too long: Should be less than 4096."),
            ((4, 9, 0), "Line length is too long: Should be less than 4096"),
            ((4, 14, 0), "trace_probe: Line length is too long: Should be less than 4094"),
            ((4, 18, 0), "Line length is too long: Should be less than 4094"),
        ),
        "commit e3745369986d; definitions 4.4, 4.9, 4.14 and 4.19: the log of a line of 5,000 bytes",
    ),
    Gate(
        "uprobes_named_kprobes",
        ((START, False), ((4, 14, 0), True), ((4, 18, 0), False)),
        "definitions 4.14 and 4.19: the log of 'p:u /bin:0x10'",
    ),
    since("strings_told_apart", (5, 10, 0), "recorded traces 5.4 and 5.10: 's=+0(%si):string' of an empty path"),
    since("percent_return", (5, 10, 0), "definitions 5.4 and 5.10: 'p:x do_sys_open%return'"),
    since("capital_comm", (5, 4, 273), "definitions 4.19 and 5.4: 'a=$COMM'"),
    Gate(
        "sizes_as_asked",
        ((START, True), ((5, 10, 0), False)),
        "a guest of 5.4.273: buffer_size_kb after writes of 1 and 96, and 1408 when expanded; 1410 on 5.10",
    ),
    Gate(
        "late_events_pass",
        (
            *((START, True), ((5, 4, 163), False), ((5, 5, 0), True), ((5, 10, 83), False), ((5, 11, 0), True)),
            ((5, 15, 6), False),
        ),
        "commit 6cb206508b62 (5.16; 5.15.6); a guest of 4.9.115: a probe that is added after set_event_pid was written",
    ),
    Gate(
        "held_elsewhere",
        ((START, False), ((3, 19, 0), True), ((5, 4, 60), False)),
        "commits cf6ab6d9143b and 7ef282e05132 (5.9; 5.4.60); a guest of 4.9.115: rmdir of an instance while another's "
        "trace_pipe is open; conformance suite on 5.4.273",
    ),
    since("one_pipe", (5, 10, 0), "conformance suite on 5.4.273 and 5.10: 'trace_pipe: a second reader'"),
    Gate(
        "mask_padded",
        ((START, True), ((4, 9, 229), False), ((4, 10, 0), True), ((4, 14, 67), False)),
        "recorded: tracing_cpumask of 3.2, 3.13 and 4.4, of two CPUs, has three bytes, that of 4.19 two; "
        "commit 90e406f96f63 of 4.15, which 4.9 and 4.14 took over",
    ),
    Gate(
        "stats_lines",
        ((START, 3), ((3, 2, 0), 6), ((3, 13, 0), 8)),
        "recorded traces 3.2 and 3.13: 04_clock_*.cpu0.stats; tracing_stats_read() of 3.0",
    ),
    since("stats_by_clock", (3, 13, 0), "recorded traces 3.2 and 3.13: 04_clock_counter.cpu0.stats"),
    since("empty_masks", (5, 10, 0), "__bitmap_parse() of 5.4.273; conformance suite: a newline to tracing_cpumask"),
    Gate(
        "removed_files_read",
        ((START, False), ((5, 4, 273), True), ((5, 10, 0), False)),
        "a guest of 4.9.115, conformance suite on 5.4.273 and 5.10: enable and filter of an event that goes while open",
    ),
    Gate(
        "snapshot_allocates",
        ((START, True), ((4, 9, 229), False), ((4, 10, 0), True)),
        "a guest of 4.9.229, whose tracing_snapshot_write() lost it by backport: 1 to `snapshot`",
    ),
    Gate("name_size", ((START, 64), ((5, 10, 0), 63)), "definitions 5.4 and 5.10: a name of 64 letters"),
    since("symbols_counted", (5, 10, 0), "definitions 5.4 and 5.10: 'p:x s_show', 'p ev do_sys_open'"),
    since(
        "hist_log_is_whole",
        (5, 10, 0),
        "fixtures/histograms 5.4 and 6.1: the log; last_cmd_set() of 5.4.273",
    ),
    since(
        "hist_values_checked",
        (5, 10, 0),
        "fixtures/histograms 5.4 and 6.1: 'hist:keys=a:vals=b.log2'; create_val_fields() of 5.4.273",
    ),
    since("hist_arithmetic", (5, 16, 0), "commit bcef04415032; contains_operator() and parse_expr() of 5.4.273"),
    since("hist_name_variables", (5, 10, 0), "create_var_field() of 5.4.273: 'x=common_pid.execname'"),
    since("hist_actions_first", (5, 10, 0), "event_hist_trigger_func() of 5.4.273: reg(), then create_actions()"),
    Gate(
        "hist_frames_skipped",
        ((START, 3), ((5, 10, 0), 2)),
        "fixtures/histograms 5.4 and 6.1: 'hist:keys=stacktrace'; what is inlined makes the difference",
    ),
    since(
        "hist_keys_ordered",
        (5, 10, 0),
        "cmp_entries_dup() of 5.4.273, which finds all entries greater than others; tracing_map_insert()",
    ),
    since(
        "synthetic_checked",
        (5, 10, 0),
        "parse_synth_field() of 5.4.273; guests: 's char c[]', 's bool b', '1x u64 v'",
    ),
    since("synthetic_fits_by_size", (5, 10, 0), "check_synth_field() of 5.4.273"),
    Gate(
        "synthetic_newest_first",
        ((START, True), ((4, 20, 0), False)),
        "a guest of 4.19.108: 'a u64 x', 'b u64 x'; dynamic events came with 5.0",
    ),
    since("synthetic_semicolon_kept", (5, 4, 0), "guests of 4.19.108 and 5.4.273: 's char c[16]; u64 b'"),
    since("synthetic_gfp", (5, 4, 0), "guests of 4.19.108 and 5.4.273: 'e gfp_t f'"),
    Gate("synthetic_fields", ((START, 16), ((5, 10, 0), 64)), "SYNTH_FIELDS_MAX of 5.4.273 and 6.1"),
    Gate("synthetic_string", ((START, 32), ((5, 10, 0), 256)), "STR_VAR_LEN_MAX of 5.4.273 and 6.1"),
    Gate(
        "refused_variables_oops",
        ((START, False), ((5, 4, 0), True), ((5, 10, 0), False)),
        "guests: 'hist:keys=prev_pid:a=stacktrace' ends 5.4.273, as 'x=nosuch' does, and 4.19.108 refuses both; "
        "answers of 5.10",
    ),
)
