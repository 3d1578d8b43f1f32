"""The clocks of 3.13, 4.4 and 4.19 that don't count nanoseconds, and `uptime` of all kernels."""

from __future__ import annotations

import re

import pytest

from kprobe_sim import SimulatedKernel

from .played import play
from .recorded_on import recorded_on
from .test_early_traces import ARGUMENT, calls, plain, replay, traced
from .test_early_whole import FIXTURES, WITH_INSTANCES, recorded, same_cpu

TEXTS = FIXTURES / "text"


@pytest.mark.parametrize("series", WITH_INSTANCES)
def test_the_counter_in_latency_format(series: str) -> None:
    text = recorded(series, "04_clock_counter_latency")
    kernel = traced(series, ["latency-format"], "counter")
    replay(kernel, recorded(series, "04_clock_counter"))
    kernel.top.started = 1  # one count before the first that was recorded
    assert plain(kernel.tracefs.read("trace")) == plain(text)


@pytest.mark.parametrize(("series", "began"), [("3.13", 34_580_000_000), ("4.4", 2925), ("4.19", 4182)])
def test_uptime_in_both_formats(series: str, began: int) -> None:
    """In 250ths of a second on 3.13, in hundredths later; latencies are relative to when the clock was chosen."""
    text = recorded(series, "04_clock_uptime")
    kernel = traced(series, [], "uptime")
    jiffy = 4_000_000  # ns: an odd tick begins in the middle of one
    made = calls(text) if series == "3.13" else [call._replace(at=call.at // 100 + jiffy) for call in calls(text)]
    play(kernel, made, "do_sys_open", ARGUMENT)
    assert kernel.tracefs.read("trace") == text
    kernel.top.started = began
    kernel.tracefs.write("trace_options", b"latency-format")
    assert same_cpu(kernel.tracefs.read("trace")) == same_cpu(recorded(series, "04_clock_uptime_latency"))


def test_uptime_in_seconds_begins_anew_after_an_hour() -> None:
    """jiffies_to_usecs() gave 32 bits."""
    kernel = traced("3.13", [], "uptime")
    kernel.tracefs.write("events/kprobes/ent/enable", b"1")
    for at in (4_294_964_000_000, 4_294_968_000_000):
        kernel.call("do_sys_open", returns=None, at=at)
    assert re.findall(rb" (\S+): ent", kernel.tracefs.read("trace")) == [b"4294.964000", b"0.000704"]


def first(series: str, clock: str) -> float:
    """Return the time of the first line."""
    found = re.search(rb" ([\d.]+): ent", (TEXTS / series / f"04_clock_{clock}.trace").read_bytes())
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("series", ["4.19", "5.10", "6.1", "6.12", "7.2"])
def test_uptime_counts_the_users_ticks(series: str) -> None:
    """It was recorded after the clock global and before perf, on kernels whose jiffies are 250 a second."""
    kernel = recorded_on(series)
    kernel.tracefs.write("trace_clock", b"uptime")
    kernel.tracefs.write("kprobe_events", b"p:p vfs_read" if series > "5" else b"p:p do_sys_open")
    kernel.tracefs.write("events/kprobes/p/enable", b"1")
    for at in (first(series, "global"), first(series, "perf")):
        kernel.call("vfs_read" if series > "5" else "do_sys_open", at=int(at * 1e9))
    before, after = (int(tick) for tick in re.findall(rb" (\d+): p:", kernel.tracefs.read("trace")))
    assert kernel.profile.hz == 250
    assert before < first(series, "uptime") < after


@pytest.mark.parametrize(
    ("series", "began"), [("3.13", 93_991_302_712), ("4.4", 90_830_688_428), ("4.19", 119_668_646_164)]
)
def test_the_tsc_in_both_formats(series: str, began: int) -> None:
    """A TSC of 1 GHz, as only counts were recorded; they are relative to when the clock was chosen."""
    text = recorded(series, "04_clock_x86-tsc")
    kernel = traced(series, [], "x86-tsc", tsc_khz=1_000_000)
    play(kernel, [call._replace(at=call.at // 10**9) for call in calls(text)], "do_sys_open", ARGUMENT)
    assert kernel.tracefs.read("trace") == text
    kernel.top.started = began
    kernel.tracefs.write("trace_options", b"latency-format")
    assert same_cpu(kernel.tracefs.read("trace")) == same_cpu(recorded(series, "04_clock_x86-tsc_latency"))


def test_a_tsc_counts_at_its_rate() -> None:
    kernel = SimulatedKernel("6.1", tsc_khz=2_994_375)
    kernel.tracefs.write("trace_clock", b"x86-tsc")
    kernel.tracefs.write("kprobe_events", b"p:p vfs_read")
    kernel.tracefs.write("events/kprobes/p/enable", b"1")
    kernel.call("vfs_read", at=38_526_731_541)
    assert b" 115363481758: p:" in kernel.tracefs.read("trace")


@pytest.mark.parametrize("rate", [0, -1])
def test_a_tsc_that_counts_nothing(rate: int) -> None:
    with pytest.raises(ValueError, match=f"a TSC counts more than {rate} in a millisecond"):
        SimulatedKernel("6.1", tsc_khz=rate)
