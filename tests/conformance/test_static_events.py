"""Static events of what the workload does: system calls, forks and exits, on every backend."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from kprobe_sim.builds.profile import Profile

from .builds import NUMBERS_PREFIXED
from .text import define, refused, show_only, traced

FORK = ("fork", "exit", "wait4")


@pytest.fixture
def shows_user_memory(tracefs: Any) -> bool:
    """System calls are shown with the strings that they point to (6.19 and later)."""
    return bool(tracefs.exists("syscall_user_buf_size"))


@pytest.fixture
def prefix(choose: Any) -> str:
    """What stands before numbers from 10 on (6.18 and later)."""
    return str(choose({"": "", NUMBERS_PREFIXED: "0x"}))


def depths(tracefs: Any, lines: Sequence[str]) -> set[str]:
    """Return the letters before the times of the lines with these texts."""
    text = tracefs.read("trace").decode()
    found = (re.search(r"\] (\S+) +\d+\.\d+: (.*)", line) for line in text.splitlines())
    return {match[1].replace("N", ".").replace("l", ".") for match in found if match and match[2] in lines}


def test_opens(tracefs: Any, workload: Any, shows_user_memory: bool, prefix: str) -> None:
    names = ("sys_enter_openat", "sys_exit_openat", "sys_enter_close", "sys_exit_close")
    show_only(tracefs, "workload", *(f"syscalls/{name}" for name in names))
    workload.open("/etc/hostname", 0o2000000)
    workload.open("/dev/null", 0o101, 0o644)
    workload.open("/" + "x" * 70)
    opens = (
        [
            'sys_openat(dfd: 18446744073709551516, filename: 268435456 "/etc/hostname", flags: O_RDONLY|O_CLOEXEC)',
            'sys_openat(dfd: 18446744073709551516, filename: 268435456 "/dev/null", flags: O_WRONLY|O_CREAT, '
            "mode: 0644)",
            f'sys_openat(dfd: 18446744073709551516, filename: 268435456 "/{"x" * 62}...", flags: O_RDONLY)',
        ]
        if shows_user_memory
        else [
            f"sys_openat(dfd: {prefix}ffffffffffffff9c, filename: {prefix}10000000, flags: {prefix}80000, mode: 0)",
            f"sys_openat(dfd: {prefix}ffffffffffffff9c, filename: {prefix}10000000, flags: {prefix}41, "
            f"mode: {prefix}1a4)",
            f"sys_openat(dfd: {prefix}ffffffffffffff9c, filename: {prefix}10000000, flags: 0, mode: 0)",
        ]
    )
    closed = ["sys_openat -> 0x3", "sys_close(fd: 3)", "sys_close -> 0x0"]
    expected = [opens[0], *closed, opens[1], *closed, opens[2], "sys_openat -> 0xfffffffffffffffe"]
    assert traced(tracefs) == expected


def test_a_string_that_cannot_be_read(tracefs: Any, workload: Any, prefix: str) -> None:
    show_only(tracefs, "workload", "syscalls/sys_enter_fadvise64")
    workload.fadvise(77, 1 << 40, -1, 3)
    assert traced(tracefs) == [
        f"sys_fadvise64(fd: {prefix}4d, offset: {prefix}10000000000, len: {prefix}ffffffffffffffff, advice: 3)"
    ]


def test_a_fork(tracefs: Any, workload: Any, prefix: str) -> None:
    for name in FORK:
        for which in ("enter", "exit"):
            if tracefs.exists(f"events/syscalls/sys_{which}_{name}"):
                show_only(tracefs, "workload", f"syscalls/sys_{which}_{name}")
    names = ("process_fork", "wakeup_new", "process_wait", "process_exit")
    show_only(tracefs, "workload", "task/task_newtask", *(f"sched/sched_{name}" for name in names))
    define(tracefs, "p:in kernel_clone", "r:out kernel_clone ret=$retval:s32")
    show_only(tracefs, "workload", "kprobes/in", "kprobes/out")
    child = workload.fork()
    parent = workload.pid
    lines = [re.sub(r"\(.*kernel_clone.*?\)", "()", line) for line in traced(tracefs)]
    format_ = tracefs.read("events/sched/sched_process_exit/format")
    dead = " group_dead=true" if b"group_dead" in format_ else ""  # 6.16 and later
    assert sorted(lines) == sorted(
        [
            "sys_fork()",
            "in: ()",
            f"task_newtask: pid={child} comm=workload clone_flags=0 oom_score_adj=0",
            f"sched_process_fork: comm=workload pid={parent} child_comm=workload child_pid={child}",
            f"sched_wakeup_new: comm=workload pid={child} prio=120 target_cpu=000",
            f"out: () ret={child}",
            f"sys_fork -> {child:#x}",
            f"sys_wait4(upid: {prefix}{child:x}, stat_addr: 0, options: 0, ru: 0)",
            f"sched_process_wait: comm=workload pid={child} prio=120",
            "sys_fork -> 0x0",
            "sys_exit(error_code: 0)",
            f"sched_process_exit: comm=workload pid={child} prio=120{dead}",
            f"sys_wait4 -> {child:#x}",
        ]
    )
    # what the parent does is in order; when the child runs is up to the scheduler
    order = ["sys_fork()", "in: ()", "task_newtask", "sched_process_fork", "sched_wakeup_new", "out: ()", "sys_fork ->"]
    places = [next(at for at, line in enumerate(lines) if line.startswith(start)) for start in order[:-1]]
    assert places == sorted(places)


def test_raw_events_come_first_where_they_were_enabled_first(tracefs: Any, workload: Any) -> None:
    tracefs.write("events/raw_syscalls/sys_exit/filter", b'comm == "workload" && id == 257')
    tracefs.write("events/raw_syscalls/sys_exit/enable", b"1")
    show_only(tracefs, "workload", "syscalls/sys_exit_openat")
    workload.open("/dev/null")
    assert traced(tracefs) == ["sys_exit: NR 257 = 3", "sys_openat -> 0x3"]
    tracefs.write("events/raw_syscalls/sys_exit/enable", b"0")
    tracefs.write("trace", b"", truncate=True)
    tracefs.write("events/raw_syscalls/sys_exit/enable", b"1")
    workload.open("/dev/null")
    assert traced(tracefs) == ["sys_openat -> 0x3", "sys_exit: NR 257 = 3"]


def test_arguments_as_they_came(tracefs: Any, workload: Any) -> None:
    tracefs.write("events/raw_syscalls/sys_enter/filter", b'comm == "workload" && id == 257')
    tracefs.write("events/raw_syscalls/sys_enter/enable", b"1")
    workload.open("x", 0o100, 0o600, 5)
    assert traced(tracefs) == ["sys_enter: NR 257 (5, 10000000, 40, 180, 0, 0)"]
    assert depths(tracefs, traced(tracefs)) <= {".....", "...."}


def test_filters_of_static_fields(tracefs: Any, workload: Any) -> None:
    show_only(tracefs, "workload", "syscalls/sys_exit_openat")
    tracefs.write("events/syscalls/sys_exit_openat/filter", b'comm == "workload" && ret < 0')
    workload.open("/dev/null")
    workload.open("/nope")
    assert traced(tracefs) == ["sys_openat -> 0xfffffffffffffffe"]
    tracefs.write("events/syscalls/sys_exit_openat/filter", b'comm == "workload" && ret == 3')
    workload.open("/dev/null")
    workload.open("/nope")
    assert traced(tracefs)[1:] == ["sys_openat -> 0x3"]


def test_a_static_event_switches_another(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:k do_sys_openat2")
    tracefs.write("events/kprobes/k/filter", b'comm == "workload"')
    tracefs.write("events/task/task_newtask/trigger", b'enable_event:kprobes:k:1 if comm == "workload"')
    workload.open("/dev/null")
    assert traced(tracefs) == []
    workload.fork()
    workload.open("/dev/null")
    assert [line.partition(" ")[0] for line in traced(tracefs)] == ["k:"]
    tracefs.write("events/task/task_newtask/trigger", b"!enable_event:kprobes:k:1")


def test_types_of_arguments(tracefs: Any, workload: Any, shows_user_memory: bool) -> None:
    show_only(tracefs, "workload", "syscalls/sys_enter_close")
    workload.open("/dev/null")
    tracefs.write("trace_options", b"verbose")
    text = tracefs.read("trace").decode()
    tracefs.write("trace_options", b"noverbose")
    assert re.search(r": sys_close\(unsigned int fd: 3\)$", text, re.MULTILINE)


def test_no_filter_for_strings_of_system_calls(tracefs: Any, shows_user_memory: bool) -> None:
    """A pointer to a string of the user is no string; what the event holds of it, since 6.19, is one."""
    if shows_user_memory:
        tracefs.write("events/syscalls/sys_enter_openat/filter", b'__filename_val ~ "*host*"')
    else:
        assert refused(tracefs, "events/syscalls/sys_enter_openat/filter", 'filename == 5 && x == "y"') == 22


@pytest.mark.parametrize("event", ["sched/sched_switch", "syscalls/sys_enter_openat", "ftrace/print"])
def test_the_files_of_an_event(tracefs: Any, recorded: Profile, event: str) -> None:
    """From 7.3 on also btf_ids."""
    assert sorted(tracefs.listdir(f"events/{event}")) == sorted(recorded.tracefs.directory(f"events/{event}"))
