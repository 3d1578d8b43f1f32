"""What event filters can do."""

from __future__ import annotations

from kprobe_sim.builds.gates.gate import GateValues, gate, record, since, until
from kprobe_sim.builds.gates.question import TOO_OLD, Question, Unasked

_SWITCH = "@/events/sched/sched_switch"


def _filter(event: str, text: str, *refusals: str) -> Question:
    return Question((f"write @/events/{event}/filter {text}",), "errno", {"ok": True, **dict.fromkeys(refusals, False)})


@record
class FilterGates(GateValues):
    """What event filters can do."""

    # ---- fields and operators ----

    # FIELD.ustring
    ustring: bool = since(
        (5, 17, 0),
        "recorded: 4.19 refuses, 5.10.262 and later take it",
        _filter("syscalls/sys_enter_openat", 'filename.ustring == "x"', "EINVAL"),
        backports=((5, 10, 0),),
    )
    # FIELD.function == NAME
    function: bool = since(
        (6, 3, 0),
        "recorded: 6.1.190 refuses, 6.12.117 takes; 6.3 from the change log",
        Question(
            ("write kprobe_events p:zz/q vfs_read", "write @/events/zz/q/filter __probe_ip.function == vfs_read"),
            "errno",
            {"ok": True, "EINVAL": False},
        ),
    )
    # FIELD & CPUS{LIST}
    cpulist: bool = since(
        (6, 7, 0),
        "recorded: 6.1.190 refuses, 6.12.117 takes; 6.7 from the change log",
        _filter("sched/sched_switch", "CPU & CPUS{0}", "EINVAL"),
    )
    # the generic fields stacktrace and STACKTRACE
    stacktrace_field: bool = since(
        (6, 3, 0),
        "docs/kernel/filters.md#fields: not on 6.1.190, on 6.12.117",
        _filter("sched/sched_switch", "stacktrace==0", "EINVAL"),
    )
    # a trailing && or || is refused; else it is ignored
    incomplete_refused: bool = since(
        (7, 3, 1),
        "recorded: 5.10.262, 6.1.190, 7.2.13 and 7.3-rc7 take a trailing &&, 6.12.117 and 7.3.4 don't; "
        "'tracing: Reject incomplete event filter expressions' in ChangeLog-6.1.191 and -6.12.115",
        Question(
            ("write @/events/sched/sched_switch/filter prev_pid == 1 &&",), "errno", {"ok": False, "EINVAL": True}
        ),
        backports=((6, 1, 191), (6, 12, 115)),
    )
    # bytes of the buffer in which the text of the filter file is made
    message_space: int = gate(
        4096,
        {(6, 8, 0): 8156},
        "docs/kernel/filters.md#length-of-a-filter: one of 3005 bytes is cut on 5.10 and 6.1, whole on 6.12 and later; "
        "include/linux/trace_seq.h of 6.12: 8192 less its own fields",
        Question(
            (f"write {_SWITCH}/filter " + "prev_pid == 1 || " * 175 + "nosuch == 1", f"read {_SWITCH}/filter"),
            r"\Aprev_pid(?s:.*)(parse_error|==)",
            {"==": 4096, "parse_error": 8156},
        ),
    )
    # a refused filter of a trigger is in error_log too
    trigger_errors_logged: bool = since(
        (6, 12, 0),
        "docs/kernel/filters.md#filters-of-triggers: 6.1.190, 6.12.117",
        Question(
            (f"write {_SWITCH}/trigger traceoff if nosuch == 1",),
            "log",
            {"EINVAL": False, "EINVAL Field not found @7": True},
        ),
    )
    # a pattern longer than the field can't match its unterminated head
    full_match_bounded: bool = since(
        (7, 2, 0),  # assumed: the change logs of the newest series weren't read
        "'tracing/filters: Fix false positive match in regex_match_full()' in ChangeLog-6.1.183 and -6.12.103",
        Unasked("it would make the kernel read beyond a field"),
        backports=((6, 1, 183), (6, 12, 103)),
    )
    # a glob reads no further than the field
    glob_bounded: bool = since(
        (7, 2, 0),  # assumed: the change logs of the newest series weren't read
        "'tracing: Prevent out-of-bounds read in glob matching' in ChangeLog-6.1.178 and -6.12.96",
        Unasked("it would make the kernel read beyond a field"),
        backports=((6, 1, 178), (6, 12, 96)),
    )
    # [!x] doesn't match the end of the string
    glob_class_stops: bool = since(
        (6, 12, 0),
        "'lib: glob.c: added null check for character class', 2024",
        Unasked("where it doesn't, the kernel reads beyond a name, and what it finds is up to chance"),
    )

    # ---- before 5.10 ----

    # filters are read by precedence of operators, as before 4.17
    early_filters: bool = until((4, 17, 0), "recorded: filters of 4.4 and 4.19; commit 80765597bc58", TOO_OLD)
    # !(...)
    negation: bool = since((3, 19, 0), "recorded: 3.13 refuses !(...), 4.4 takes it", TOO_OLD)
    # the operator &
    bits: bool = since((3, 3, 0), "recorded: 3.2 refuses &, 3.13 takes it", TOO_OLD)
    # the generic fields CPU and comm
    generic_fields: bool = since((4, 3, 0), "recorded: 3.13 knows no CPU and comm, 4.4 does", TOO_OLD)
    # the generic field common_cpu
    common_cpu: bool = since(
        (5, 4, 0), "guests: 4.19.108 lacks the field of 'common_cpu > 256', 5.4.273 has it", TOO_OLD
    )
    # ~ takes ?, [] and a star anywhere
    early_globs: bool = since(
        (4, 10, 0), "recorded: filters of 4.4 and 4.14: 's ~ \"/tmp/f?\"'; globs came with 4.10", TOO_OLD
    )
    # comm ~ "PATTERN"
    comm_patterns: bool = since((4, 14, 0), "recorded: filters of 4.4 and 4.14: 'comm ~ \"r*\"'", TOO_OLD)
    # a group's filter that no event takes is refused; an event that can't take one keeps its own
    group_filter_refused: bool = until(
        (4, 17, 0),
        "replace_system_preds() of 3.0 and 3.13; commit 80765597bc58, which made process_system_preds() of it",
        TOO_OLD,
    )
    # a group's filter file shows the last one written, or none
    group_filter_shown: bool = until(
        (3, 3, 0),
        "recorded: events/sched/filter of 3.2 is 'none', that of 3.13 isn't; apply_subsystem_event_filter() of 3.0",
        TOO_OLD,
    )
