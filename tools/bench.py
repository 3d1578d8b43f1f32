"""Benchmarks: how many times as long as something plain, measured side by side in one run.

Every row is measured ROUNDS times, ours and the plain one in turn; the table shows the medians and the median of the
rounds' ratios.  The ratio is what is worth comparing; the times are those of this machine and moment.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import bench_expose

from kprobe import Parser
from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.builds.filter_gates import filter_gates
from kprobe_sim.filters.predicate import compile_filter

ROUNDS = 5
KERNEL = "6.1"
DEFINITION = b"p:myopen do_sys_openat2 dfd=%di:s32 filename=+0(%si):string"
CAT = Task(2841, "cat")
CALLER = "__x64_sys_openat+0x6a"
LINE = re.compile(rb"\s*(.+)-(\d+)\s+\[(\d+)\] (\S+)\s+(\d+)\.(\d+): (\w+): (.*)\n")


class Comparison(NamedTuple):
    """One comparison: each function does its work `times` over and returns nothing."""

    what: str
    plain: str
    times: int
    ours: Callable[[], None]
    theirs: Callable[[], None]


def python(*arguments: str) -> Callable[[], None]:
    """Return what runs a fresh interpreter."""
    return lambda: void(subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL))


def void(_: object) -> None:
    """Drop a result."""


def repeated(times: int, action: Callable[[], object]) -> Callable[[], None]:
    """Return what does it that often."""

    def run() -> None:
        for _ in range(times):
            action()

    return run


def starts() -> list[Comparison]:
    """What it takes until something can be done."""
    nothing = python("-c", "pass")
    script = "from kprobe_sim import SimulatedKernel; SimulatedKernel()"
    return [
        Comparison("kprobe --help", "python -c pass", 1, python("-m", "kprobe", "--help"), nothing),
        Comparison("python, import, SimulatedKernel()", "python -c pass", 1, python("-c", script), nothing),
        Comparison("SimulatedKernel() once imported", "python -c pass", 1, lambda: void(SimulatedKernel()), nothing),
    ]


def files(scratch: Path) -> list[Comparison]:
    """Writing to the simulated tracefs, and to a file."""
    times = 2000
    tracefs = SimulatedKernel(KERNEL).tracefs
    plain = scratch / "plain"
    plain.write_bytes(b"1")

    def write_plain() -> None:
        descriptor = os.open(plain, os.O_WRONLY)
        os.write(descriptor, b"1")
        os.close(descriptor)

    return [
        Comparison(
            "open, write, close: tracing_on",
            "a plain file",
            times,
            repeated(times, lambda: tracefs.write("tracing_on", b"1")),
            repeated(times, write_plain),
        )
    ]


def definitions(scratch: Path) -> list[Comparison]:
    """Defining probes, and appending the same lines to a file."""
    times = 500
    plain = scratch / "definitions"
    lines = [DEFINITION.replace(b"myopen", b"myopen%d" % number) + b"\n" for number in range(times)]

    def define() -> None:
        tracefs = SimulatedKernel(KERNEL).tracefs
        for line in lines:
            tracefs.write("kprobe_events", line)

    def append() -> None:
        for line in lines:
            with open(plain, "ab", buffering=0) as file:
                file.write(line)

    return [Comparison("define a probe with two arguments", "append to a file", times, define, append)]


def events(scratch: Path) -> list[Comparison]:
    """Events recorded and shown, and the same lines from a loop."""
    times = 5000
    kernel = SimulatedKernel(KERNEL)
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", DEFINITION + b"\n")
    tracefs.write("events/kprobes/myopen/enable", b"1\n")
    plain = scratch / "events"

    def call() -> None:
        for _ in range(times):
            kernel.call("do_sys_openat2", task=CAT, args=(-100, "/etc/hostname"), returns=3, caller=CALLER)

    def ours() -> None:
        tracefs.write("trace", b"", truncate=True)
        call()
        plain.write_bytes(tracefs.read("trace"))

    def theirs() -> None:
        with open(plain, "w", encoding="ascii") as file:
            for number in range(times):
                seconds, micros = divmod(10_000_000 + number, 1_000_000)
                file.write(
                    f"{'cat':>16s}-{CAT.pid:<7d} [{0:03d}] ..... {seconds:5d}.{micros:06d}: "
                    f'myopen: (do_sys_openat2+0x0/0x170) dfd={-100:d} filename="/etc/hostname"\n'
                )

    def show() -> None:
        plain.write_bytes(tracefs.read("trace"))  # of what `ours` recorded

    ours()
    text = tracefs.read("trace")
    lines = text[text.index(b"\n", text.rindex(b"#")) + 1 :]
    formats = {"myopen": tracefs.read("events/kprobes/myopen/format").decode()}
    return [
        Comparison("record an event and show it", "an f-string loop", times, ours, theirs),
        Comparison("show an event", "an f-string loop", times, show, theirs),
        parsing(lines, formats),
    ]


def parsing(lines: bytes, formats: dict[str, str]) -> Comparison:
    """Lines of a trace parsed, and matched by one regular expression."""
    count = lines.count(b"\n")

    def parse() -> None:
        parser = Parser(formats.get)
        if len(parser.feed(lines) + parser.close()) != count:
            raise AssertionError("the parser gave another number of records")

    def match() -> None:
        for line in lines.splitlines(keepends=True):
            if LINE.match(line) is None:
                raise AssertionError("the expression doesn't match")

    return Comparison("parse a line", "one re match", count, parse, match)


def filters() -> list[Comparison]:
    """A filter matched, and the same test by hand on the same bytes."""
    times = 20_000
    kernel = SimulatedKernel(KERNEL)
    kernel.tracefs.write("kprobe_events", DEFINITION + b"\n")
    event = kernel.events.event("kprobes", "myopen")
    if event is None:
        raise AssertionError("the event isn't there")
    gates = filter_gates(kernel.profile.number)
    predicate = compile_filter('dfd == -100 && filename ~ "*host*"', tuple(event.filter_fields()), gates=gates)
    path = b"/etc/hostname\0"
    record = struct.pack("<HBBiQiI", event.id, 0, 0, CAT.pid, 0, -100, len(path) << 16 | 24) + path

    def ours() -> None:
        for _ in range(times):
            if not predicate.match(record, cpu=0, comm=b"cat"):
                raise AssertionError("the filter doesn't match")

    dfd, location = struct.Struct("<i"), struct.Struct("<HH")

    def theirs() -> None:
        for _ in range(times):
            start, length = location.unpack_from(record, 20)
            if dfd.unpack_from(record, 16)[0] != -100 or b"host" not in record[start : start + length]:
                raise AssertionError("the test doesn't match")

    return [Comparison("match a filter of two terms", "the test by hand", times, ours, theirs)]


def seconds(action: Callable[[], None]) -> float:
    """Return how long it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def duration(value: float) -> str:
    """Return a time in a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value / 1e-9:.0f} ns"


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        rows = [*starts(), *files(place), *definitions(place), *events(place), *filters()]
        measured: list[list[tuple[float, float]]] = [[] for _ in rows]
        for number in range(ROUNDS):
            for row, pairs in zip(rows, measured, strict=True):
                first, second = (row.ours, row.theirs) if number % 2 else (row.theirs, row.ours)
                one, two = seconds(first), seconds(second)
                ours, theirs = (one, two) if number % 2 else (two, one)
                pairs.append((ours / row.times, theirs / row.times))
    print(f"Python {sys.version.split()[0]}, medians of {ROUNDS} rounds, times of one go\n")
    print(f"{'what':<36}{'time':>10}  {'per second':>11}  {'against':<18}{'time':>10}  {'ratio':>8}")
    for row, pairs in zip(rows, measured, strict=True):
        ours, theirs = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
        ratio = median(pair[0] / pair[1] for pair in pairs)
        mine = f"{row.what:<36}{duration(ours):>10}  {1 / ours:>11,.0f}"
        print(f"{mine}  {row.plain:<18}{duration(theirs):>10}  {ratio:>8.2f}")
    return bench_expose.main()


if __name__ == "__main__":
    sys.exit(main())
