"""Calls in interrupts of many functions on 3.2, 3.13, 4.4 and 4.19: five whole traces each, to the byte.

The first three are one buffer in three formats, whose microseconds tell the nanoseconds; the two of stacks are another.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import pytest

from kprobe_sim import SimulatedKernel

from .nanoseconds import in_order, nanoseconds
from .recorded_on import recorded_on
from .test_early_records import Hit, enable_only, hits
from .test_early_whole import FIXTURES, same_cpu

DEFINITION = re.compile(rb"[pr]:kprobes/(\w+) (\w+)\n")
PLACE = re.compile(rb"([\w.]+)\+0x[0-9a-f]+/(0x[0-9a-f]+)")
BEGIN = re.compile(rb"^(?=.{16}-\d+ +\[\d{3}\])", re.MULTILINE)
STACK = re.compile(rb".{16}-\d+ +\[(\d{3})\].*<stack trace>\n")
STAMP = re.compile(rb".* (\d+)\.(\d{6}): ")
NUMBERS = re.compile(rb" (\d+) ([0-9a-f]{8}) [0-9a-f]{8} \[([0-9a-f]{8})\] (\d+)\.(\d{3})ms \(\+(\d+)\.(\d{3})ms\): ")
ANYWHERE = "do_sys_open+0x1"


class Seen(NamedTuple):
    """What a trace shows of a call: a hit with its time in ns, and the stack with its own."""

    hit: Hit
    at: int
    context: tuple[int, int]  # flags and preempt count
    stack_at: int = 0
    frames: tuple[str, ...] = ()


class Number(NamedTuple):
    """The numbers of a line in latency-format and verbose; times in us, `gap` is that to the next line."""

    flags: int
    preempt_count: int
    stamp: int
    elapsed: int
    gap: int


@cache
def recorded(series: str, name: str) -> bytes:
    with lzma.open(FIXTURES / "early" / series / f"{name}.trace.xz") as file:
        return file.read()


def numbers(text: bytes) -> list[Number]:
    return [
        Number(int(flags), int(depth, 16), int(stamp, 16), int(since + since_us), int(gap + gap_us))
        for flags, depth, stamp, since, since_us, gap, gap_us in NUMBERS.findall(text)
    ]


def with_stacks(text: bytes) -> list[Seen]:
    """Return the calls of a trace with stacks: one belongs to what the same CPU hit before."""
    pieces = BEGIN.split(text)[1:]
    stamps = [int(b"".join(match.groups())) for piece in pieces if (match := STAMP.match(piece))]
    seen: list[Seen] = []
    last: dict[int, int] = {}  # by CPU
    for piece, at in zip(pieces, in_order(stamps), strict=True):
        stack = STACK.match(piece)
        if stack is None:
            hit = next(hits(piece))
            last[hit.cpu] = len(seen)
            seen.append(Seen(hit, at, hit.context or (0, 0)))
        else:
            frames = re.findall(r"^ => (.*?)(?:/0x[0-9a-f]+)?$", piece.decode(), re.MULTILINE)
            number = last.pop(int(stack[1]))
            seen[number] = seen[number]._replace(stack_at=at, frames=tuple(frames))
    return seen


def called_from(series: str, hit: Hit, shown: Sequence[str]) -> tuple[str, ...]:
    """Return the call chain of which a stack was shown.

    By frame pointers, which 3.2 and 4.19 have, the caller isn't seen at an entry; 4.19 begins with the function.
    """
    if hit.caller:
        return (hit.caller, *shown)
    if series == "4.19":
        return (ANYWHERE, *shown[1:])
    return (ANYWHERE, *shown) if series == "3.2" else tuple(shown)


def traced(series: str) -> SimulatedKernel:
    """Return a kernel with the probes, and all functions that they and the traces name, as large as they are shown."""
    kernel = recorded_on(series, cpus=2)
    definitions = (FIXTURES / "early" / series / "09_irq.kprobe_events").read_bytes()
    places = PLACE.findall(recorded(series, "09_irq") + recorded(series, "09_irq_stack_symoffset"))
    sizes: dict[bytes, bytes | None] = dict.fromkeys(function for _, function in DEFINITION.findall(definitions))
    for name, size in (sizes | dict(places)).items():
        kernel.add_function(name.decode(), None if size is None else int(size, 16))
    kernel.tracefs.write("kprobe_events", definitions)
    return kernel


def play(kernel: SimulatedKernel, series: str, seen: Iterable[Seen]) -> None:
    """Make the calls, each with the one probe on that saw it."""
    definitions = kernel.tracefs.read("kprobe_events")
    functions = {name.decode(): function.decode() for name, function in DEFINITION.findall(definitions)}
    on = ""
    for one in seen:
        hit = one.hit
        if hit.event != on:
            enable_only(kernel, hit.event)
            on = hit.event
        kernel.call(
            functions[hit.event],
            task=hit.task,
            cpu=hit.cpu,
            at=one.at,
            context=one.context,
            stack=called_from(series, hit, one.frames) if one.frames else (),
            unwinding=one.stack_at - one.at if one.frames else 0,
            caller=hit.caller,
            returns=0 if hit.caller else None,
            duration=0,
        )


def timed(series: str) -> tuple[int, Iterator[Seen]]:
    """Return the start of the three formats' times, and the calls."""
    found = numbers(recorded(series, "09_irq_latency_verbose"))
    start, times = nanoseconds(
        [one.stamp for one in found], [one.elapsed for one in found], [one.gap for one in found[:-1]]
    )
    events = hits(recorded(series, "09_irq"))
    return start, (
        Seen(hit, at, (one.flags, one.preempt_count)) for hit, at, one in zip(events, times, found, strict=True)
    )


@pytest.mark.slow
@pytest.mark.parametrize(("series", "count"), [("3.2", 1212), ("3.13", 1474), ("4.4", 2458), ("4.19", 2534)])
def test_interrupts_in_three_formats(series: str, count: int) -> None:
    kernel = traced(series)
    start, seen = timed(series)
    play(kernel, series, seen)
    text = recorded(series, "09_irq")
    assert len(BEGIN.findall(text)) == count
    assert kernel.tracefs.read("trace") == text
    kernel.top.started = start
    kernel.tracefs.write("trace_options", b"latency-format")
    assert same_cpu(kernel.tracefs.read("trace")) == same_cpu(recorded(series, "09_irq_latency"))
    kernel.tracefs.write("trace_options", b"verbose")
    assert same_cpu(kernel.tracefs.read("trace")) == same_cpu(recorded(series, "09_irq_latency_verbose"))


@pytest.mark.parametrize(("series", "count"), [("3.2", 520), ("3.13", 77), ("4.4", 262), ("4.19", 219)])
def test_stacks_of_interrupts(series: str, count: int) -> None:
    kernel = traced(series)
    kernel.tracefs.write("trace_options", b"stacktrace")
    kernel.tracefs.write("trace_options", b"sym-offset")
    text = recorded(series, "09_irq_stack_symoffset")
    play(kernel, series, with_stacks(text))
    assert text.count(b"<stack trace>") == count
    assert kernel.tracefs.read("trace") == text
    kernel.tracefs.write("trace_options", b"nosym-offset")
    assert kernel.tracefs.read("trace") == recorded(series, "09_irq_stack")
