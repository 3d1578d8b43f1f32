"""Questions about dynamic events of other kinds: event probes, fprobes, uprobes, synthetic events."""

from __future__ import annotations

from typing import Any

from kprobe_sim.builds.questions.question import ABSENT, Question, Unasked, refused_variable

_FETCH = "Invalid fetch argument @"


def _defined(row: str, line: str, values: dict[str, Any]) -> Question:
    return Question(row, (f"write dynamic_events {line}",), "log", values)


def _kind(row: str, line: str) -> Question:
    """Return the question whether a kernel has a kind of events."""
    return _defined(row, line, {"ok": True, "EINVAL": False, "EINVAL No matching dynamic event type @0": False})


QUESTIONS = (
    _kind("eprobes", "e:zz/q sched/sched_switch"),
    _kind("fprobes", "f:zz/q vfs_read"),
    _defined(
        "fprobe_maxactive",
        "f10:zz/q vfs_read%return",
        {"EINVAL": ABSENT, "ok": True, "EINVAL Invalid maxactive number @1": False},
    ),
    _defined(
        "fprobes_late",
        "f:zz/q no_such_function_xyz",
        {
            "EINVAL": ABSENT,
            "EINVAL Failed to register probe event @7": False,
            "EINVAL Invalid probed address or symbol @7": True,
        },
    ),
    Question(
        "fprobes_wait",
        ("? write dynamic_events t:zz/q sched_switch", "? write dynamic_events t:zz/r sched_switch"),
        "errno",
        {"EINVAL EINVAL": ABSENT, "ok EEXIST": False, "ok EINVAL": False, "ok ok": True},
    ),
    _defined(
        "eprobe_fields_late",
        "e:zz/q sched/sched_switch a=$nosuch",
        {
            "EINVAL": ABSENT,
            "ENOENT Attached event does not have this field @26": True,
            **refused_variable("EINVAL {} @28", False),
            **refused_variable("EINVAL {} @26", False),
        },
    ),
    _defined(
        "event_variable_caret",
        "e:zz/q sched/sched_switch a=$nosuch",
        {
            "EINVAL": ABSENT,
            "ENOENT Attached event does not have this field @26": ABSENT,
            **refused_variable("EINVAL {} @28", True),
            **refused_variable("EINVAL {} @26", False),
        },
    ),
    _defined(
        "event_fields_by_name",
        "e:zz/q sched/sched_switch a=prev_pid",
        {
            "EINVAL": ABSENT,
            f"EINVAL {_FETCH}28": False,
            "EINVAL BTF is not available or not supported @28": False,
            "ok": True,
        },
    ),
    Question(
        "event_arrays_are_addresses",
        (
            "write dynamic_events e:zz/q raw_syscalls/sys_enter id=$id a=$args:x64",
            "write @/events/zz/q/enable 1",
            "open /etc/hostname",
            "write @/tracing_on 0",
            "read @/trace",
        ),
        r"workload-.* id=0x101 a=0x(?:(ffffff9c|ffffffffffffff9c)$|ffff[89a-e])",
        {"none": ABSENT, "ffffff9c": False, "ffffffffffffff9c": False, "match": True},
    ),
    _defined(
        "registers_refused_twice",
        "f:zz/q vfs_read a=%di",
        {
            "EINVAL": ABSENT,
            **refused_variable(f"EINVAL {{}} @18 {_FETCH}18", True),
            **refused_variable("EINVAL {} @18", False),
        },
    ),
    _defined(
        "uprobes_reject_symbols",
        "p:zz/q /bin/busybox:0x1000 a=%di:symbol",
        {"ok": False, "EINVAL Unknown type is specified @33": True},
    ),
    Question(
        "synthetic_spaces",
        ("write dynamic_events s:zz_q u64 a; pid_t b", "read events/synthetic/zz_q/format"),
        r"print fmt: \"a=%llu(,?) b",
        {"ENOENT": ABSENT, ",": False, "match": True},
    ),
    _defined("unmatched_is_logged", "zz", {"EINVAL": False, "EINVAL No matching dynamic event type @0": True}),
)

UNASKED: tuple[Unasked, ...] = (
    Unasked("program_depth_taken", "no place of the workload's program is known, at which it would hit a uprobe"),
)
