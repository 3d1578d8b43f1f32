"""The fixtures for code that opens /sys/kernel/tracing itself: which kernel they have, and how long they wait."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

pytest_plugins = ["pytester"]

TWO = ("--tracefs", "sim:6.1", "--tracefs", "sim:6.12")
HEAD = """
import os
import select
import selectors
import threading

import pytest

PIPE = "/sys/kernel/tracing/trace_pipe"
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Run pytest on a test file, with the plugin, in a process of its own."""

    def run(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(HEAD + source)
        plugins = ("-p", "kprobe_sim.pytest_plugin", "-p", "pyfakefs.pytest_plugin", "-p", "no:cacheprovider")
        return pytester.runpytest_subprocess(*plugins, "-v", "-rs", "-W", "error", *arguments)

    return run


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("KPROBE_TRACEFS", raising=False)


SAME = """
from pathlib import Path

@pytest.mark.parametrize("n", [1, 2])
def test_patched(sys_kernel_tracing, kernel, tracefs, tracer, workload, tracefs_spec, n):
    same(sys_kernel_tracing, kernel, tracefs, tracer, workload, tracefs_spec)

def test_fake(simulated_machine, kernel, tracefs, tracer, workload, tracefs_spec):
    same(simulated_machine, kernel, tracefs, tracer, workload, tracefs_spec)

def test_fake_files_first(fs, simulated_machine, kernel, tracefs, tracer, workload, tracefs_spec):
    same(simulated_machine, kernel, tracefs, tracer, workload, tracefs_spec)

def same(given, kernel, tracefs, tracer, workload, spec):
    assert given is kernel is tracefs.kernel is tracer.tracefs.kernel
    assert kernel.release.startswith(spec.removeprefix("sim:") + ".")
    assert Path("/proc/sys/kernel/osrelease").exists()
    Path("/sys/kernel/tracing/kprobe_events").write_text("p:a do_sys_openat2 f=+0(%si):string")
    Path("/sys/kernel/tracing/events/kprobes/a/enable").write_text("1")
    assert tracefs.read("kprobe_events").startswith(b"p:kprobes/a do_sys_openat2")
    workload.open("/dev/null")
    assert 'f="/dev/null"' in Path("/sys/kernel/tracing/trace").read_text()
    assert given.clock() < 11_000_000_000  # its time moves only when it is looked at
"""


@pytest.mark.slow
def test_they_are_the_kernel_of_the_other_fixtures_on_each_tracefs(run: Callable[..., pytest.RunResult]) -> None:
    result = run(SAME, *TWO)
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["*::test_patched[[]sim:6.1-1] PASSED*", "*::test_fake[[]sim:6.12] PASSED*"])


RELEASE = """
def test_it(sys_kernel_tracing):
    assert sys_kernel_tracing.release.startswith("6.1.")
"""


@pytest.mark.slow
def test_the_variable_names_a_tracefs_too(
    run: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPROBE_TRACEFS", "sim:6.1")
    result = run(RELEASE)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["tracefs: sim:6.1 (from $KPROBE_TRACEFS)", "*::test_it[[]sim:6.1] PASSED*"])
    run(RELEASE, "--tracefs", "sim:6.12").assert_outcomes(failed=1)
    monkeypatch.setenv("KPROBE_TRACEFS", "sim:6.3")
    result = run(RELEASE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: KPROBE_TRACEFS=sim:6.3: no profile of kernel '6.3'*"])


UNPARAMETRIZED = """
import unittest

@pytest.mark.usefixtures("sys_kernel_tracing")
class TestTool(unittest.TestCase):
    def test_method(self):
        with open("/sys/kernel/tracing/README") as file:
            assert file.read()

def test_asks_late(request):
    assert request.getfixturevalue("sys_kernel_tracing").release.startswith("6.1.")
"""


@pytest.mark.slow
def test_what_pytest_makes_no_copies_of_has_the_one_tracefs(run: Callable[..., pytest.RunResult]) -> None:
    run(UNPARAMETRIZED, "--tracefs", "sim:6.1").assert_outcomes(passed=2)
    result = run(UNPARAMETRIZED, *TWO)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*this test runs on one tracefs, and there are sim:6.1, sim:6.12: *"])


def test_elsewhere_they_are_skipped(run: Callable[..., pytest.RunResult], tmp_path: object) -> None:
    source = "def test_a(sys_kernel_tracing): pass\ndef test_b(simulated_machine): pass\n"
    result = run(source, "--tracefs", f"local:{tmp_path}")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED [[]2] * simulator only"])


# how code waits for trace_pipe, by name; `fd` is its descriptor, `file` the file
WAITS = {
    "a read": "os.read(fd, 4096)",
    "readv": "os.readv(fd, [bytearray(9)])",
    "iteration": "for line in file: pass",
    "readline": "file.readline()",
    "select": "select.select([file], [], [])",
    "select with a time": "select.select([file], [], [], 60)",
    "select again and again": "while not select.select([file], [], [], 0.02)[0]: pass",
    "poll": "p = select.poll(); p.register(file, select.POLLIN); p.poll()",
    "poll again and again": "p = select.poll(); p.register(fd, select.POLLIN)\nwhile not p.poll(20): pass",
    "epoll": "p = select.epoll(); p.register(fd, select.EPOLLIN); p.poll()",
    "a selector": "s = selectors.DefaultSelector(); s.register(file, selectors.EVENT_READ); s.select()",
    "another selector": "s = selectors.PollSelector(); s.register(file, selectors.EVENT_READ); s.select(60)",
    "asyncio": (
        "import asyncio\nasync def main():\n    asyncio.get_running_loop().add_reader(fd, print)\n"
        "    await asyncio.Event().wait()\nasyncio.run(main())"
    ),
    "a function that was bound": "p = poll(); p.register(file, select.POLLIN); p.poll()",
    "a loop that catches": "while True:\n    try:\n        os.read(fd, 9)\n    except Exception:\n        pass",
    "a thread": "thread = threading.Thread(target=read, args=(fd,)); thread.start(); thread.join()",
    "the tracefs": "file.close(); kernel.tracefs.read('trace_pipe')",
    "a stream": "file.close(); kernel.tracefs.stream('trace_pipe').read()",
    "a poll of the tracefs": "file.close(); kernel.tracefs.open('trace_pipe', 0).poll(None)",
}


def waiting(fixture: str) -> str:
    tests = "".join(
        f"def test_{number}(kernel, {fixture}):\n"
        "    file = open(PIPE, 'rb', buffering=0); fd = file.fileno()\n"
        "    open('/sys/kernel/tracing/kprobe_events', 'w').write('p:never vfs_read')\n"
        + "".join(f"    {line}\n" for line in code.splitlines())
        for number, code in enumerate(WAITS.values())
    )
    return "from select import poll\nimport warnings\nwarnings.simplefilter('ignore')\n" + (
        "def read(fd):\n    try:\n        os.read(fd, 9)\n    except BaseException:\n        pass\n" + tests
    )


@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["sys_kernel_tracing", "simulated_machine"])
def test_no_wait_is_longer_than_a_test_may(run: Callable[..., pytest.RunResult], fixture: str) -> None:
    began = time.monotonic()
    result = run(waiting(fixture), "--kprobe-timeout=0.1", "-W", "ignore")
    result.assert_outcomes(failed=len(WAITS))
    assert time.monotonic() - began < 30
    assert sum("waited 0.1 s in all for " in line for line in result.outlines) == len(WAITS)
    result.stdout.fnmatch_lines(
        [
            "*waited 0.1 s in all for /sys/kernel/tracing/trace_pipe, where nothing came:",
            "*  probes              p:kprobes/never vfs_read",
            "*  hits so far         never: 0",
            "*  events that are on  none",
            "*  tracing_on          1",
        ]
    )


def test_what_comes_in_time_is_read(run: Callable[..., pytest.RunResult]) -> None:
    result = run(
        """
def test_it(sys_kernel_tracing):
    kernel = sys_kernel_tracing
    kernel.tracefs.write("kprobe_events", b"p:a vfs_read")
    kernel.tracefs.write("events/kprobes/a/enable", b"1")
    with open(PIPE, "rb", buffering=0) as file:
        for wait in (
            lambda: select.select([file], [], []),
            lambda: poll.poll(),
            lambda: epoll.poll(),
            lambda: selector.select(),
        ):
            poll, epoll, selector = select.poll(), select.epoll(), selectors.DefaultSelector()
            poll.register(file), epoll.register(file), selector.register(file, selectors.EVENT_READ)
            timer = threading.Timer(0.05, kernel.call, ["vfs_read"])
            timer.start()
            assert any(wait())
            timer.join()
            assert b": a: (vfs_read+0x" in file.read(4096)
            assert not select.select([file], [], [], 0)[0]
            epoll.close(), selector.close()
        """
    )
    result.assert_outcomes(passed=1)


def test_a_file_that_outlives_its_test_closes_nobody_elses(run: Callable[..., pytest.RunResult]) -> None:
    result = run(
        """
KEPT = []

def test_a(sys_kernel_tracing):
    KEPT.append(open(PIPE, "rb"))

def test_b():
    left, right = os.pipe()
    assert KEPT[0].fileno() in (left, right)
    KEPT.pop().close()
    os.close(left), os.close(right)
"""
    )
    result.assert_outcomes(passed=2)
