"""Traces recorded on real kernels with each option, played again on the simulator: the same text, to the byte.

Every line of a recorded trace becomes the call that made it; what the simulator then shows is compared with the file.
Where the recording was cut to its first lines the counts in the header are left out of the comparison.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel, Task

from . import played

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"
SERIES = ("5.10", "6.1", "6.12", "7.2")
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
    rb" *(?P<comm>.*)-(?P<pid>\d+) +(?P<cpu>\d+)\S{4,5} +(?P<us>\d+)(?:us.)?: (?P<event>ent|ret): (?P<rest>.*)"
)
VERBOSE = re.compile(
    rb" *(?P<comm>.*?) +(?P<pid>\d+) +(?P<cpu>\d+) \d+ [0-9a-f]{8} [0-9a-f]{8} \[(?P<hex>[0-9a-f]+)\] .*?: "
    rb"(?P<event>ent|ret): (?P<rest>.*)"
)
NO_CONTEXT = re.compile(rb"(?P<event>ent|ret): (?P<rest>.*)")
FORMS = (LINE, VERBOSE, LATENCY, NO_CONTEXT)
ARGUMENT = re.compile(rb"(\w+)=(\"[^\"]*\"|\S+)")


def replayed(kernel: SimulatedKernel, lines: list[bytes]) -> None:
    # the function itself stands in a stack before its callers
    made = (call._replace(stack=call.stack[1:]) for call in played.calls(lines, FORMS))
    played.play(kernel, made, "do_sys_openat2", ARGUMENT)


def traced(series: str, options: list[str], clock: str = "local") -> SimulatedKernel:
    kernel = SimulatedKernel(series, cpus=2)
    for definition in DEFINITIONS:
        kernel.tracefs.write("kprobe_events", definition)
    kernel.tracefs.write("trace_clock", clock.encode())
    for option in options:
        kernel.tracefs.write("trace_options", option.encode())
    kernel.top.started = 0
    return kernel


def unhurried(text: bytes) -> bytes:
    """Leave out that a reschedule was pending: that was by chance."""
    return re.sub(rb"(\] [.d])[NnpBbLl]", rb"\1.", text)


def same_cpu(text: bytes) -> bytes:
    """Hide the CPU in the heading of the latency format, which nothing else shows."""
    return re.sub(rb" CPU#\d \|", b" CPU#N |", text)


def without_counts(text: bytes) -> list[bytes]:
    return [line for line in text.split(b"\n") if not line.startswith((b"# entries-in-buffer", b"# latency:"))]


@pytest.mark.parametrize(
    ("series", "options"),
    # the stacks of 5.10 were cut off by the other probe, which is off while a call is replayed: see below
    [(series, options) for series in SERIES for options in OPTIONS if (series, options[:5]) != ("5.10", "stack")],
)
def test_each_option_gives_the_recorded_text(options: str, series: str) -> None:
    recorded = unhurried((TRACES / series / f"{options}.trace").read_bytes())
    lines = recorded.split(b"\n")
    if "stacktrace" in options or "verbose" in options:  # cut: the last event may lack its end
        last = max(number for number, line in enumerate(lines) if NO_CONTEXT.search(line))
        lines = [*lines[:last], b""]
    kernel = traced(series, options.split(","))
    replayed(kernel, lines)
    if "stacktrace" in options:
        assert unstamped(kernel.tracefs.read("trace")) == unstamped(b"\n".join(lines))
    elif options == "latency-format,verbose":
        kernel.top.started = started_of(lines)
        assert undistanced(kernel.tracefs.read("trace")) == undistanced(b"\n".join(lines))
    elif "verbose" in options:
        assert without_counts(kernel.tracefs.read("trace")) == without_counts(b"\n".join(lines))
    else:
        assert same_cpu(kernel.tracefs.read("trace")) == same_cpu(recorded)


def started_of(lines: list[bytes]) -> int:
    """Return when the buffer was reset: the first entry's time less its distance."""
    first = next(match for line in lines if (match := re.search(rb"\[([0-9a-f]+)\] (\d+)\.(\d+)ms", line)))
    return (int(first[1], 16) - int(first[2]) * 1000 - int(first[3])) * 1000


def undistanced(text: bytes) -> list[bytes]:
    """Leave out the distances: they were rounded from nanoseconds that the text doesn't have."""
    return [re.sub(rb"\] [0-9.]+ms \(\+[0-9.]+ms\)", b"]", line) for line in without_counts(text)]


def unstamped(text: bytes) -> list[bytes]:
    """A stack has a time stamp of its own, a little after its event's: leave those of stacks out."""
    return [re.sub(rb"[0-9]+\.[0-9]+: <stack trace>", b"<stack trace>", line) for line in without_counts(text)]


@pytest.mark.parametrize("options", ["stacktrace", "stacktrace,sym-addr", "stacktrace,sym-offset"])
def test_on_5_10_a_stack_ends_where_a_return_address_was_replaced(options: str) -> None:
    recorded = (TRACES / "5.10" / f"{options}.trace").read_bytes().split(b"\n")
    kernel = traced("5.10", options.split(","))
    kernel.tracefs.write("events/kprobes/enable", b"1")
    first = next(number for number, line in enumerate(recorded) if b" ent: " in line)
    last = next(number for number, line in enumerate(recorded) if b'"tracing_on"' in line)
    facts = re.search(rb"\[00(\d)\].*flags=0x([0-9a-f]+)", recorded[first])
    assert facts is not None
    kernel.call(
        "do_sys_openat2",
        task=Task(1, "init"),
        args=(0xFFFFFF9C, "/tmp/act.log", int(facts[2], 16)),
        returns=3,
        caller="__x64_sys_openat+0x54",
        cpu=int(facts[1]),
    )
    shown = [re.sub(rb" +[0-9.]+: ", b" ", line) for line in kernel.tracefs.read("trace").split(b"\n")]
    wanted = [re.sub(rb" +[0-9.]+: ", b" ", line) for line in recorded[first:last]]
    assert len(wanted) == 7
    assert shown[-8:-1] == wanted


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("options", ["raw", "hex"])
def test_unformatted_entries_give_the_recorded_text_but_for_ids(options: str, series: str) -> None:
    recorded = (TRACES / series / f"{options}.trace").read_bytes()
    kernel = traced(series, [options])
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


@pytest.mark.parametrize(
    ("series", "clock"),
    [(series, clock) for series in SERIES for clock in ("local", "boot", "tai") if (series, clock) != ("5.10", "tai")],
)
def test_a_clock_gives_the_recorded_text_in_both_formats(series: str, clock: str) -> None:
    recorded = (TRACES / series / f"clock_{clock}.trace").read_bytes()
    kernel = traced(series, [], clock)
    lines = recorded.split(b"\n")
    replayed(kernel, lines)
    assert kernel.tracefs.read("trace") == recorded
    latency = (TRACES / series / f"clock_{clock}_latency.trace").read_bytes()
    first, relative = next(played.calls(lines, FORMS)), next(played.calls(latency.split(b"\n"), FORMS))
    kernel.top.started = first.at - relative.at
    kernel.tracefs.write("trace_options", b"latency-format")
    shown = kernel.tracefs.read("trace")
    # distances were rounded from nanoseconds that the text doesn't have
    numbers = rb" +\d+us(.):"
    assert re.sub(numbers, rb" us\1:", same_cpu(shown)) == re.sub(numbers, rb" us\1:", same_cpu(latency))
    for ours, theirs in zip(re.findall(rb"(\d+)us", shown), re.findall(rb"(\d+)us", latency), strict=True):
        assert abs(int(ours) - int(theirs)) <= 1


@pytest.mark.parametrize("series", SERIES)
def test_the_counter_clock_counts_and_prints_in_twelve_columns(series: str) -> None:
    recorded = unhurried((TRACES / series / "clock_counter.trace").read_bytes())
    kernel = traced(series, [], "counter")
    lines = recorded.split(b"\n")
    replayed(kernel, lines)
    assert kernel.tracefs.read("trace") == recorded
