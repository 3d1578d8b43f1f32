"""Traces recorded on a real 6.1 kernel with each option, played again on the simulator: the same text, to the byte.

Every line of a recorded trace becomes the call that made it; what the simulator then shows is compared with the file.
Where the recording was cut to its first lines the counts in the header are left out of the comparison.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kprobe_sim import SimulatedKernel, Task

TRACES = Path(__file__).parents[2] / "fixtures" / "traces" / "6.1"
DEFINITIONS = (
    b"p:ent do_sys_openat2 dfd=%di:s32 s=+0(%si):string flags=%dx:x32",
    b"r:ret do_sys_openat2 ret=$retval:s32 raw=$retval",
)
OPTIONS = [
    *("sym-addr", "sym-offset", "sym-offset,sym-addr", "noirq-info", "record-tgid", "record-tgid,noirq-info"),
    *("latency-format", "latency-format,noirq-info", "nocontext-info", "verbose", "latency-format,verbose"),
    *("stacktrace", "stacktrace,sym-addr", "stacktrace,sym-offset"),
]
LINE = re.compile(
    rb" *(?P<comm>.*)-(?P<pid>\d+) +(?:\( *[\d-]+\) )?\[(?P<cpu>\d+)\] \S* +(?P<s>\d+)(?:\.(?P<us>\d+))?: "
    rb"(?P<event>ent|ret): (?P<rest>.*)"
)
LATENCY = re.compile(
    rb" *(?P<comm>.*)-(?P<pid>\d+) +(?P<cpu>\d+)\S{5} +(?P<us>\d+)(?:us.)?: (?P<event>ent|ret): (?P<rest>.*)"
)
VERBOSE = re.compile(
    rb" *(?P<comm>.*?) +(?P<pid>\d+) +(?P<cpu>\d+) \d+ [0-9a-f]{8} [0-9a-f]{8} \[(?P<hex>[0-9a-f]+)\] .*?: "
    rb"(?P<event>ent|ret): (?P<rest>.*)"
)
NO_CONTEXT = re.compile(rb"(?P<event>ent|ret): (?P<rest>.*)")
ARGUMENT = re.compile(rb"(\w+)=(\"[^\"]*\"|\S+)")


class Call(NamedTuple):
    event: bytes
    task: Task
    cpu: int
    at: int
    rest: bytes
    stack: tuple[int | str, ...]


def recorded_calls(lines: list[bytes]) -> Iterator[Call]:
    for number, line in enumerate(lines):
        match = next((match for form in (LINE, VERBOSE, LATENCY, NO_CONTEXT) if (match := form.fullmatch(line))), None)
        if match is None:
            continue
        facts = match.groupdict()
        micros = (
            int(facts["hex"], 16)
            if facts.get("hex")
            else int(facts.get("s") or 0) * 1_000_000 + int(facts.get("us") or 0)
        )
        task = Task(int(facts.get("pid") or 1), facts.get("comm") or b"init")
        stack = []
        for follower in lines[number + 2 :]:
            if not follower.startswith(b" => "):
                break
            address = re.search(rb"<([0-9a-f]{16})>", follower)
            stack.append(int(address[1], 16) if address else follower[4:].decode())
        yield Call(match["event"], task, int(facts.get("cpu") or 0), micros * 1000, match["rest"], tuple(stack))


def replayed(kernel: SimulatedKernel, lines: list[bytes]) -> None:
    for call in recorded_calls(lines):
        values = dict(ARGUMENT.findall(call.rest))
        entry = call.event == b"ent"
        for name in ("ent", "ret"):
            kernel.tracefs.write(f"events/kprobes/{name}/enable", b"1" if (name == "ent") == entry else b"0")
        if entry:
            args: tuple[int | str | bytes, ...] = (
                int(values[b"dfd"]) & 0xFFFFFFFF,
                values[b"s"][1:-1],
                int(values[b"flags"], 16),
            )
            kernel.call(
                "do_sys_openat2",
                task=call.task,
                args=args,
                returns=None,
                stack=call.stack[1:],
                cpu=call.cpu,
                at=call.at,
            )
        else:
            caller = re.match(rb"\((\S+?)/", call.rest)
            assert caller is not None
            kernel.call(
                "do_sys_openat2",
                task=call.task,
                returns=int(values[b"raw"], 16),
                caller=caller[1].decode(),
                stack=call.stack[1:],
                cpu=call.cpu,
                at=call.at,
                duration=0,
            )


def traced(options: list[str], clock: str = "local") -> SimulatedKernel:
    kernel = SimulatedKernel("6.1", cpus=2)
    for definition in DEFINITIONS:
        kernel.tracefs.write("kprobe_events", definition)
    kernel.tracefs.write("trace_clock", clock.encode())
    for option in options:
        kernel.tracefs.write("trace_options", option.encode())
    kernel.top.started = 0
    return kernel


def without_counts(text: bytes) -> list[bytes]:
    return [line for line in text.split(b"\n") if not line.startswith((b"# entries-in-buffer", b"# latency:"))]


@pytest.mark.parametrize("options", OPTIONS)
def test_each_option_gives_the_recorded_text(options: str) -> None:
    recorded = (TRACES / f"{options}.trace").read_bytes()
    lines = recorded.split(b"\n")
    if "stacktrace" in options or "verbose" in options:  # cut: the last event may lack its end
        last = max(number for number, line in enumerate(lines) if NO_CONTEXT.search(line))
        lines = [*lines[:last], b""]
    kernel = traced(options.split(","))
    replayed(kernel, lines)
    if "stacktrace" in options:
        assert unstamped(kernel.tracefs.read("trace")) == unstamped(b"\n".join(lines))
    elif options == "latency-format,verbose":
        kernel.top.started = started_of(lines)
        assert undistanced(kernel.tracefs.read("trace")) == undistanced(b"\n".join(lines))
    elif "verbose" in options:
        assert without_counts(kernel.tracefs.read("trace")) == without_counts(b"\n".join(lines))
    else:
        assert kernel.tracefs.read("trace") == recorded


def started_of(lines: list[bytes]) -> int:
    """Return when the buffer was reset: the first entry's time less its distance."""
    first = next(match for line in lines if (match := re.search(rb"\[([0-9a-f]+)\] (\d+)\.(\d+)ms", line)))
    return (int(first[1], 16) - int(first[2]) * 1000 - int(first[3])) * 1000


def undistanced(text: bytes) -> list[bytes]:
    """Leave out the distances: they were rounded from nanoseconds that the text doesn't have."""
    return [re.sub(rb"\] [0-9.]+ms \(\+[0-9.]+ms\)", b"]", line) for line in without_counts(text)]


def unstamped(text: bytes) -> list[bytes]:
    """A stack has a time stamp of its own, a little behind its event's: leave those of stacks out."""
    return [re.sub(rb"[0-9]+\.[0-9]+: <stack trace>", b"<stack trace>", line) for line in without_counts(text)]


@pytest.mark.parametrize("options", ["raw", "hex"])
def test_unformatted_entries_give_the_recorded_text_but_for_ids(options: str) -> None:
    recorded = (TRACES / f"{options}.trace").read_bytes()
    kernel = traced([options])
    form = rb"(?P<pid>\d+) (?P<cpu>\d) (?P<ts>\d+) type" if options == "raw" else rb"(\w{8}) (\w{8}) (\w{16}) type"
    base = 10 if options == "raw" else 16
    kernel.tracefs.write("events/kprobes/ent/enable", b"1")
    for match in re.finditer(form, recorded):
        kernel.call(
            "do_sys_openat2",
            task=Task(int(match[1], base), "any"),
            returns=None,
            cpu=int(match[2], base),
            at=int(match[3], base),
        )
    shown = re.sub(rb"type: \d+", b"type: N", kernel.tracefs.read("trace"))
    assert without_counts(shown) == without_counts(re.sub(rb"type: \d+", b"type: N", recorded))


@pytest.mark.parametrize("clock", ["local", "boot", "tai"])
def test_a_clock_gives_the_recorded_text_in_both_formats(clock: str) -> None:
    recorded = (TRACES / f"clock_{clock}.trace").read_bytes()
    kernel = traced([], clock)
    lines = recorded.split(b"\n")
    replayed(kernel, lines)
    assert kernel.tracefs.read("trace") == recorded
    latency = (TRACES / f"clock_{clock}_latency.trace").read_bytes()
    first, relative = next(recorded_calls(lines)), next(recorded_calls(latency.split(b"\n")))
    kernel.top.started = first.at - relative.at
    kernel.tracefs.write("trace_options", b"latency-format")
    shown = kernel.tracefs.read("trace")
    # distances were rounded from nanoseconds that the text doesn't have
    numbers = rb" +\d+us(.):"
    assert re.sub(numbers, rb" us\1:", shown) == re.sub(numbers, rb" us\1:", latency)
    for ours, theirs in zip(re.findall(rb"(\d+)us", shown), re.findall(rb"(\d+)us", latency), strict=True):
        assert abs(int(ours) - int(theirs)) <= 1


def test_the_counter_clock_counts_and_prints_in_twelve_columns() -> None:
    recorded = (TRACES / "clock_counter.trace").read_bytes()
    kernel = traced([], "counter")
    lines = recorded.split(b"\n")
    kernel.top.clock.stamp(), kernel.top.clock.stamp()  # two were read before the first entry
    replayed(kernel, lines)
    assert kernel.tracefs.read("trace") == recorded
