"""The end of a trace: nothing that was recorded before is lost, and it waits neither for others' silence nor for ever.

The neighbour records at the top level whenever anything is read there, so that the buffer is never found empty.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple

import pytest

from kprobe import Event, Tracer
from kprobe.cli import main
from kprobe.running import _stream
from kprobe.tracing import remainder
from kprobe.tracing.live import RawPipe
from kprobe.tracing.remainder import Remainder
from kprobe.tracing.trace_file import read_shared
from kprobe_sim import SimulatedKernel, Task
from kprobe_text.terminal.output import Output, note

MOST = 2000  # reads after the stop that count as going on for ever
OPENS = 20
NAMES = [f"/etc/{number}" for number in range(OPENS)]
RETURN = "r:myret do_sys_openat2 fd=$retval:s32"


class Neighbour:
    """A tracefs of whose streams each look finds something that somebody else has just recorded.

    The machine works before the first look; `at_read` is called at the third.
    """

    def __init__(self, kernel: SimulatedKernel, at_read: Callable[[], None] = lambda: None) -> None:
        self.kernel = kernel
        self.reads = self.late = 0
        self._is_stopping = False
        self._at_read = at_read

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel.tracefs, name)

    def play(self) -> None:
        opens(self.kernel)

    def write(self, path: str, data: bytes, **options: bool) -> None:
        self.kernel.tracefs.write(path, data, **options)
        self._is_stopping |= path.endswith("/enable") and data[:1] == b"0"

    def stream(self, path: str) -> Any:
        return NoisyStream(self, self.kernel.tracefs.stream(path))

    def mark(self) -> None:
        self.reads += 1
        if self.reads == 3:
            self._at_read()
        self.late += self._is_stopping
        if self.late > MOST:
            raise AssertionError("it is read on and on")
        self.kernel.tracefs.write("trace_marker", b"noise\n")


class NoisyStream(NamedTuple):
    """A stream of it."""

    tracefs: Neighbour
    stream: Any

    def read(self, timeout: float | None = None) -> Any:
        self.tracefs.mark()
        return self.stream.read(timeout)

    def close(self) -> None:
        self.stream.close()


def opens(kernel: SimulatedKernel) -> None:
    for name in NAMES:
        kernel.call("do_sys_openat2", task=Task(42, "cat"), args=(-100 & 0xFFFFFFFF, name, 0), returns=3)


@pytest.fixture
def kernel() -> SimulatedKernel:
    return SimulatedKernel("6.1")


def is_clean(kernel: SimulatedKernel) -> bool:
    return not kernel.tracefs.read("dynamic_events") and not kernel.tracefs.listdir("instances")


VIEWS = {
    "text": ((RETURN,), lambda text: text.count(": myret: (")),
    "json": (("--json", RETURN), lambda text: text.count('"fields":{"fd":3}')),
    "csv": (("--csv", RETURN), lambda text: text.count(",myret,")),
    "raw": (("--raw", RETURN), lambda text: text.count(" myret: ")),
    "count": (("--count", "comm", RETURN), lambda text: text.count(f" {OPENS} ") and OPENS),
    "hist": (("--hist", "fd", RETURN), lambda text: text.count(f" {OPENS} ") and OPENS),
    "latency": (("--latency", "do_sys_openat2"), lambda text: text.count(f" {OPENS} ") and OPENS),
    "stacks": (("--stacks", RETURN), lambda text: text.count(f" {OPENS}\n") and OPENS),
    "json, buffered": (("-d", ".02", "--json", RETURN), lambda text: text.count('"fields":{"fd":3}')),
    "raw, buffered": (("-d", ".02", "--raw", RETURN), lambda text: text.count(" myret: ")),
}
ENDS = [
    (view, end)
    for view in VIEWS
    for end in ("its time", "SIGTERM", "SIGINT")
    if "-d" not in VIEWS[view][0] or end == "its time"
]


@pytest.mark.parametrize(("view", "end"), ENDS)
def test_a_noisy_neighbour_keeps_no_view_from_its_end(
    kernel: SimulatedKernel, capfdbinary: Any, view: str, end: str
) -> None:
    words, counted = VIEWS[view]
    timed = ("--timeout", ".02") if end == "its time" and "-d" not in words else ()
    is_signal = end != "its time"
    neighbour = Neighbour(kernel, lambda: os.kill(os.getpid(), getattr(signal, end)) if is_signal else None)
    status = main(["--top-level", *timed, *words], tracefs=neighbour)
    text = capfdbinary.readouterr().out.decode()
    assert status == (143 if end == "SIGTERM" else 0)
    assert counted(text) == OPENS, text
    assert is_clean(kernel)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("options", [{"timeout": 0.02}, {"duration": 0.02, "raw": True}])
def test_a_noisy_neighbour_and_the_library(kernel: SimulatedKernel, raw: bool, options: dict[str, Any]) -> None:
    neighbour = Neighbour(kernel)
    with Tracer(neighbour).trace(RETURN, top_level=True, **({"raw": raw} | options)) as trace:
        opens(kernel)
        records = list(trace)
        assert list(trace) == []  # what the neighbour records since is for others
    assert [record.fields["fd"] for record in records if isinstance(record, Event)] == [3] * OPENS
    assert is_clean(kernel)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("text", [None, b"entries: 9\noverrun: 0\n", b"entries: 9\noverrun: 0\nread events: 0\n", b""])
def test_stats_that_are_refused_or_never_change(
    kernel: SimulatedKernel, monkeypatch: pytest.MonkeyPatch, raw: bool, text: bytes | None
) -> None:
    """A file of them that couldn't be read was once taken for a buffer that isn't empty, for ever."""

    class Odd(Neighbour):
        def stream(self, path: str) -> Any:
            return self.kernel.tracefs.stream(path)

        def read(self, path: str) -> Any:
            if not path.endswith("/stats"):
                return self.kernel.tracefs.read(path)
            self.reads += 1
            assert self.reads < 10000
            if text is None:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return text

    monkeypatch.setattr(remainder, "PATIENCE", 0.05)
    with Tracer(Odd(kernel)).trace(RETURN, raw=raw) as trace:
        opens(kernel)
        trace.stop()
        assert sum(isinstance(record, Event) for record in trace) == OPENS
    assert is_clean(kernel)


class Stats:
    """A tracefs of one CPU's counts, which are those of the next look each time; its clock stands still."""

    def __init__(self, *looks: tuple[int, int, int | None]) -> None:
        self.looks = list(looks)
        self.now = 0.0

    def listdir(self, path: str) -> list[str]:
        return ["cpu0"] if path == "per_cpu" else []

    def read(self, path: str) -> bytes:
        assert path == "per_cpu/cpu0/stats"
        entries, overrun, read = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        more = "" if read is None else f"read events: {read}\n"
        return f"entries: {entries}\noverrun: {overrun}\nnow ts: 1.5\n{more}".encode()


@pytest.mark.parametrize(
    ("looks", "overs"),
    [
        ([(7, 2, 1), (6, 2, 3), (9, 2, 7), (9, 2, 8)], [False, False, True]),  # 7 were there: 3 gone are now 10
        ([(7, 2, 1), (7, 8, 2)], [True]),  # overwritten
        ([(7, 2, 5), (3, 0, 0)], [True]),  # emptied by somebody
        ([(7, 2, 5), (0, 2, 5)], [True]),
        ([(7, 2, None), (3, 90, None), (0, 91, None)], [False, True]),  # before 3.10
    ],
)
def test_what_was_held_has_been_read(looks: list[tuple[int, int, int | None]], overs: list[bool]) -> None:
    stats = Stats(*looks)
    held = Remainder(stats, "per_cpu", lambda: stats.now)  # type: ignore[arg-type]
    assert [held.is_over() for _ in overs] == overs


def test_what_was_held_has_its_time() -> None:
    """It begins anew when something has gone, unless that may be what others overwrite."""
    stats = Stats((7, 2, 1), (7, 2, 2), (7, 2, 2))
    held = Remainder(stats, "per_cpu", lambda: stats.now)  # type: ignore[arg-type]
    stats.now = 1.5
    assert not held.is_over()
    stats.now = 3.4
    assert not held.is_over()
    stats.now = 3.6
    assert held.is_over()
    stats = Stats((7, 2, None), (7, 3, None), (7, 4, None))
    held = Remainder(stats, "per_cpu", lambda: stats.now)  # type: ignore[arg-type]
    stats.now = 1.5
    assert not held.is_over()
    stats.now = 2.1
    assert held.is_over()


@pytest.mark.parametrize("raw", [True, False])
def test_all_cpus_are_read_to_the_stop(raw: bool) -> None:
    """More than one read gives, and more on one CPU than on another."""
    kernel = SimulatedKernel("6.12", cpus=4)
    neighbour = Neighbour(kernel)
    kernel.tracefs.write("buffer_size_kb", b"1000")
    with Tracer(neighbour).trace("p:mine vfs_read", top_level=True, raw=raw, timeout=9) as trace:
        for number in range(2000):
            kernel.call("vfs_read", task=Task(7, "x"), cpu=0 if number % 4 else number % 3 + 1)
        trace.stop()
        assert sum(isinstance(record, Event) for record in trace) == 2000
    assert is_clean(kernel)


class Interrupting:
    """Raises KeyboardInterrupt before the line of that number which runs in a function of these files."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.lines = 0

    def __enter__(self) -> Interrupting:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, _: object) -> Any:
        is_closing = frame.f_code.co_name == "close" and frame.f_code.co_filename.endswith("/live.py")
        return self._line if event == "call" and is_closing else None

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                raise KeyboardInterrupt
        return self._line


def test_an_interrupt_at_any_line_of_closing_raw_pages_leaves_nothing() -> None:
    kernel = SimulatedKernel("6.1", cpus=3)
    at = 0
    while True:
        at += 1
        trace = Tracer(kernel.tracefs).trace(RETURN, raw=True)
        trace.__enter__()
        with Interrupting(at) as interrupting, suppress(KeyboardInterrupt):
            trace.__exit__(None, None, None)
        assert (trace.undo_failures, is_clean(kernel)) == ((), True), at
        if interrupting.lines < at:
            break
    assert at > 10


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_close_of_a_stream_leaves_nothing(when: str) -> None:
    class Hit:
        """A stream whose closing is interrupted, once."""

        def __init__(self, stream: Any) -> None:
            self.stream = stream
            self.is_due = True

        def read(self, timeout: float | None = None) -> Any:
            return self.stream.read(timeout)

        def close(self) -> None:
            is_due, self.is_due = self.is_due, False
            if is_due and when == "before":
                raise KeyboardInterrupt
            self.stream.close()
            if is_due:
                raise KeyboardInterrupt

    class Hitting(Neighbour):
        def stream(self, path: str) -> Any:
            stream = self.kernel.tracefs.stream(path)
            return Hit(stream) if "cpu1/" in path else stream

    kernel = SimulatedKernel("6.1", cpus=3)
    trace = Tracer(Hitting(kernel)).trace(RETURN, raw=True)
    with pytest.raises(KeyboardInterrupt), trace:
        pass
    assert (trace.undo_failures, is_clean(kernel)) == ((), True)


def test_closing_opens_nothing_again() -> None:
    """A stream that has ended is opened again; not while another thread closes them all."""
    kernel = SimulatedKernel("6.1", cpus=2)

    class Ending(Neighbour):
        def stream(self, path: str) -> Any:
            self.reads += 1
            return self.kernel.tracefs.stream(path)

    tracefs = Ending(kernel)
    pipe = RawPipe(tracefs)  # type: ignore[arg-type]
    assert tracefs.reads == 2
    pipe.close()
    pipe._reopen(0)
    assert (tracefs.reads, pipe.read(None), pipe.drain()) == (2, [], [])


@pytest.mark.parametrize(("stacks", "entries", "lines"), [(0, 3, 7), (5, 3, 42), (0, 900, 1801)])
def test_a_file_that_others_fill_as_it_is_read_has_its_end(stacks: int, entries: int, lines: int) -> None:
    """Once its time is over, twice as many lines as there were entries are enough; those of stacks don't count."""

    class Filled:
        """A file without an end, of which a look takes a second."""

        now = 0.0

        def open(self, path: str, flags: int) -> Any:
            return self

        def read(self, size: int) -> bytes:
            self.now += 1
            return b"line\n" + b" => call\n" * stacks + b"half of a "

        def close(self) -> None:
            assert self.now > 0

    tracefs = Filled()
    stats = Stats((entries, 0, 0))
    held = Remainder(stats, "per_cpu", lambda: stats.now)  # type: ignore[arg-type]
    text = read_shared(tracefs, "trace", held, lambda: tracefs.now)  # type: ignore[arg-type]
    assert text.endswith(b"\n")
    assert text.count(b"\n") == lines


class Endless(NamedTuple):
    """A view that takes all that comes and prints nothing, as `--latency` does."""

    reads: list[None]

    def read(self, timeout: float) -> None:
        self.reads.append(None)
        assert len(self.reads) < MOST


def test_a_view_that_prints_at_its_end_sees_that_its_reader_has_gone(kernel: SimulatedKernel) -> None:
    reading, writing = os.pipe()
    with open(writing, "wb") as file, Output(file) as output:
        os.close(reading)
        with Tracer(kernel.tracefs).trace(RETURN) as trace, pytest.raises(BrokenPipeError):
            _stream(trace, output, Endless([]))  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [("-d", "100"), ("-d", "100", "--json"), ("-d", "100", "--count", "comm")])
def test_a_buffered_trace_sees_that_its_reader_has_gone(kernel: SimulatedKernel, words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stdout, sys.stdout = sys.stdout, open(writing, "w")  # noqa: SIM115 - closed below
    try:
        if words[-1] == "comm":  # JSON's first line meets it before
            os.set_blocking(writing, True)
        assert main([*words, RETURN], tracefs=kernel.tracefs) == 141
    finally:
        broken, sys.stdout = sys.stdout, stdout
        broken.close()
    assert is_clean(kernel)


@pytest.fixture
def full_pipe() -> Iterator[int]:
    """Yield the writing end of a pipe that nobody reads and that has no room."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, bytes(4096))
    yield writing
    os.close(reading)
    os.close(writing)


def test_words_that_nobody_takes_hold_up_a_session_for_a_moment(
    full_pipe: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kprobe_text.terminal.output.GRACE", 0.05)
    with open(full_pipe, "w", closefd=False) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        note("a warning")
    assert os.write(full_pipe, b"") == 0


def test_a_reader_who_takes_nothing_of_either_output_keeps_no_probe(
    kernel: SimulatedKernel, full_pipe: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `kprobe … 2>&1 | sleep 1000`."""
    monkeypatch.setattr("kprobe_text.terminal.output.GRACE", 0.05)
    with open(full_pipe, "w", closefd=False) as both:
        monkeypatch.setattr(sys, "stdout", both)
        monkeypatch.setattr(sys, "stderr", both)
        assert main(["--timeout", ".05", RETURN], tracefs=Neighbour(kernel)) == 0
    assert is_clean(kernel)


def test_a_buffered_trace_is_waited_for_in_parts(kernel: SimulatedKernel) -> None:
    with Tracer(kernel.tracefs).trace(RETURN, duration=100) as trace, pytest.raises(TimeoutError):
        trace.wait(0.02)
