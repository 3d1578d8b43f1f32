"""set_event, kprobe_profile, available_filter_functions, available_events, README and the tree."""

from __future__ import annotations

import os
from errno import EBUSY, EINVAL, EPERM
from typing import Any

import pytest

from .builds import EPROBES
from .text import define, refused, show_only, switch

NAMES = ("a", "b", "c")


@pytest.fixture
def three(tracefs: Any) -> None:
    define(tracefs, *(f"p:{name} do_sys_openat2" for name in NAMES))


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("written", "enabled"),
    [
        ("kprobes:a", "a"),
        ("kprobes:*", "cba"),
        ("kprobes:", "cba"),
        ("kprobes", "cba"),
        ("a", "a"),
        (":a", "a"),
        ("*:a", "a"),
        ("kprobes:a\n", "a"),
        ("  kprobes:a", "a"),
    ],
)
def test_set_event(tracefs: Any, written: str, enabled: str) -> None:
    """The newest event is listed first."""
    tracefs.write("set_event", written.encode())
    assert tracefs.read("set_event").decode() == "".join(f"kprobes:{name}\n" for name in enabled)
    for name in NAMES:
        assert tracefs.read(f"events/kprobes/{name}/enable") == (b"1\n" if name in enabled else b"0\n")


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("written", "left"), [("!kprobes:a", "cb"), ("!a", "cb"), ("!kprobes:*", ""), ("!kprobes:", ""), ("!*:*", "")]
)
def test_set_event_off(tracefs: Any, written: str, left: str) -> None:
    switch(tracefs, 1, *(f"kprobes/{name}" for name in NAMES))
    tracefs.write("set_event", written.encode())
    assert tracefs.read("set_event").decode() == "".join(f"kprobes:{name}\n" for name in left)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("written", ["nosuch", "nosuch:a", "kprobes:nosuch", "!nosuch", ":nosuch"])
def test_set_event_refused(tracefs: Any, written: str) -> None:
    assert refused(tracefs, "set_event", written) == EINVAL
    assert tracefs.read("set_event") == b""


@pytest.mark.usefixtures("three")
def test_set_event_takes_one_word_a_write(tracefs: Any) -> None:
    with tracefs.open("set_event", os.O_WRONLY) as file:
        assert file.write(b"kprobes:a kprobes:b") == 10
        assert tracefs.read("set_event") == b"kprobes:a\n"
        assert file.write(b"kprobes:b\n") == 10
    assert tracefs.read("set_event") == b"kprobes:b\nkprobes:a\n"


@pytest.mark.usefixtures("three")
def test_set_event_truncated(tracefs: Any) -> None:
    tracefs.write("set_event", b"kprobes:a")
    tracefs.write("set_event", b"kprobes:b", truncate=True)
    assert tracefs.read("set_event") == b"kprobes:b\n"
    tracefs.write("set_event", b"", truncate=True)
    assert tracefs.read("set_event") == b""
    assert tracefs.read("events/kprobes/b/enable") == b"0\n"


def test_set_event_pid(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    tracefs.write("set_event_pid", str(workload.pid + 10000).encode())
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null")
    assert b" 0/0 " in tracefs.read("trace")
    tracefs.write("set_event_pid", str(workload.pid).encode())
    assert tracefs.read("set_event_pid").decode() == f"{workload.pid}\n{workload.pid + 10000}\n"
    workload.open("/dev/null")
    assert b" 1/1 " in tracefs.read("trace")
    tracefs.write("set_event_pid", b"", truncate=True)
    assert tracefs.read("set_event_pid") == b""


def test_a_pid_that_no_task_can_have(tracefs: Any, choose: Any) -> None:
    """pid_max, which is 32768 on a machine of one CPU; since 5.16 what the list of pids has room for."""
    limit, number = choose({"": (1 << 15, EINVAL), EPROBES: (1 << 30, EPERM)})
    tracefs.write("set_event_pid", str(limit - 1).encode())
    assert refused(tracefs, "set_event_pid", str(limit)) == number
    assert tracefs.read("set_event_pid").decode() == f"{limit - 1}\n"
    tracefs.write("set_event_pid", b"", truncate=True)
    if number == EPERM:  # its lower 32 bits count
        tracefs.write("set_event_pid", str(1 << 32).encode())
        assert tracefs.read("set_event_pid") == b"0\n"
        tracefs.write("set_event_pid", b"", truncate=True)
    else:
        assert refused(tracefs, "set_event_pid", str(1 << 32)) == EINVAL


def test_kprobe_profile(tracefs: Any, workload: Any) -> None:
    """Two blanks, the event in 44 columns, hits and misses in 16 each; hits count whether or not a filter lets pass."""
    define(tracefs, "p:a kernel_clone", "r:b ksys_fadvise64_64", "p:g/c ksys_fadvise64_64")
    assert tracefs.read("kprobe_profile").decode() == (
        "  a                                                          0               0\n"
        "  b                                                          0               0\n"
        "  c                                                          0               0\n"
    )
    switch(tracefs, 1, "kprobes/b", "g/c")
    for _ in range(3):
        workload.fadvise(-1, 0, 0)
    switch(tracefs, 0, "g/c")
    workload.fadvise(-1, 0, 0)
    tracefs.write("events/kprobes/b/filter", b"__probe_func == 0")
    workload.fadvise(-1, 0, 0)
    assert tracefs.read("kprobe_profile").decode() == (
        "  a                                                          0               0\n"
        "  b                                                          5               0\n"
        "  c                                                          3               0\n"
    )


def test_kprobe_profile_of_an_event_of_two_probes(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:a ksys_fadvise64_64", "p:a vfs_fallocate")
    switch(tracefs, 1, "kprobes/a")
    workload.fadvise(-1, 0, 0)
    assert tracefs.read("kprobe_profile").decode() == (
        "  a                                                          1               0\n"
        "  a                                                          0               0\n"
    )


def test_available_filter_functions(tracefs: Any) -> None:
    functions = set(tracefs.read("available_filter_functions").decode().split("\n"))
    assert {"do_sys_openat2", "kernel_clone", "vfs_read", "schedule", "ksys_fadvise64_64"} <= functions
    assert not {"do_syscall_64", "memcpy", "entry_SYSCALL_64", "jiffies"} & functions
    assert len(functions) > 20000


def test_available_events(tracefs: Any) -> None:
    before = tracefs.read("available_events").decode().splitlines()
    assert {"sched:sched_switch", "syscalls:sys_enter_openat", "raw_syscalls:sys_exit"} <= set(before)
    define(tracefs, "p:a do_sys_openat2", "p:b do_sys_openat2")
    assert tracefs.read("available_events").decode().splitlines() == ["kprobes:b", "kprobes:a", *before]


def test_readme(tracefs: Any) -> None:
    readme = tracefs.read("README").decode()
    assert readme.startswith("tracing mini-HOWTO:\n")
    assert "  kprobe_events\t\t- Create/append/remove/show the kernel dynamic events\n" in readme
    assert "\t  accepts: event-definitions (one definition per line)\n" in readme


def test_the_root(tracefs: Any) -> None:
    names = set(tracefs.listdir(""))
    assert {
        "README", "available_events", "available_filter_functions", "available_tracers", "buffer_size_kb",
        "current_tracer", "dynamic_events", "error_log", "events", "instances", "kprobe_events", "kprobe_profile",
        "options", "per_cpu", "saved_cmdlines", "set_event", "set_event_pid", "trace", "trace_clock", "trace_marker",
        "trace_options", "trace_pipe", "tracing_on", "uprobe_events",
    } <= names  # fmt: skip
    assert "kprobes" not in names


def test_per_cpu(tracefs: Any) -> None:
    assert tracefs.listdir("per_cpu") == ["cpu0"]
    assert sorted(tracefs.listdir("per_cpu/cpu0")) == [
        "buffer_size_kb",
        "snapshot",
        "snapshot_raw",
        "stats",
        "trace",
        "trace_pipe",
        "trace_pipe_raw",
    ]


def test_saved_cmdlines(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null")
    assert f"{workload.pid} workload" in tracefs.read("saved_cmdlines").decode().splitlines()


def test_instances(tracefs: Any, workload: Any, build: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    tracefs.mkdir("instances/mine")
    assert tracefs.listdir("instances") == ["mine"]
    assert not tracefs.exists("instances/mine/kprobe_events")
    tracefs.write("instances/mine/events/kprobes/a/filter", b'comm == "workload"')
    tracefs.write("instances/mine/events/kprobes/a/enable", b"1")
    workload.open("/dev/null")
    assert tracefs.read("events/kprobes/a/enable") == b"0\n"
    assert b" 0/0 " in tracefs.read("trace")
    assert f": a: ({build.openat2})\n" in tracefs.read("instances/mine/trace").decode()
    assert refused(tracefs, "kprobe_events", "-:a") == EBUSY
    tracefs.rmdir("instances/mine")
    assert tracefs.listdir("instances") == []
    define(tracefs, "-:a")
