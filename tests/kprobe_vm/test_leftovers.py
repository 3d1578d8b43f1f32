"""Whatever a test leaves, the next has a pristine tracefs, as the plugin puts it back.

tests/conformance/test_leftovers.py has each leftover put back on a guest, without the plugin.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..conformance import leftovers  # noqa: TID252  # the tests are no package that has a name
from .test_test_runs import Run

BATTERY = """
import pytest
from leftovers import leave, state

BEFORE = {{}}

def test_leaves(tracefs):
    BEFORE.update(state(tracefs))
    if not leave(tracefs, {name!r}):
        pytest.skip("this kernel has no such thing")
    assert state(tracefs) != BEFORE

def test_clean(tracefs):
    assert state(tracefs) == BEFORE
"""
# one for each thing that a reset undoes: triggers, events, instances with their readers, lists, values, options
KINDS = (
    "several triggers of an event",
    "a chain of histograms and a synthetic event",
    "a probe",
    "instances",
    "a probe that a function's command enables",
    "a tracer of functions",
    "buffer_size_kb 64",
    "options/func_stack_trace 1",
)
MODULE = """
import pytest
from leftovers import leave, state

BEFORE = {{}}

@pytest.mark.parametrize("name", {names})
def test_leaves(tracefs, name):
    found = state(tracefs)
    assert BEFORE.setdefault("first", found) == found
    assert not leave(tracefs, name) or state(tracefs) != found  # 5.10 has no histograms

def test_clean(tracefs):
    assert state(tracefs) == BEFORE["first"]
"""
BY_PROGRAMS = """
from notes import note

def test_leaves(tracefs, request):
    note(tracefs, request)
    run = tracefs.machine.run
    def sh(text):
        done = run(["sh", "-c", "cd /sys/kernel/tracing; " + text])
        assert (done.returncode, done.stderr) == (0, b"")
    sh("echo 'prev_pid > 3' > events/sched/sched_switch/filter")
    trigger = "hist:keys=prev_pid" if tracefs.exists("events/sched/sched_switch/hist") else "stacktrace:1"
    sh(f"echo '{trigger} if prev_pid > 3' > events/sched/sched_switch/trigger")
    sh("echo 'p:mine vfs_read' > kprobe_events; echo 1 > events/kprobes/mine/enable")
    sh("mkdir instances/a; echo 1 > options/func_stack_trace")
    run(["sh", "-c", "echo 0 > /proc/sys/kernel/ftrace_enabled"])  # refused by 7.3
    sh("(cat trace_pipe & sleep 1000 < instances/a/trace_pipe &) > /dev/null 2>&1")
    tracefs.machine.start_process(["sleep", "2000"])
    tracefs.machine.start_process(["sh", "-c", "while :; do sleep 3000 & sleep 0.01; done"])  # more while it is killed
    assert b"sleep" in run(["ps"]).stdout

def test_clean(tracefs, request):
    assert tracefs.listdir("instances") == []
    for path in ("kprobe_events", "set_event"):
        assert tracefs.read(path) == b""
    assert tracefs.read("events/sched/sched_switch/filter") == b"none\\n"
    assert tracefs.read("events/sched/sched_switch/trigger").startswith(b"# Available triggers:")
    assert tracefs.read("options/func_stack_trace") == b"0\\n"
    assert tracefs.machine.files.read("proc/sys/kernel/ftrace_enabled") == b"1\\n"
    assert b"sleep" not in tracefs.machine.run(["ps"]).stdout
    note(tracefs, request)
"""
HELD = """
from notes import note

def test_holds(tracefs, request):
    note(tracefs, request)
    tracefs.mkdir("instances/held")
    tracefs.machine.tracefs.open("instances/held/trace_pipe", 0)

def test_clean(tracefs, request):
    note(tracefs, request)
    assert tracefs.listdir("instances") == []

def test_of_the_same(tracefs, request):
    note(tracefs, request)
"""
LEFT = "what tests left and could not be undone; guests were replaced"


@pytest.fixture
def run(tmp_path: Path, series: str) -> Run:
    return Run(tmp_path, series)


def modules(names: list[str]) -> dict[str, str]:
    """One test module for each leftover."""
    return {f"test_{number:02}": BATTERY.format(name=name) for number, name in enumerate(names)}


@pytest.mark.slow
def test_on_the_simulator(tmp_path: Path) -> None:
    (tmp_path / "leftovers.py").write_text(Path(leftovers.__file__).read_text())
    for name, text in modules(list(leftovers.LEFTOVERS)).items():
        (tmp_path / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tracefs", "sim:6.1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"\d+ passed, \d+ skipped in", done.stdout), done.stdout
    assert done.returncode == 0


@pytest.mark.vm
def test_on_a_guest(run: Run) -> None:
    """One leftover of each kind, all in one module, which has one guest."""
    (run.place / "leftovers.py").write_text(Path(leftovers.__file__).read_text())
    for name in KINDS:
        assert name in leftovers.LEFTOVERS
    out = run.finish(test_a=MODULE.format(names=KINDS))
    assert re.search(rf"^{len(KINDS) + 1} passed in", out, re.MULTILINE), out
    assert LEFT not in out


@pytest.mark.vm
def test_by_programs_in_the_guest(run: Run) -> None:
    out = run.finish(test_a=BY_PROGRAMS)
    assert "2 passed" in out, out
    assert LEFT not in out
    first, second = [pid for _, pid, _ in run.notes()]
    assert first == second


@pytest.mark.vm
@pytest.mark.requires("xdist")
@pytest.mark.parametrize("workers", [(), ("-n", "1", "--dist", "loadfile")])
def test_a_guest_is_replaced_and_the_test_named(run: Run, series: str, workers: tuple[str, ...]) -> None:
    out = run.finish(*workers, test_a=HELD)
    assert "3 passed" in out, out
    assert re.search(
        rf"=+ {LEFT} =+\ntest_a.py::test_holds\[vm:{re.escape(series)}\]: "
        r"1 file of the guest left open; instances/held stays: Device or resource busy\n",
        out,
    ), out
    held, clean, same = [pid for _, pid, _ in run.notes()]
    assert held != clean == same
