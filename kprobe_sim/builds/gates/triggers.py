"""Histograms and other triggers."""

from __future__ import annotations

from typing import Any

from kprobe_sim.builds.gates.gate import gate, since, until
from kprobe_sim.builds.gates.question import ABSENT, TOO_OLD, Question, Unasked

_SWITCH = "@/events/sched/sched_switch"


def _hist(text: str, values: dict[str, Any]) -> Question:
    return Question((f"write {_SWITCH}/trigger hist:{text}",), "log", values)


class TriggerGates:
    """Histograms and other triggers."""

    # ---- histograms ----

    # histograms take nohitcount, and hitcount as a field with a modifier
    hist_hitcount: bool = since(
        (6, 2, 0),
        "trace_events_hist.c of 6.1.190 and 6.12.117; fixtures/histograms",
        _hist(
            "keys=prev_pid:vals=hitcount.hex",
            {"EINVAL": ABSENT, "ok": True, "EINVAL Couldn't find field @24": False}
            | {"EINVAL Couldn't find field @19": False},
        ),
    )
    # values take .percent and .graph
    hist_percent: bool = gate(
        True,
        {(6, 16, 0): False, (7, 2, 0): True},
        "answers of 6.1.190, 6.12.117, 6.16.12 to 7.1.13 and 7.2.13: 'hist:keys=prev_pid:vals=next_pid.percent'",
        _hist(
            "keys=prev_pid:vals=next_pid.percent",
            {"EINVAL": ABSENT, "ok": True, "EINVAL Invalid field modifier @24": False}
            | {"EINVAL Invalid field modifier @28": False},
        ),
    )
    # histograms take common_comm, comm and COMM
    hist_comm: bool = since(
        (6, 16, 0),
        "fixtures/histograms 6.12 and 6.19: 'hist:keys=common_comm'",
        _hist(
            "keys=common_comm",
            {"EINVAL": ABSENT, "ok": True, "EINVAL Couldn't find field @10": False}
            | {"EINVAL Couldn't find field @5": False},
        ),
    )
    # the trigger file shows common_cpu, followed by the field's name
    hist_cpu_twice: bool = since(
        (6, 16, 0),
        "fixtures/histograms 6.12 and 6.19: 'hist:keys=common_cpu'",
        Question(
            (f"write {_SWITCH}/trigger hist:keys=common_cpu", f"read {_SWITCH}/trigger"),
            r"hist:keys=(.*?):",
            {"none": ABSENT, "common_cpu": False, "common_cpucommon_cpu": True},
        ),
    )
    # .stacktrace is refused for a field that isn't a call chain
    hist_stacktrace_checked: bool = gate(
        True,
        {(6, 16, 0): False, (7, 2, 0): True},
        "guests of 6.12.117, 6.16.12 to 7.1.13 and 7.2.13: 'hist:keys=a.stacktrace'",
        Question(  # on an event that never fires: the kernel would take the value for a stack
            ("write dynamic_events s:zz_q u64 a", "write @/events/synthetic/zz_q/trigger hist:keys=a.stacktrace"),
            "errno",
            {"ENOENT": ABSENT, "EINVAL": True, "ok": False},
        ),
    )
    # stacktrace and STACKTRACE are fields, shown by these names except as a key of that name
    hist_stack_fields: bool = gate(
        False,
        {(6, 16, 0): True, (7, 2, 0): False},
        "guests of 6.12.117, 6.16.12 to 7.1.13 and 7.2.13: 'hist:keys=a:st=stacktrace'",
        Question(
            (f"write {_SWITCH}/trigger hist:keys=prev_pid:a=stacktrace", f"read {_SWITCH}/trigger"),
            r":a=(.*?):",
            {"none": ABSENT, "common_stacktrace": False, "stacktrace": True},
            unless="refused_variables_oops",
        ),
    )
    # a named histogram with variables holds each instance whose triggers share it
    hist_held_by_names: bool = gate(
        False,
        {(6, 16, 0): True, (7, 2, 0): False},
        "guests of 6.12.117, 6.16.12 to 7.1.13 and 7.2.13: 'hist:keys=a:name=n:x=a' in two instances, and rmdir",
        Question(
            (
                "write events/sched/sched_switch/trigger hist:keys=prev_pid:name=zz_q:a=prev_pid",
                f"? write {_SWITCH}/trigger hist:keys=prev_pid:name=zz_q:a=prev_pid",
                "? rmdir @",
            ),
            "errno",
            {"EINVAL ok": ABSENT, "ok ok": False, "ok EBUSY": True},
        ),
    )
    # the logarithm of a value above 2**63 is 0, not 64
    hist_log2_wraps: bool = until(
        (7, 3, 1),
        "hist_field_log2() of 6.1.192, 6.12.117, 7.2.13 and 7.3-rc7; fixtures/histograms: 'hist:keys=b.log2'; the "
        "release of 7.3 is assumed to be repaired",
        Question(
            (
                "write kprobe_events p:zz/q <open> a=\\-1:u64",
                "write @/events/zz/q/trigger hist:keys=a.log2",
                "open /etc/hostname",
                "read @/events/zz/q/hist",
            ),
            r"a: (.*?) *\}",
            {"ENOENT": ABSENT, "~ 2^0": True, "~ 2^64": False},
        ),
        backports=((6, 1, 191), (6, 12, 117), (7, 2, 13)),
    )
    # a variable of another event is SYSTEM.EVENT.$NAME, not $SYSTEM.EVENT.NAME
    hist_dollar_within: bool = since(
        (7, 1, 13),
        "6.1.190 and 6.19.14 against 6.12.117, 7.2.13 and 7.3-rc7: 'hist:keys=common_pid:vals=g.b.$x'",
        Question(
            (
                "write kprobe_events p:zz/q <open> a=%di:u32",
                "write @/events/zz/q/trigger hist:keys=a:x=a",
                "write @/events/sched/sched_waking/trigger hist:keys=pid:y=zz.q.$x",
                "read @/events/sched/sched_waking/trigger",
            ),
            r":y=(\$?)\S*?zz\.q\.(\$?)x",
            {"none": ABSENT, ",$": True, "$,": False},
            unless="refused_variables_oops",
        ),
        backports=((6, 12, 117),),
    )
    # a refused action leaves the histograms that were made for fields of other events
    hist_refused_fields: bool = gate(
        True,
        {(6, 12, 117): False, (6, 13, 0): True},
        "guests of 6.1.190, 6.12.117 and 6.16.12 to 7.3-rc7: 'hist:keys=parent_pid:onmatch(sched.sched_process_wait)"
        ".zz_q(prio,nosuch)' beside 'hist:keys=pid' of sched_process_wait; create_field_var_hist() of 5.4.273",
        Question(
            (
                "write dynamic_events s:zz_q int a; int b",
                "write @/events/sched/sched_process_wait/trigger hist:keys=pid",
                "write @/events/sched/sched_process_fork/trigger "
                "hist:keys=parent_pid:onmatch(sched.sched_process_wait).zz_q(prio,nosuch)",
                "? read @/events/sched/sched_process_wait/trigger",
                "write @/events/sched/sched_process_wait/trigger !hist:keys=pid:synthetic_prio=prio",
            ),
            r"\A(?:(?s:.*)(synthetic_prio)=|hist:)",
            {"none": ABSENT, "match": False, "synthetic_prio": True},
        ),
    )
    # the text of a variable of another event is appended to all that were shown before
    hist_names_pile_up: bool = gate(
        False,
        {(6, 16, 0): True, (7, 0, 0): False},
        "guests of 6.16.12, 6.19.14 and 7.0.13: a trigger with 'vals=zz.q.$x' read again and again",
        Unasked(
            "each read uses some of 256 bytes that such a kernel has until its next boot, and without them it oopses"
        ),
    )
    # how much more common_preempt_count is in a histogram's synthetic event than in its trigger's event
    hist_depth: int = gate(
        2,
        {(6, 12, 0): 3},
        "traces of 6.1, 6.12, 7.2, 7.3: get_hist_pad() since",
        Question(  # beside the trigger's own depth
            (
                "write dynamic_events s:zz_q pid_t a",
                "write @/events/task/task_rename/trigger hist:keys=pid:x=pid:onmax($x).zz_q(pid)",
                "write @/events/task/task_rename/enable 1",
                "write @/events/synthetic/zz_q/enable 1",
                "rename other",
                "write @/tracing_on 0",
                "read @/trace",
            ),
            r"\] \S\S\S(\S)\S? +\d+\.\d+: task_rename: .*\n.*\] \S\S\S(\S)\S? +\d+\.\d+: zz_q: ",
            {"none": ABSENT, ".,.": 0, ".,2": 2, "1,3": 2, ".,3": 3, "1,4": 3},
        ),
    )
    # sort() takes two from its heap at once
    sort_takes_two: bool = since(
        (6, 11, 0),
        "lib/sort.c 6.12: sort_r()",
        Question(  # of four equal entries, in the order of the hashes of 97, 98, 99 and 100
            (
                "write kprobe_events p:zz/q <open> a=+u1(%si):u8",
                'write @/events/zz/q/trigger hist:keys=a if comm == "workload"',
                *(f"open /{letter}" for letter in "abcd"),
                "read @/events/zz/q/hist",
            ),
            r"^\{ a: +(\d+) \}.*\n\{ a: +(\d+) \}.*\n\{ a: +(\d+) \}.*\n\{ a: +(\d+) \}",
            # the first is that of 5.4 (hist_keys_ordered)
            {"ENOENT": ABSENT, "97,100,98,99": False, "98,99,100,97": False, "98,100,99,97": True},
        ),
    )

    # ---- before 5.10 ----

    # .sym-offset is taken; else its minus is an operator
    hist_sym_offset: bool = gate(
        True,
        {(4, 17, 0): False, (4, 20, 0): True},
        "triggers of 4.14, 4.19 and 6.1: 'hist:keys=ptr.sym-offset'; commit 100719dcef44 of 4.17",
        TOO_OLD,
    )
    # NAME=FIELD in a histogram
    hist_variables: bool = since(
        (4, 17, 0), "triggers of 4.14 and 4.19: 'hist:keys=dfd:ts0=common_timestamp.usecs'", TOO_OLD
    )
    # a histogram is added after the other triggers of its event; else before them, as others are
    hist_added_last: bool = since(
        (4, 17, 0), "triggers of 4.14: two histograms; hist_register_trigger() of 4.14 and 5.4", TOO_OLD
    )
    # .buckets=N
    hist_buckets: bool = since((5, 14, 0), "triggers of 4.19 and 6.1: 'hist:keys=dfd.buckets=5'", TOO_OLD)
    # a variable of an unknown field crashes the kernel; the simulated one refuses it
    refused_variables_oops: bool = gate(
        False,
        {(5, 4, 0): True, (5, 10, 0): False},
        "guests: 'hist:keys=prev_pid:a=stacktrace' ends 5.4.273, as 'x=nosuch' does, and 4.19.108 refuses both; "
        "answers of 5.10",
        TOO_OLD,
    )
    # error_log shows a histogram with its hist:, and what is wrong with an assignment or sort
    hist_log_is_whole: bool = since(
        (5, 10, 0), "fixtures/histograms 5.4 and 6.1: the log; last_cmd_set() of 5.4.273", TOO_OLD
    )
    # values and variables with an unfit modifier are refused
    hist_values_checked: bool = since(
        (5, 10, 0),
        "fixtures/histograms 5.4 and 6.1: 'hist:keys=a:vals=b.log2'; create_val_fields() of 5.4.273",
        TOO_OLD,
    )
    # expressions have *, / and numbers, and are split at the last operator, else at the first
    hist_arithmetic: bool = since(
        (5, 16, 0), "commit bcef04415032; contains_operator() and parse_expr() of 5.4.273", TOO_OLD
    )
    # a variable of common_pid.execname is the task's name
    hist_name_variables: bool = since((5, 10, 0), "create_var_field() of 5.4.273: 'x=common_pid.execname'", TOO_OLD)
    # actions are created before the kernel checks whether the histogram can be added
    hist_actions_first: bool = since(
        (5, 10, 0), "event_hist_trigger_func() of 5.4.273: reg(), then create_actions()", TOO_OLD
    )
    # how many frames a histogram's stack leaves out of those that a stacktrace trigger shows
    # (HIST_STACKTRACE_SKIP)
    hist_frames_skipped: int = gate(
        3,
        {(5, 10, 0): 2},
        "fixtures/histograms 5.4 and 6.1: 'hist:keys=stacktrace'; what is inlined makes the difference",
        TOO_OLD,
    )
    # entries that sort as equal are in the order of their keys, else of the hashes of these
    hist_keys_ordered: bool = since(
        (5, 10, 0),
        "cmp_entries_dup() of 5.4.273, which finds all entries greater than others; tracing_map_insert()",
        TOO_OLD,
    )

    # ---- other triggers ----

    # blanks are part of the text after them, and traceon: has an empty filter
    trigger_blanks_kept: bool = until(
        (4, 20, 0),
        "triggers of 4.4, 4.9 (by backport), 4.14, 4.19, 5.4 and 5.10: 'traceon:'; "
        "a guest of 4.19.108: 'traceon  if a0 > 4'",
        TOO_OLD,
        backports=((4, 9, 229),),
    )
