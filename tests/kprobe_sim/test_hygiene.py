"""What a program leaves in a tracefs, and what it takes away: bugs are planted in a small tool, and each is found."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.expose import patched
from kprobe_sim.kernel.kernels import kernels
from kprobe_sim.tree.files.inprocess import SimTracefs
from kprobe_sim.tree.leftovers.hygiene import Finding, Hygiene

pytest_plugins = ["pytester"]

TRACING = Path("/sys/kernel/tracing")
PROBE = "p:tool {} file=+0(%si):string"
SERIES = sorted({kernel.series for kernel in kernels()})
FOREIGN = ("kprobe_events", b"p:theirs vfs_read"), ("events/sched/sched_switch/enable", b"1")


def add(name: str, text: str) -> None:
    """Append as a shell's >> does."""
    file = os.open(TRACING / name, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def put(name: str, text: str) -> None:
    (TRACING / name).write_text(text)


@contextlib.contextmanager
def tool(opening: str) -> Iterator[None]:
    """Trace opens in an instance of its own, with a filter; undo everything."""
    add("kprobe_events", PROBE.format(opening))
    (TRACING / "instances/tool").mkdir()
    event = "instances/tool/events/kprobes/tool"
    put(f"{event}/filter", 'file ~ "*passwd"')
    put(f"{event}/enable", "1")
    put("instances/tool/trace_clock", "mono")
    put("instances/tool/set_event_pid", "1")
    put("instances/tool/options/stacktrace", "1")
    try:
        yield
    finally:
        put(f"{event}/enable", "0")
        (TRACING / "instances/tool").rmdir()
        add("kprobe_events", "-:tool")


@pytest.fixture
def planted() -> Callable[..., tuple[list[Finding], SimTracefs[SimulatedKernel], Hygiene]]:
    def run(series: str, *bug: tuple[Callable[..., None], str, str]) -> object:
        kernel = SimulatedKernel(series)
        for path, data in FOREIGN:
            kernel.tracefs.write(path, data)
        kernel.tracefs.mkdir("instances/their")
        hygiene = Hygiene(kernel.tracefs)
        kernel.listener = hygiene.hear
        with patched(kernel), tool(kernel.profile.called["open"]):
            for how, path, text in bug:
                how(path, text)
        return hygiene.findings(), kernel.tracefs, hygiene

    return run  # type: ignore[return-value]


def undo(tracefs: SimTracefs[SimulatedKernel], line: str) -> None:
    """Do what a line of shell does."""
    command, *words = shlex.split(line)
    path = words[-1].removeprefix("/sys/kernel/tracing/")
    if command in ("rmdir", "mkdir"):
        getattr(tracefs, command)(path)
    else:
        text, how = ("", words[0]) if len(words) == 2 else (words[0], words[1])
        tracefs.write(path, f"{text}\n".encode(), truncate=how == ">")


@pytest.mark.parametrize("series", SERIES)
def test_a_clean_tool_passes(series: str, planted: Callable[..., tuple[list[Finding], object, object]]) -> None:
    assert planted(series)[0] == []


def make(path: str, _: str) -> None:
    (TRACING / path).mkdir()


def remove(path: str, _: str) -> None:
    (TRACING / path).rmdir()


SWITCH = "events/sched/sched_switch"
# bugs by name: what the tool does besides, and what is said of it: the path, and how
BUGS: dict[str, tuple[tuple[Callable[..., None], str, str], str, str]] = {
    "a kprobe": ((add, "kprobe_events", "p:bug vfs_write"), "dynamic_events", "left: p:kprobes/bug vfs_write"),
    "a kretprobe": ((add, "kprobe_events", "r5:g/bug vfs_write"), "dynamic_events", "left: r5:g/bug vfs_write"),
    "a uprobe": (
        (add, "uprobe_events", "p:bug /bin/sh:0x1000"),
        "dynamic_events",
        "left: p:uprobes/bug /bin/sh:0x0000000000001000",
    ),
    "an fprobe": ((add, "dynamic_events", "f:bug vfs_write"), "dynamic_events", "left: f:fprobes/bug vfs_write"),
    "an event probe": (
        (add, "dynamic_events", "e:g/bug sched.sched_switch pid=$prev_pid:s32"),
        "dynamic_events",
        "left: e:g/bug sched.sched_switch pid=$prev_pid:s32",
    ),
    "a synthetic event": (
        (add, "synthetic_events", "bug u64 lat"),
        "dynamic_events",
        "left: s:synthetic/bug\tu64 lat",
    ),
    "an instance": ((make, "instances/bug", ""), "instances/bug", "left: instances/bug"),
    "an event": ((put, "events/irq/irq_handler_exit/enable", "1"), "set_event", "left: irq:irq_handler_exit"),
    "an event in another's instance": (
        (put, "instances/their/set_event", "irq:irq_handler_exit"),
        "instances/their/set_event",
        "left: irq:irq_handler_exit",
    ),
    "a filter": ((put, f"{SWITCH}/filter", "prev_pid > 3"), f"{SWITCH}/filter", "left: prev_pid > 3"),
    "a system's filter": ((put, "events/irq/filter", "common_pid > 3"), "events/irq/filter", "left: common_pid > 3"),
    "a trigger": ((put, f"{SWITCH}/trigger", "traceoff:3"), f"{SWITCH}/trigger", "left: traceoff:count=3"),
    "a histogram": (
        (put, f"{SWITCH}/trigger", "hist:keys=prev_pid"),
        f"{SWITCH}/trigger",
        "left: hist:keys=prev_pid:vals=hitcount:sort=hitcount:size=2048 [active]",
    ),
    "an option": ((put, "options/stacktrace", "1"), "options/stacktrace", "0 -> 1"),
    "an option by trace_options": ((put, "trace_options", "noirq-info"), "options/irq-info", "1 -> 0"),
    "tracing off": ((put, "tracing_on", "0"), "tracing_on", "1 -> 0"),
    "tracing off in another's instance": (
        (put, "instances/their/tracing_on", "0"),
        "instances/their/tracing_on",
        "1 -> 0",
    ),
    "a tracer": ((put, "current_tracer", "function"), "current_tracer", "nop -> function"),
    "a clock": ((put, "trace_clock", "mono"), "trace_clock", "local -> mono"),
    "a pid filter": ((put, "set_event_pid", "77"), "set_event_pid", "empty -> 77"),
    "CPUs": ((put, "tracing_cpumask", "0"), "tracing_cpumask", "1 -> 0"),
    "a buffer's size": ((put, "buffer_size_kb", "3000"), "buffer_size_kb", "1410 -> 30"),
    "a function filter": (
        (put, "set_ftrace_filter", "vfs_read"),
        "set_ftrace_filter",
        "#### all functions enabled #### -> vfs_read",
    ),
    "a snapshot": ((put, "snapshot", "1"), "snapshot", "0 -> allocated"),
    "their probe is removed": (
        (add, "kprobe_events", "-:theirs"),
        "dynamic_events",
        "removed, and wasn't its own: p:kprobes/theirs vfs_read",
    ),
    "their instance is removed": (
        (remove, "instances/their", ""),
        "instances/their",
        "removed, and wasn't its own: instances/their",
    ),
    "their event is disabled": (
        (put, f"{SWITCH}/enable", "0"),
        "set_event",
        "removed, and wasn't its own: sched:sched_switch",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found_and_its_undoing_undoes_it(
    bug: str, planted: Callable[..., tuple[list[Finding], SimTracefs[SimulatedKernel], Hygiene]]
) -> None:
    what, path, how = BUGS[bug]
    found, tracefs, hygiene = planted("6.12", what)
    (finding,) = found
    assert (finding.path, finding.how[: len(how)]) == (path, how)
    assert finding.who.startswith("test_hygiene.py:")
    undo(tracefs, finding.undo)
    assert hygiene.findings() == []


@pytest.mark.parametrize("series", SERIES)
def test_bugs_on_every_kernel(
    series: str, planted: Callable[..., tuple[list[Finding], SimTracefs[SimulatedKernel], Hygiene]]
) -> None:
    bugs = [
        (add, "kprobe_events", "p:bug vfs_write"),
        (make, "instances/bug", ""),
        (put, f"{SWITCH}/filter", "prev_pid > 3"),
        (put, f"{SWITCH}/trigger", "traceoff"),
        (put, "options/stacktrace", "1"),
        (put, "buffer_size_kb", "3000"),
    ]
    found, tracefs, hygiene = planted(series, *bugs)
    assert [finding.path for finding in found] == [
        f"{SWITCH}/trigger",
        f"{SWITCH}/filter",
        "dynamic_events" if tracefs.exists("dynamic_events") else "kprobe_events",
        "instances/bug",
        "buffer_size_kb",
        "options/stacktrace",
    ]
    for finding in found:
        undo(tracefs, finding.undo)
    assert hygiene.findings() == []


WIPES = {
    "kprobe_events": "opened with O_TRUNC (>), which removes everybody's definitions; O_APPEND (>>) adds to them",
    "dynamic_events": "opened with O_TRUNC (>), which removes everybody's definitions; O_APPEND (>>) adds to them",
    "uprobe_events": "opened with O_TRUNC (>), which removes everybody's definitions; O_APPEND (>>) adds to them",
    "set_event": "opened with O_TRUNC (>), which disables everybody's events; O_APPEND (>>) adds to them",
}


@pytest.mark.parametrize("path", WIPES)
def test_what_removes_everybody_s_is_found_though_there_is_nobody_else(path: str) -> None:
    kernel = SimulatedKernel("6.1")
    hygiene = Hygiene(kernel.tracefs)
    kernel.listener = hygiene.hear
    with patched(kernel):
        put(path, "")
    (finding,) = hygiene.findings()
    assert (finding.path, finding.how, finding.undo) == (path, WIPES[path], "")


def test_a_truncation_that_was_refused_is_found(
    planted: Callable[..., tuple[list[Finding], SimTracefs[SimulatedKernel], Hygiene]],
) -> None:
    def truncate(path: str, _: str) -> None:
        with pytest.raises(OSError):
            put(path, "")

    (finding,) = planted("6.1", (truncate, "kprobe_events", ""))[0]  # its own probe is enabled
    assert finding.how.endswith("adds to them (it was refused here)")


@pytest.mark.parametrize("group", ["", "kprobes/"])
def test_a_switch_that_others_share_is_found(
    group: str, planted: Callable[..., tuple[list[Finding], SimTracefs[SimulatedKernel], Hygiene]]
) -> None:
    found = planted("6.1", (put, f"events/{group}enable", "0"))[0]
    assert f"events/{group}enable" in [finding.path for finding in found]
    assert found[-1].how == f"0 disables everybody's events{' of group kprobes' * bool(group)}"


SOURCE = """
from pathlib import Path

import pytest

TRACING = Path("/sys/kernel/tracing")

def test_leaves(sys_kernel_tracing):
    (TRACING / "instances/left").mkdir()

def test_clean(tracer, workload):
    with tracer.trace("p:a do_sys_openat2 file=+0(%si):string", max_events=1) as trace:
        workload.open("/dev/null")
        assert [event.fields["file"] for event in trace] == ["/dev/null"]

@pytest.mark.check_clean(False)
def test_not_asked(tracefs):
    tracefs.mkdir("instances/left")

def test_theirs_stay(simulated_machine, check_clean):
    simulated_machine.tracefs.write("kprobe_events", b"p:theirs vfs_read")
    check_clean.begin()
    TRACING.joinpath("kprobe_events").write_text("")

def test_without_a_tracefs():
    pass
"""


@pytest.mark.parametrize("way", ["option", "ini", "marker"])
def test_the_plugin(way: str, pytester: pytest.Pytester) -> None:
    source = (
        SOURCE
        if way != "marker"
        else SOURCE.replace("import pytest\n", "import pytest\npytestmark = pytest.mark.check_clean\n")
    )
    if way == "ini":
        pytester.makeini("[pytest]\nkprobe_check_clean = true\n")
    pytester.makepyfile(test_it=source)
    result = pytester.runpytest_inprocess("--strict-markers", *["--kprobe-check-clean"] * (way == "option"))
    result.assert_outcomes(passed=5, errors=2)
    result.stdout.fnmatch_lines(
        [
            "the tracefs isn't as the test found it:",
            "  instances/left: left: instances/left  (test_it.py:*)",
            "    undo: rmdir /sys/kernel/tracing/instances/left",
            "  dynamic_events: removed, and wasn't its own: p:kprobes/theirs vfs_read  (test_it.py:*)",
            "    undo: echo 'p:kprobes/theirs vfs_read' >> /sys/kernel/tracing/dynamic_events",
        ]
    )


def test_nobody_is_checked_who_did_not_ask(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SOURCE)
    pytester.runpytest_inprocess().assert_outcomes(passed=5, errors=1)
