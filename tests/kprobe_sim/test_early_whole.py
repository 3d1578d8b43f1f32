"""Further whole traces of 3.2, 3.13, 4.4 and 4.19: empty ones, one CPU's, full rings, an instance, removed probes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kprobe_sim import SimulatedKernel

from .recorded_on import recorded_on
from .test_early_records import enable_only, hits, opens
from .test_early_traces import calls, plain, replay, traced

FIXTURES = Path(__file__).parents[2] / "fixtures"
OLD = ("3.2", "3.13", "4.4", "4.19")
WITH_INSTANCES = OLD[1:]
NUMBERS = re.compile(rb" (\d+\.\d{3})ms \(\+(\d+\.\d{3})ms\)")


def same_cpu(text: bytes) -> bytes:
    """Return the text without the CPU of who read it."""
    return re.sub(rb" CPU#\d \|", b" CPU#N |", text)


def recorded(series: str, name: str) -> bytes:
    place = FIXTURES / "early" / series / f"{name}.trace"
    return (place if place.exists() else FIXTURES / "text" / series / f"{name}.trace").read_bytes()


@pytest.mark.parametrize("tracer", ["", "function", "function_graph", "nop"])
@pytest.mark.parametrize("series", OLD)
def test_an_empty_trace(series: str, tracer: str) -> None:
    kernel = recorded_on(series, cpus=2)
    if tracer:
        kernel.tracefs.write("set_ftrace_filter", b"do_sys_open")
        kernel.tracefs.write("current_tracer", tracer.encode())
    assert kernel.tracefs.read("trace") == recorded(series, f"00_empty_{tracer}".rstrip("_"))


@pytest.mark.parametrize("clock", ["counter", "global"])
def test_an_empty_trace_by_another_clock(clock: str) -> None:
    """Nothing was traced on 3.2 after the first clock."""
    kernel = traced("3.2", [], clock)
    assert kernel.tracefs.read("trace") == recorded("3.2", f"04_clock_{clock}")
    kernel.tracefs.write("trace_options", b"latency-format")
    assert kernel.tracefs.read("trace") == recorded("3.2", f"04_clock_{clock}_latency")


def test_nothing_hit_a_probe_on_a_program() -> None:
    """The list of probes on programs was empty on 3.13; of 4.4 and 4.19 see test_program_hits.py."""
    assert SimulatedKernel("3.13", cpus=2).tracefs.read("trace") == recorded("3.13", "16_uprobe2")


@pytest.mark.parametrize("cpu", [0, 1])
@pytest.mark.parametrize("series", OLD)
def test_comms_of_one_cpu(series: str, cpu: int) -> None:
    text = recorded(series, f"02_comms.cpu{cpu}")
    kernel = traced(series, [])
    replay(kernel, text)
    assert plain(kernel.tracefs.read(f"per_cpu/cpu{cpu}/trace")) == plain(text)


def short(text: bytes) -> bytes:
    """Return long lines as the usual ones: flags and preempt count are numbers there, the time one of microseconds."""

    def line(match: re.Match[bytes]) -> bytes:
        flags, at = int(match["flags"]), int(match["at"], 16)
        need = {0x24: b"N", 4: b"n", 0x20: b"p", 0: b"."}[flags & 0x24]
        column = (b"d" if flags & 1 else b".") + need + b"." + (match["preempt"][-1:].replace(b"0", b"."))
        stamp = b"%d.%06d" % divmod(at, 1_000_000)
        return b"%b-%b [%03d] %b %b: " % (match["comm"], match["pid"].strip(), int(match["cpu"]), column, stamp)

    return re.sub(
        rb"^(?P<comm>.{16}) (?P<pid>.{5}) (?P<cpu>.{3}) (?P<flags>\d+) (?P<preempt>\w{8}) \w{8} "
        rb"\[(?P<at>\w+)\] [\d.]+ms \(\+[\d.]+ms\): ",
        line,
        text,
        flags=re.MULTILINE,
    )


@pytest.mark.parametrize("series", OLD)
def test_long_lines_of_latency(series: str) -> None:
    """Times are relative to a start that isn't shown, and were rounded from nanoseconds: they agree to 1 us."""
    text = recorded(series, "03_opt_latency-format,verbose")
    kernel = recorded_on(series, cpus=2)
    for option in ("latency-format", "verbose"):
        kernel.tracefs.write("trace_options", option.encode())
    opens(kernel, series, short(text))
    first, number = next(hits(short(text))), NUMBERS.search(text)
    assert number is not None
    kernel.top.started = first.at - round(float(number[1]) * 1_000_000)
    answer = kernel.tracefs.read("trace")
    assert same_cpu(NUMBERS.sub(b" T", answer)) == same_cpu(NUMBERS.sub(b" T", text))
    for ours, theirs in zip(NUMBERS.findall(answer), NUMBERS.findall(text), strict=True):
        assert [float(one) for one in ours] == pytest.approx([float(one) for one in theirs], abs=0.0011)


@pytest.mark.parametrize("series", OLD)
def test_addresses_beside_offsets(series: str) -> None:
    text = recorded(series, "03_opt_sym-offset,sym-addr")
    kernel = traced(series, ["sym-offset", "sym-addr"])
    replay(kernel, text)
    assert plain(kernel.tracefs.read("trace")) == plain(text)


@pytest.mark.parametrize("series", OLD)
def test_stacks_without_offsets(series: str) -> None:
    text = recorded(series, "03_opt_stacktrace,nosym-offset")
    kernel = traced(series, ["stacktrace", "nosym-offset"])
    replay(kernel, text)

    def unstamped(text: bytes) -> list[bytes]:  # a stack is recorded some microseconds after its event
        return plain(re.sub(rb"[0-9]+\.[0-9]+: <stack trace>", b"<stack trace>", text))

    assert unstamped(kernel.tracefs.read("trace")) == unstamped(text)


def fill_rings(kernel: SimulatedKernel, beyond: int = 0) -> None:
    """Fill the rings, of two pages, to their end, and make some more calls that drop what was there."""

    def fill(some: SimulatedKernel, cpu: int) -> None:
        some.call("do_sys_open", returns=0, caller="do_sys_open+0x1", cpu=cpu, at=1000, duration=0)

    other = recorded_on(kernel.profile.series, cpus=2)
    for one in (other, kernel):
        one.tracefs.write("buffer_size_kb", b"1")
    other.tracefs.write("kprobe_events", b"r:ret do_sys_open ret=$retval:s32 raw=$retval\n")
    other.tracefs.write("events/kprobes/ret/enable", b"1")
    count = -1
    while not other.top.buffer.cpus[0].overrun:  # the call that drops the first page begins a new one
        fill(other, 0)
        count += 1
    kernel.tracefs.write("events/kprobes/ret/enable", b"1")
    for cpu in (0, 1):
        for _ in range(count + beyond):
            fill(kernel, cpu)
    kernel.tracefs.write("events/kprobes/ret/enable", b"0")


@pytest.mark.parametrize("series", OLD)
def test_the_line_where_a_full_buffer_starts(series: str) -> None:
    """The rings were full of other calls before; their count in the header isn't compared."""
    text = recorded(series, "05_lost")
    kernel = traced(series, [])
    fill_rings(kernel)
    replay(kernel, text)
    assert text.count(b"buffer started ####") == 1
    assert plain(kernel.tracefs.read("trace")) == plain(text)


@pytest.mark.parametrize("series", WITH_INSTANCES)
def test_an_instance(series: str) -> None:
    """Only the entry was on in it."""
    text = recorded(series, "13_instance")
    kernel = traced(series, [])
    kernel.tracefs.mkdir("instances/foo")
    kernel.tracefs.write("instances/foo/events/kprobes/ent/enable", b"1")
    for call in calls(text):
        path = re.search(rb's="(.*)"', call.rest)
        flags = re.search(rb"flags=(\w+)", call.rest)
        assert path is not None
        assert flags is not None
        args = (-100 & 0xFFFFFFFF, path[1], int(flags[1], 16))
        kernel.call("do_sys_open", task=call.task, args=args, returns=3, cpu=call.cpu, at=call.at)
    assert kernel.tracefs.read("instances/foo/trace") == text
    assert b"inst app" not in kernel.tracefs.read("trace")


@pytest.mark.parametrize("name", ["18_probes_removed", "18_removed_and_other_added"])
@pytest.mark.parametrize("series", WITH_INSTANCES)
def test_events_of_probes_that_were_removed(series: str, name: str) -> None:
    """Their numbers count up from another one here."""
    text = recorded(series, name)
    kernel = recorded_on(series, cpus=2)
    kinds = sorted({int(kind) for kind in re.findall(rb"Unknown type (\d+)", text)})
    for kind in kinds:
        kernel.tracefs.write("kprobe_events", b"p:k%d do_sys_open\n" % kind)
    ids = {int(kernel.tracefs.read(f"events/kprobes/k{kind}/id")): kind for kind in kinds}
    named = re.sub(rb"Unknown type (\d+)", rb"k\1: ", text)
    for hit in hits(named):
        enable_only(kernel, hit.event)
        kernel.call("do_sys_open", task=hit.task, cpu=hit.cpu, at=hit.at, context=hit.context, returns=None)
    kernel.tracefs.write("set_event", b"!kprobes:")
    kernel.tracefs.write("kprobe_events", b"", truncate=True)
    if name == "18_removed_and_other_added":
        kernel.tracefs.write("kprobe_events", b"p:other do_sys_open\n")
    answer = re.sub(rb"type (\d+)", lambda found: b"type %d" % ids[int(found[1])], kernel.tracefs.read("trace"))
    assert len(kinds) == (2 if name == "18_probes_removed" else 3)
    assert answer == text


@pytest.mark.parametrize("series", OLD)
def test_a_trace_after_a_reader_emptied_full_rings(series: str) -> None:
    """Without the count of entries, which went below 0 there, and is of 64 bits."""
    text = recorded(series, "05_live_after")
    kernel = traced(series, [])
    fill_rings(kernel, beyond=1)
    with kernel.tracefs.stream("trace_pipe") as stream:
        while not kernel.top.buffer.is_empty():
            stream.read(1)
    replay(kernel, text)
    assert plain(kernel.tracefs.read("trace")) == plain(text)
