"""`make bench` imports it: control files, lists of functions, and traces read and parsed, all in-process."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from bench_figure import Figure, Group, Round, cpu

from kprobe import Parser
from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.tree.files.inprocess import SimTracefs

KERNEL = "6.1"
ENTRIES = 20_000
CAT = Task(2841, "cat")
DEFINITION = b"p:myopen do_sys_openat2 dfd=%di:s32 filename=+0(%si):string\n"
LINE = re.compile(rb"\s*(.+)-(\d+)\s+\[(\d+)\] (\S+)\s+(\d+)\.(\d+): (\w+): (.*)\n")
PLAIN = "a plain file"


def plain_write(path: Path) -> Callable[[], None]:
    """Return what opens, writes and closes a plain file."""

    def write() -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"1")
        os.close(descriptor)

    return write


def rate(action: Callable[[], bytes]) -> float:
    """Return the megabytes per second of CPU time that something gives."""
    size = 0

    def run() -> None:
        nonlocal size
        size = len(action())

    taken = cpu(run)
    return size / taken / 1e6


def control_files(scratch: Path) -> Round:
    """One open, write and close: of a control file, and of the lists of functions."""
    tracefs = SimulatedKernel(KERNEL).tracefs
    names = tracefs.read("available_filter_functions").decode().split("\n")
    place = str(names.index("vfs_read") + 1).encode()
    plain = plain_write(scratch / "plain")

    def put(path: str, data: bytes, *, truncate: bool = False) -> Callable[[], None]:
        return lambda: tracefs.write(path, data, truncate=truncate)

    writes = {
        "write.tracing_on": (put("tracing_on", b"1"), 2000),
        "functions.index": (put("set_ftrace_filter", place + b"\n", truncate=True), 100),
        "functions.name": (put("set_ftrace_filter", b"vfs_read\n", truncate=True), 100),
        "functions.glob": (put("set_ftrace_filter", b"*sock*\n", truncate=True), 3),
        "functions.class": (put("set_ftrace_filter", b"*[rs]e?d_*\n", truncate=True), 3),
    }
    for write, _ in writes.values():
        write()

    def measure() -> dict[str, float]:
        return {**{key: cpu(write, times) for key, (write, times) in writes.items()}, PLAIN: cpu(plain, 2000)}

    return measure


def lists(_: Path) -> Round:
    """Lists of functions read as a whole."""
    kernel = SimulatedKernel(KERNEL)
    tracefs = kernel.tracefs
    text = tracefs.read("available_filter_functions").decode()
    names = text.splitlines()
    tracefs.write("set_ftrace_filter", b"s*\n")  # some 80 kB
    return lambda: {
        "read.functions": rate(lambda: tracefs.read("available_filter_functions")),
        "read.chosen": rate(lambda: tracefs.read("set_ftrace_filter")),
        "f-string lines": rate(lambda: "".join([f"{name}\n" for name in names]).encode()),
    }


def recorded(different: int) -> SimTracefs[SimulatedKernel]:
    """Return a tracefs with a trace, and so many different records in it."""
    kernel = SimulatedKernel(KERNEL)
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", DEFINITION)
    tracefs.write("events/kprobes/myopen/enable", b"1")
    tracefs.write("buffer_size_kb", b"8192")
    for number in range(ENTRIES):
        kernel.call("do_sys_openat2", task=CAT, args=(-100, f"/etc/hosts.{number % different}"), returns=3)
    return tracefs


def traces(_: Path) -> Round:
    """A trace, read as a whole; what is parsed of it."""
    tracefs, different = recorded(1000), recorded(ENTRIES)
    text = tracefs.read("trace")
    lines = text[text.index(b"\n", text.rindex(b"#")) + 1 :][: 1 << 20]
    lines = lines[: lines.rindex(b"\n") + 1]
    count = lines.count(b"\n")
    formats = {"myopen": tracefs.read("events/kprobes/myopen/format").decode()}

    def show() -> bytes:
        shown = []
        for number in range(ENTRIES):
            seconds, micros = divmod(10_000_000 + number, 1_000_000)
            shown.append(
                f"{'cat':>16s}-{CAT.pid:<7d} [{0:03d}] ..... {seconds:5d}.{micros:06d}: "
                f'myopen: (do_sys_openat2+0x0/0x170) dfd={-100:d} filename="/etc/hosts.{number % 1000}"\n'
            )
        return "".join(shown).encode()

    def parse() -> None:
        parser = Parser(formats.get)
        if len(parser.feed(lines) + parser.close()) != count:
            raise AssertionError("the parser gave another number of records")

    def match() -> None:
        if not all(LINE.match(line) for line in lines.splitlines(keepends=True)):
            raise AssertionError("the expression doesn't match")

    return lambda: {
        "read.trace": rate(lambda: tracefs.read("trace")),
        "read.trace.different": rate(lambda: different.read("trace")),
        "f-string lines": rate(show),
        "parse.line": cpu(parse) / count,
        "one re match": cpu(match) / count,
    }


GROUPS = (
    Group(
        "control files",
        control_files,
        (
            Figure("write.tracing_on", "open, write, close: tracing_on", PLAIN),
            Figure("functions.index", "set_ftrace_filter by index", PLAIN, most=50e-6),
            Figure("functions.name", "set_ftrace_filter by name", PLAIN, most=50e-6),
            Figure("functions.glob", "set_ftrace_filter: *sock*", PLAIN, most=5e-3),
            Figure("functions.class", "set_ftrace_filter: *[rs]e?d_*", PLAIN, most=5e-3),
        ),
    ),
    Group(
        "lists",
        lists,
        (
            Figure("read.functions", "read available_filter_functions", "f-string lines", "MB/s", most=50),
            Figure("read.chosen", "read set_ftrace_filter of s*", "f-string lines", "MB/s", most=50),
        ),
    ),
    Group(
        "traces",
        traces,
        (
            Figure("read.trace", "read trace in-process", "f-string lines", "MB/s", most=200),
            Figure("read.trace.different", "the same, no two records alike", "f-string lines", "MB/s", most=200),
            Figure("parse.line", "parse a line", "one re match"),
        ),
    ),
)
