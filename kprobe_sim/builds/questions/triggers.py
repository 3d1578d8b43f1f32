"""Questions about histograms, triggers and filters."""

from __future__ import annotations

from typing import Any

from kprobe_sim.builds.questions.question import ABSENT, Question, Unasked

_SWITCH = "@/events/sched/sched_switch"


def _filter(row: str, event: str, text: str, *refusals: str) -> Question:
    return Question(
        row, (f"write @/events/{event}/filter {text}",), "errno", {"ok": True, **dict.fromkeys(refusals, False)}
    )


def _hist(row: str, text: str, values: dict[str, Any]) -> Question:
    return Question(row, (f"write {_SWITCH}/trigger hist:{text}",), "log", values)


QUESTIONS = (
    _hist(
        "hist_hitcount",
        "keys=prev_pid:vals=hitcount.hex",
        {"EINVAL": ABSENT, "ok": True, "EINVAL Couldn't find field @24": False}
        | {"EINVAL Couldn't find field @19": False},
    ),
    _hist(
        "hist_percent",
        "keys=prev_pid:vals=next_pid.percent",
        {"EINVAL": ABSENT, "ok": True, "EINVAL Invalid field modifier @24": False}
        | {"EINVAL Invalid field modifier @28": False},
    ),
    _hist(
        "hist_comm",
        "keys=common_comm",
        {"EINVAL": ABSENT, "ok": True, "EINVAL Couldn't find field @10": False}
        | {"EINVAL Couldn't find field @5": False},
    ),
    Question(
        "hist_cpu_twice",
        (f"write {_SWITCH}/trigger hist:keys=common_cpu", f"read {_SWITCH}/trigger"),
        r"hist:keys=(.*?):",
        {"none": ABSENT, "common_cpu": False, "common_cpucommon_cpu": True},
    ),
    Question(
        "hist_stacktrace_checked",  # of an event that never fires: the kernel would take what stands there for a stack
        ("write dynamic_events s:zz_q u64 a", "write @/events/synthetic/zz_q/trigger hist:keys=a.stacktrace"),
        "errno",
        {"ENOENT": ABSENT, "EINVAL": True, "ok": False},
    ),
    Question(
        "hist_stack_fields",
        (f"write {_SWITCH}/trigger hist:keys=prev_pid:a=stacktrace", f"read {_SWITCH}/trigger"),
        r":a=(.*?):",
        {"none": ABSENT, "common_stacktrace": False, "stacktrace": True},
        unless="refused_variables_oops",
    ),
    Question(
        "hist_held_by_names",
        (
            "write events/sched/sched_switch/trigger hist:keys=prev_pid:name=zz_q:a=prev_pid",
            f"? write {_SWITCH}/trigger hist:keys=prev_pid:name=zz_q:a=prev_pid",
            "? rmdir @",
        ),
        "errno",
        {"EINVAL ok": ABSENT, "ok ok": False, "ok EBUSY": True},
    ),
    Question(
        "hist_log2_wraps",
        (
            "write kprobe_events p:zz/q <open> a=\\-1:u64",
            "write @/events/zz/q/trigger hist:keys=a.log2",
            "open /etc/hostname",
            "read @/events/zz/q/hist",
        ),
        r"a: (.*?) *\}",
        {"ENOENT": ABSENT, "~ 2^0": True, "~ 2^64": False},
    ),
    Question(
        "hist_dollar_within",
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
    Question(
        "hist_refused_fields",
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
    Question(
        "hist_depth",  # beside the trigger's own depth
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
    Question(
        "sort_takes_two",  # of four that are equal, and stand as 97, 98, 99 and 100 are hashed
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
    _filter("ustring", "syscalls/sys_enter_openat", 'filename.ustring == "x"', "EINVAL"),
    Question(
        "function",
        ("write kprobe_events p:zz/q vfs_read", "write @/events/zz/q/filter __probe_ip.function == vfs_read"),
        "errno",
        {"ok": True, "EINVAL": False},
    ),
    _filter("cpulist", "sched/sched_switch", "CPU & CPUS{0}", "EINVAL"),
    _filter("stacktrace_field", "sched/sched_switch", "stacktrace==0", "EINVAL"),
    Question(
        "incomplete_refused",
        ("write @/events/sched/sched_switch/filter prev_pid == 1 &&",),
        "errno",
        {"ok": False, "EINVAL": True},
    ),
    Question(
        "message_space",
        (f"write {_SWITCH}/filter " + "prev_pid == 1 || " * 175 + "nosuch == 1", f"read {_SWITCH}/filter"),
        r"\Aprev_pid(?s:.*)(parse_error|==)",
        {"==": 4096, "parse_error": 8156},
    ),
    Question(
        "trigger_errors_logged",
        (f"write {_SWITCH}/trigger traceoff if nosuch == 1",),
        "log",
        {"EINVAL": False, "EINVAL Field not found @7": True},
    ),
)

UNASKED = (
    Unasked(
        "hist_names_pile_up",
        "each look takes some of 256 bytes that such a kernel has until it is booted again, and it oopses without them",
    ),
    Unasked("glob_class_stops", "where it doesn't, the kernel reads beyond a name, and what it finds is up to chance"),
    Unasked("full_match_bounded", "it would make the kernel read beyond a field"),
    Unasked("glob_bounded", "it would make the kernel read beyond a field"),
)
