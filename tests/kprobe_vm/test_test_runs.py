"""Runs of pytest on guests: a machine for each module, or each test, several workers, and a run that is killed."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from kprobe_vm.errors import GuestOops, GuestPanic
from kprobe_vm.guest import slots
from kprobe_vm.host.cache import Cache

from .test_faults import wait_gone

pytestmark = pytest.mark.vm

NOTES = """
import os

import pytest

def note(tracefs, request):
    with open(os.environ["NOTES"], "a") as file:
        file.write(f"{request.node.nodeid} {tracefs.machine.boot.qemu.pid} {tracefs.machine.is_clone}\\n")
"""
TWO_TESTS = """
from notes import note

def test_first(tracefs, request):
    note(tracefs, request)
    assert tracefs.read("kprobe_events") == b""
    tracefs.write("kprobe_events", b"p:mine vfs_read")

def test_second(tracefs, request):
    note(tracefs, request)
    assert tracefs.read("kprobe_events") == b""
"""
OWN = """
import pytest
from notes import note

@pytest.mark.own_guest
def test_own(tracefs, request):
    note(tracefs, request)
    tracefs.machine.put("tmp/left", b"")
"""
PANIC = """
from notes import note

def test_dies(tracefs, request):
    note(tracefs, request)
    tracefs.machine.files.write("proc/sysrq-trigger", b"c")

def test_goes_on(tracefs, request):
    note(tracefs, request)
"""


class Run:
    """A run of pytest in a directory of its own, with temporary files of its own."""

    def __init__(self, place: Path, series: str) -> None:
        self.place = place
        self._spec = f"vm:{series}"
        self.temporary = place / "tmp"
        self.temporary.mkdir()
        (place / "notes.py").write_text(NOTES)
        # the places of this run's workers, whoever else has guests meanwhile
        (place / "conftest.py").write_text(
            f"from kprobe_vm.guest import slots\nslots.PREFIX = {f'{chr(0)}test{place}/'!r}\n"
        )
        self.notes_file = place / "notes"

    def start(self, *arguments: str, **files: str) -> subprocess.Popen[str]:
        for old in self.place.glob("test_*.py"):
            old.unlink()
        for name, text in files.items():
            (self.place / f"{name}.py").write_text(text)
        installed = any(point.value == "kprobe_sim.pytest_plugin" for point in entry_points(group="pytest11"))
        plugin = [] if installed else ["-p", "kprobe_sim.pytest_plugin"]
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pytest",
                *plugin,
                "--tracefs",
                self._spec,
                "-p",
                "no:cacheprovider",
                "-q",
                *arguments,
            ],
            cwd=self.place,
            env={
                **os.environ,
                "TMPDIR": str(self.temporary),
                "NOTES": str(self.notes_file),
                "PYTHONPATH": self.path(),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, *arguments: str, **files: str) -> str:
        process = self.start(*arguments, **files)
        try:
            return process.communicate(timeout=90)[0]
        finally:
            process.kill()
            process.wait()

    def notes(self) -> list[tuple[str, int, bool]]:
        """Which test had which machine, and whether that was a clone."""
        lines = self.notes_file.read_text().splitlines() if self.notes_file.exists() else []
        noted = []
        for line in lines:
            test, pid, is_clone = line.split()
            noted.append((test.partition("::")[2].partition("[")[0], int(pid), is_clone == "True"))
        return noted

    def path(self) -> str:
        return os.pathsep.join([str(self.place), *(path for path in sys.path if path)])


@pytest.fixture
def run(tmp_path: Path, series: str) -> Run:
    return Run(tmp_path, series)


def test_each_module_has_a_machine(run: Run) -> None:
    out = run.finish(test_a=TWO_TESTS, test_b=TWO_TESTS)
    assert "4 passed" in out, out
    machines = [pid for _, pid, _ in run.notes()]
    assert machines[0] == machines[1] != machines[2] == machines[3]
    assert [is_clone for _, _, is_clone in run.notes()[2:]] == [True, True]


def test_each_test_has_a_machine_on_request(run: Run) -> None:
    out = run.finish("--guest-per", "test", test_a=TWO_TESTS, test_b=TWO_TESTS)
    assert "4 passed" in out, out
    assert len({pid for _, pid, _ in run.notes()}) == 4


def test_a_test_has_its_own_machine_by_its_mark(run: Run) -> None:
    after = OWN + TWO_TESTS.replace("from notes import note", "")
    out = run.finish(test_a=TWO_TESTS + after.replace("_first", "_third").replace("_second", "_fourth"))
    assert "5 passed" in out, out
    first, second, own, third, fourth = [pid for _, pid, _ in run.notes()]
    assert first == second
    assert third == fourth
    assert len({first, own, third}) == 3


def test_a_guest_that_dies_is_not_a_test_that_fails(run: Run) -> None:
    process = run.start("-vv", test_a=PANIC)
    out, _ = process.communicate(timeout=110)
    kind = next(kind for kind in (GuestOops, GuestPanic) if kind.__name__ in out)
    assert process.returncode == kind.exit_status
    assert re.search(rf"::test_dies\S* GUEST FAILED \({kind.__name__}\)", out), out
    assert "1 failed, 1 passed" in out, out
    assert re.search(rf"which says nothing about the tests =+\n{kind.__name__}: test_a.py::test_dies", out), out
    assert "the guest's kernel " in out  # the error with the console's end
    assert len({pid for _, pid, _ in run.notes()}) == 2  # the next test has another


@pytest.mark.requires("xdist")
def test_workers_share_what_there_is(run: Run) -> None:
    modules = {f"test_{number}": TWO_TESTS for number in range(4)}
    out = run.finish("-n", "2", "--dist", "loadfile", **modules)
    assert "8 passed" in out, out
    assert len({pid for _, pid, _ in run.notes()}) == 4


@pytest.mark.requires("xdist")
def test_workers_wait_for_their_turn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one place, at no time two of the tests have a machine."""
    monkeypatch.setenv("KPROBE_VM_GUESTS", "1")
    held = """
import os, time
from notes import note

def test_one(tracefs, request):
    start = time.time()
    note(tracefs, request)
    tracefs.machine.run(["sleep", "0.3"])
    with open(os.environ["NOTES"] + ".times", "a") as file:
        file.write(f"{start} {time.time()}\\n")
"""
    out = run.finish("-n", "2", "--dist", "loadfile", **{f"test_{number}": held for number in range(4)})
    assert "4 passed" in out, out
    times = sorted(tuple(map(float, line.split())) for line in Path(f"{run.notes_file}.times").read_text().splitlines())
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(times)), times


WHICH = """
def test_which(tracefs, tracefs_spec):
    series = tracefs_spec.removeprefix("vm:")
    assert tracefs.machine.release.startswith((f"{series}.", f"{series}-"))  # 6.12.117+deb13, 7.3-cloud
    assert "kprobe_events" in tracefs.listdir("")
    tracefs.write("kprobe_events", b"p:mine vfs_read")
"""


def test_two_kernels_in_one_run(run: Run, series: str) -> None:
    """Of a project that knows nothing of us but the option."""
    other = "6.12" if series == "6.1" else "6.1"
    out = run.finish("--tracefs", f"vm:{other}", "-vv", test_a=WHICH, test_b=WHICH)
    assert "4 passed" in out, out
    order = re.findall(r"test_([ab])\.py::test_which\[vm:(\S+)\] PASSED", out)
    assert order == [("a", series), ("b", series), ("a", other), ("b", other)]


def test_a_run_that_waits_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPROBE_VM_GUESTS", "1")
    with slots.take(1, prefix=f"\0test{run.place}/"):
        process = run.start(test_a=WHICH)
        assert process.stdout is not None
        line = process.stdout.readline()
    try:
        out = line + process.communicate(timeout=90)[0]
    finally:
        process.kill()
        process.wait()
    assert re.match(r"kprobe-vm: 1 guest runs on this machine already: waiting for one to end, \d+ s at most", line)
    assert "1 passed" in out, out


def test_the_verb_test(run: Run, series: str) -> None:
    (run.place / "test_a.py").write_text(WHICH)
    command = [sys.executable, "-m", "kprobe_vm", "test", series, "--cpus", "2", "--"]
    environment = {**os.environ, "PYTHONPATH": run.path()}
    done = subprocess.run(
        [*command, "-q", "-p", "no:cacheprovider", "-rA", "test_a.py"],
        cwd=run.place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 1
    assert f"test_a.py::test_which[vm:{series},cpus=2]" in done.stdout  # it expects the bare spec
    missing = subprocess.run([*command, "no_such.py"], cwd=run.place, env=environment, check=False, capture_output=True)
    assert missing.returncode == 4  # pytest's own status


BLOCKS = (
    TWO_TESTS
    + """
def test_blocks(tracefs, request):
    note(tracefs, request)
    tracefs.stream("trace_pipe").read()
"""
)


@pytest.mark.requires("xdist")
@pytest.mark.parametrize("arguments", [(), ("--guest-per", "test"), ("-n", "2", "--dist", "loadfile")])
def test_kill_9_leaves_nothing(run: Run, arguments: tuple[str, ...]) -> None:
    cache = Cache.of(os.environ)
    process = run.start(*arguments, test_a=BLOCKS, test_b=BLOCKS)
    try:
        blocked = 2 if "-n" in arguments else 1
        wait_until(lambda: [test for test, _, _ in run.notes()].count("test_blocks") >= blocked, process)
        machines = machines_of(run)
        assert {pid for test, pid, _ in run.notes() if test == "test_blocks"} <= machines
        os.kill(process.pid, signal.SIGKILL)
        began = time.monotonic()
        for pid in machines:
            wait_gone(pid)
        print(f"all of it gone {time.monotonic() - began:.2f} s after kill -9")
    finally:
        process.kill()
        process.communicate()
    assert left_behind(run) == []
    assert list((cache.root / "templates").glob(".new-*")) == []
    out = run.finish(test_a=TWO_TESTS)  # and the next run has all it needs
    assert "2 passed" in out, out
    assert left_behind(run) == []


def left_behind(run: Run) -> list[str]:
    """The temporary files but for pytest's own."""
    return [path.name for path in run.temporary.iterdir() if not path.name.startswith("pytest-of-")]


def machines_of(run: Run) -> set[int]:
    """All machines that the processes of a run have started."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = os.fsencode(run.notes_file) in (process / "environ").read_bytes()
            if ours and b"qemu-system" in (process / "cmdline").read_bytes():
                found.add(int(process.name))
    return found


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.02)
