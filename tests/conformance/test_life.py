"""The life of a probe: defined, listed, enabled, hit, disabled, deleted."""

from __future__ import annotations

from typing import Any

from .builds import Build
from .text import bodies, define, probes, show_only, switch, traced


def test_nothing_at_first(tracefs: Any) -> None:
    assert tracefs.read("kprobe_events") == b""
    assert tracefs.read("kprobe_profile") == b""
    assert tracefs.read("dynamic_events") == b""
    assert tracefs.read("set_event") == b""
    assert tracefs.read("error_log") == b""
    assert tracefs.read("tracing_on") == b"1\n"
    assert tracefs.read("current_tracer") == b"nop\n"
    assert not tracefs.exists("events/kprobes")


def test_a_definition_makes_an_event(tracefs: Any) -> None:
    define(tracefs, "p:myopen do_sys_openat2 filename=+0(%si):string")
    assert probes(tracefs) == ["p:kprobes/myopen do_sys_openat2 filename=+0(%si):string"]
    assert sorted(tracefs.listdir("events/kprobes")) == ["enable", "filter", "myopen"]
    assert {"enable", "filter", "format", "id", "trigger"} <= set(tracefs.listdir("events/kprobes/myopen"))
    assert tracefs.read("events/kprobes/myopen/enable") == b"0\n"
    assert tracefs.read("events/kprobes/myopen/filter") == b"none\n"
    assert tracefs.read("available_events").decode().splitlines().count("kprobes:myopen") == 1


def test_the_whole_life(tracefs: Any, workload: Any, build: Build) -> None:
    define(tracefs, "p:myopen do_sys_openat2 filename=+0(%si):string")
    tracefs.write("events/kprobes/myopen/filter", b'comm == "workload"')
    workload.open("/dev/null")
    assert traced(tracefs) == []
    switch(tracefs, 1, "kprobes/myopen")
    workload.open("/etc/hostname")
    switch(tracefs, 0, "kprobes/myopen")
    workload.open("/dev/null")
    assert traced(tracefs) == [f'myopen: ({build.openat2}) filename="/etc/hostname"']
    define(tracefs, "-:myopen")
    assert tracefs.read("kprobe_events") == b""
    assert not tracefs.exists("events/kprobes")
    assert traced(tracefs) == []  # deleting an event that was enabled empties the buffer


def test_it_is_reported_by_the_pipe_too(tracefs: Any, workload: Any, build: Build, choose: Any) -> None:
    returned = choose({"": "0x3", "<argname>": "3"})
    define(tracefs, "r:myret do_sys_openat2 ret=$retval")
    with_pipe = tracefs.stream("trace_pipe")
    show_only(tracefs, "workload", "kprobes/myret")
    workload.open("/dev/null")
    assert bodies(with_pipe.read(10)) == [f"myret: ({build.openat} <- do_sys_openat2) ret={returned}"]
    with_pipe.close()
    assert traced(tracefs) == []  # what the pipe gave is gone


def test_a_disabled_probe_can_be_enabled_again(tracefs: Any, workload: Any, build: Build) -> None:
    define(tracefs, "p:a do_sys_openat2")
    for _ in range(3):
        show_only(tracefs, "workload", "kprobes/a")
        workload.open("/dev/null")
        switch(tracefs, 0, "kprobes/a")
        workload.open("/dev/null")
    assert traced(tracefs) == [f"a: ({build.openat2})"] * 3


def test_two_events_at_one_place(tracefs: Any, workload: Any, build: Build) -> None:
    """The probe that was added last is hit first."""
    define(tracefs, "p:first do_sys_openat2", "p:second do_sys_openat2", "r:back do_sys_openat2")
    show_only(tracefs, "workload", "kprobes/second", "kprobes/first", "kprobes/back")
    workload.open("/dev/null")
    assert traced(tracefs) == [
        f"second: ({build.openat2})",
        f"first: ({build.openat2})",
        f"back: ({build.openat} <- do_sys_openat2)",
    ]


def test_an_event_of_two_probes(tracefs: Any, workload: Any, build: Build) -> None:
    define(tracefs, "p:both do_sys_openat2", "p:both kernel_clone")
    assert tracefs.listdir("events/kprobes").count("both") == 1
    show_only(tracefs, "workload", "kprobes/both")
    workload.open("/dev/null")
    workload.fork()
    assert traced(tracefs) == [f"both: ({build.openat2})", f"both: ({build.clone})"]


def test_a_probe_appended_to_an_enabled_event_is_live(tracefs: Any, workload: Any, build: Build) -> None:
    define(tracefs, "p:both do_sys_openat2")
    show_only(tracefs, "workload", "kprobes/both")
    define(tracefs, "p:both kernel_clone")
    workload.fork()
    assert traced(tracefs) == [f"both: ({build.clone})"]


def test_a_probe_inside_a_function(tracefs: Any, workload: Any, build: Build) -> None:
    define(tracefs, f"p:inside do_sys_openat2+{build.boundary} dfd=%di:s32")
    assert probes(tracefs) == [f"p:kprobes/inside do_sys_openat2+{build.boundary} dfd=%di:s32"]
    show_only(tracefs, "workload", "kprobes/inside")
    workload.open("/dev/null")
    place = build.openat2.replace("+0x0/", f"+{build.boundary:#x}/")
    assert traced(tracefs) == [f"inside: ({place}) dfd=-100"]


def test_a_probe_in_a_module_that_is_not_there(tracefs: Any) -> None:
    define(tracefs, "p:m nosuchmod:foo+4 a=%ax", "r:n nosuchmod:foo")
    assert probes(tracefs) == ["p:kprobes/m nosuchmod:foo+4 a=%ax", "r:kprobes/n nosuchmod:foo"]
    switch(tracefs, 1, "kprobes/m", "kprobes/n")
    assert tracefs.read("events/kprobes/m/enable") == b"1\n"


def test_in_another_group(tracefs: Any, workload: Any, build: Build) -> None:
    define(tracefs, "p:mine/opened do_sys_openat2")
    assert sorted(tracefs.listdir("events/mine")) == ["enable", "filter", "opened"]
    show_only(tracefs, "workload", "mine/opened")
    workload.open("/dev/null")
    assert traced(tracefs) == [f"opened: ({build.openat2})"]


def test_in_a_group_of_the_kernel(tracefs: Any) -> None:
    define(tracefs, "p:sched/foo do_sys_openat2")
    assert "foo" in tracefs.listdir("events/sched")
    define(tracefs, "-:sched/foo")
    assert "foo" not in tracefs.listdir("events/sched")
    assert "sched_switch" in tracefs.listdir("events/sched")


def test_a_comm_with_blanks(tracefs: Any, workload: Any, build: Build) -> None:
    define(tracefs, "p:a do_sys_openat2 $comm")
    workload.rename("a b: (c) [001]")
    show_only(tracefs, "a b: (c) [001]", "kprobes/a")
    workload.open("/dev/null")
    assert traced(tracefs) == [f'a: ({build.openat2}) arg1="a b: (c) [001]"']
