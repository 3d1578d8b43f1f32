"""Dynamic events other than kprobes: uprobes, event probes, fprobes, tracepoint probes, synthetic events."""

from __future__ import annotations

from errno import EBUSY, EEXIST, EINVAL, ENODEV, ENOENT, ENOTDIR
from typing import Any

import pytest

from .builds import BTF, CURRENT, EPROBES, FPROBES_LATE, FPROBES_WAIT, UNMATCHED_LOGGED
from .builds import VALIABLE as SAYS_VALIABLE
from .text import errors, refused

FILE = "/bin/busybox"
VARIABLE, VALIABLE = "Invalid $-variable specified", "Invalid $-valiable specified"  # 6.19 spells it so
NO_MATCH = "dynevent: error: No matching dynamic event type"


def add(tracefs: Any, *lines: str) -> None:
    """Write lines to dynamic_events, each by itself."""
    for line in lines:
        tracefs.write("dynamic_events", line.encode())


def listed(tracefs: Any, file: str = "dynamic_events") -> list[str]:
    return list(tracefs.read(file).decode().splitlines())


def has(tracefs: Any, choose: Any, *marks: str) -> bool:
    """True if the README has one of the texts."""
    return bool(choose({"": False, **dict.fromkeys(marks, True)}))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"p:up {FILE}:0x1000", f"p:uprobes/up {FILE}:0x0000000000001000"),
        (f"r {FILE}:4096 $retval", f"r:uprobes/p_busybox_0x1000 {FILE}:0x0000000000001000 arg1=$retval"),
        (f"p:g/up {FILE}:0x1000%return(0x20)", f"r:g/up {FILE}:0x0000000000001000(0x20)"),
        (f"p:up {FILE}:010 %ax:u8 a=@+8", f"p:uprobes/up {FILE}:0x0000000000000008 arg1=%ax:u8 a=@+8"),
    ],
)
def test_a_uprobe_is_listed_by_both_files(tracefs: Any, line: str, shown: str) -> None:
    tracefs.write("uprobe_events", line.encode())
    assert listed(tracefs) == listed(tracefs, "uprobe_events") == [shown]
    assert listed(tracefs, "kprobe_events") == []
    tracefs.write("uprobe_events", b"", truncate=True)
    assert listed(tracefs) == []


@pytest.mark.parametrize(
    ("line", "number", "message", "column"),
    [
        ("p:up /nosuch:0x10", ENOENT, "Failed to find the given file", 5),
        (f"p:up {FILE}/x:0x10", ENOTDIR, "Failed to find the given file", 5),
        ("p:up /bin:0x10", EINVAL, "Not a regular file", 5),
        (f"p:up {FILE}:0xzz", EINVAL, "Invalid uprobe offset", 18),
        (f"p:up {FILE}:0x10(", EINVAL, "Reference counter brace is not closed", 23),
        (f"p:up {FILE}:0x10%hoge", EINVAL, "Invalid probed address suffix", 22),
        (f"p:up {FILE}:0x10 a=@jiffies", EINVAL, "Symbol is not available with uprobe", 25),
    ],
)
def test_refused_uprobes(tracefs: Any, line: str, number: int, message: str, column: int) -> None:
    assert refused(tracefs, "uprobe_events", line) == number
    (record,) = errors(tracefs)
    assert record.message == f"trace_uprobe: error: {message}"
    assert record.command.index("^") == column


def test_an_event_probe(tracefs: Any, choose: Any) -> None:
    line = "e:ep sched/sched_switch p=$prev_pid:u32"
    if not has(tracefs, choose, EPROBES):
        assert refused(tracefs, "dynamic_events", line) == EINVAL
        return
    add(tracefs, line)
    assert listed(tracefs) == ["e:eprobes/ep sched.sched_switch p=$prev_pid:u32"]
    text = tracefs.read("events/eprobes/ep/format").decode()
    assert text.endswith('\tfield:u32 p;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: " p=%u", REC->p\n')
    assert refused(tracefs, "dynamic_events", line) == EEXIST
    assert refused(tracefs, "kprobe_events", "-:ep") == ENOENT
    add(tracefs, "-:ep sched.sched_switch")
    assert listed(tracefs) == []


def test_what_an_event_probe_is_attached_to(tracefs: Any, choose: Any) -> None:
    if not has(tracefs, choose, EPROBES):
        return
    assert refused(tracefs, "dynamic_events", "e:ep sched/nosuch") == ENODEV
    assert refused(tracefs, "dynamic_events", "e:ep ftrace/print") == ENODEV
    assert refused(tracefs, "dynamic_events", "e:ep sched") == EINVAL
    assert [record.message for record in errors(tracefs)] == [
        "event_probe: error: Attached event does not exist",
        "event_probe: error: Attached event does not exist",
        "event_probe: error: This requires both group and event name to attach",
    ]


def test_an_enabled_event_probe_holds_its_event(tracefs: Any, choose: Any) -> None:
    if not has(tracefs, choose, EPROBES):
        return
    add(tracefs, "e:ep syscalls/sys_enter_sethostname")
    tracefs.write("events/eprobes/ep/enable", b"1")
    assert tracefs.read("events/syscalls/sys_enter_sethostname/enable") == b"0*\n"
    assert refused(tracefs, "dynamic_events", "-:ep") == EBUSY
    tracefs.write("events/eprobes/ep/enable", b"0")
    assert tracefs.read("events/syscalls/sys_enter_sethostname/enable") == b"0\n"
    add(tracefs, "-:ep")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("c=$comm:string[1]", 'c={"worker"}'),
        ("c=$comm:string[2]", "c={(fault),(fault)}"),
        ("c=$comm:string[2] d=$comm:string", 'c={"worker",(fault)} d="worker"'),
        ("d=$comm:string c=$comm:string[2]", 'd="worker" c={(fault),(fault)}'),
        ('c=\\"abc":string[2] d=$comm:string', 'c={"worker","er"} d="worker"'),
        ("c=$comm:ustring", "c=(fault)"),
        ("c=$comm:ustring[2] d=$comm:string", 'c={(fault),"worker"} d="worker"'),
        ('c=\\"abc":ustring d=$comm:string', 'c=(fault) d="worker"'),
    ],
)
def test_texts_that_only_event_probes_take(
    tracefs: Any, choose: Any, workload: Any, arguments: str, shown: str
) -> None:
    if not has(tracefs, choose, EPROBES):
        return
    workload.rename("worker")
    add(tracefs, f"e:ep syscalls/sys_enter_openat {arguments}")
    tracefs.write("events/eprobes/ep/filter", f"common_pid == {workload.pid}".encode())
    tracefs.write("events/eprobes/ep/enable", b"1")
    workload.open("/dev/null")
    tracefs.write("events/eprobes/ep/enable", b"0")
    (line,) = [line for line in tracefs.read("trace").decode("latin-1").splitlines() if " ep: " in line]
    assert line.partition("(syscalls.sys_enter_openat) ")[2] == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("f vfs_read", "f:fprobes/vfs_read__entry vfs_read"),
        ("f:g/fe vfs_read%return $retval", "f:g/fe vfs_read%return arg1=$retval"),
        ("f:fe vfs_read $retval", "f:fprobes/fe vfs_read%return arg1=$retval"),
        ("f:fe vfs_read $arg2 count", "f:fprobes/fe vfs_read buf=buf count=count"),
        ("f:fe vfs_re*", "f:fprobes/fe vfs_re*"),
        ("t sched_switch next->pid", "t:tracepoints/sched_switch sched_switch arg1=next->pid"),
        ("t:tp sched_process_exec $arg1", "t:tracepoints/tp sched_process_exec p=p"),
    ],
)
def test_probes_by_ftrace(tracefs: Any, choose: Any, line: str, shown: str) -> None:
    if not has(tracefs, choose, BTF):
        assert refused(tracefs, "dynamic_events", line) == EINVAL
        return
    add(tracefs, line)
    assert listed(tracefs) == [shown]
    assert refused(tracefs, "kprobe_events", line) == EINVAL
    tracefs.write("dynamic_events", b"", truncate=True)
    assert listed(tracefs) == []


@pytest.mark.parametrize(
    ("line", "message", "column"),
    [
        ("f:fe vfs_read%hoge", "Invalid probed address suffix", 13),
        ("t:tp sched/sched_switch", "Invalid character in tracepoint name", 10),
        ("t:tp sched_switch $retval", "$retval is not available on probe", 18),
        ("f:fe vfs_read $none", VARIABLE, 14),
    ],
)
def test_refused_probes_by_ftrace(tracefs: Any, choose: Any, line: str, message: str, column: int) -> None:
    assert refused(tracefs, "dynamic_events", line) == EINVAL
    if message == VARIABLE:
        message = choose({"": VARIABLE, SAYS_VALIABLE: VALIABLE})
    if has(tracefs, choose, BTF):
        (record,) = errors(tracefs)
        assert record.message == f"trace_fprobe: error: {message}"
        assert record.command.index("^") == column


def test_a_tracepoint_whose_function_cannot_be_traced(tracefs: Any, choose: Any) -> None:
    line = "t:tp cpu_idle"
    if not choose({"": False, FPROBES_WAIT: True}):
        assert refused(tracefs, "dynamic_events", line) == EINVAL
        failed = ["trace_fprobe: error: Failed to register probe event"]
        unknown = ["trace_fprobe: error: Invalid probed address or symbol"]
        assert [one.message for one in errors(tracefs)] == choose({"": [], BTF: failed, FPROBES_LATE: unknown})
        return
    add(tracefs, line)  # enabling it is ENOENT, after which 6.17.13 doesn't let go of it
    assert listed(tracefs) == ["t:tracepoints/tp cpu_idle"]


def test_registers_are_none_of_theirs(tracefs: Any, choose: Any) -> None:
    assert refused(tracefs, "dynamic_events", "f:fe vfs_read a=%di") == EINVAL
    variable = "trace_fprobe: error: " + choose({"": VARIABLE, SAYS_VALIABLE: VALIABLE})
    twice = [variable, "trace_fprobe: error: Invalid fetch argument"]
    expected = choose({"": [], BTF: twice, CURRENT: [variable]})
    if expected:
        assert [record.message for record in errors(tracefs)] == expected


def test_synthetic_events(tracefs: Any) -> None:
    if not tracefs.exists("synthetic_events"):
        assert refused(tracefs, "dynamic_events", "s:one u64 lat") == EINVAL
        return
    tracefs.write("synthetic_events", b"one u64 lat; pid_t pid\n")
    add(tracefs, "s:synthetic/two char[] a; char b[16]")
    assert listed(tracefs) == ["s:synthetic/one\tu64 lat; pid_t pid", "s:synthetic/two\tchar[] a; char[16] b"]
    assert listed(tracefs, "synthetic_events") == ["one\tu64 lat; pid_t pid", "two\tchar[] a; char[16] b"]
    assert refused(tracefs, "synthetic_events", "one u64 lat") == EEXIST
    assert refused(tracefs, "synthetic_events", "three u64 lat bad") == EINVAL
    assert [(record.message, record.command.index("^")) for record in errors(tracefs)] == [
        ("synthetic_events: error: Event already exists", 0),
        ("synthetic_events: error: Invalid field", 14),
    ]
    tracefs.write("synthetic_events", b"!one\n")
    add(tracefs, "-:synthetic/two")
    assert listed(tracefs) == []


def test_each_file_truncates_its_own(tracefs: Any) -> None:
    tracefs.write("uprobe_events", f"p:a/up {FILE}:0x10\n".encode())
    tracefs.write("kprobe_events", b"p:a/kp vfs_read\n")
    assert refused(tracefs, "kprobe_events", "p:a/up vfs_read") == EEXIST
    assert listed(tracefs) == [f"p:a/up {FILE}:0x0000000000000010", "p:a/kp vfs_read"]
    tracefs.write("kprobe_events", b"", truncate=True)
    assert listed(tracefs) == [f"p:a/up {FILE}:0x0000000000000010"]
    tracefs.write("dynamic_events", b"", truncate=True)
    assert listed(tracefs) == []


def test_no_kind_at_all(tracefs: Any, choose: Any) -> None:
    assert refused(tracefs, "dynamic_events", "q:mine vfs_read") == EINVAL
    expected = choose({"": [], UNMATCHED_LOGGED: [NO_MATCH]})
    assert [record.message for record in errors(tracefs)] == expected
