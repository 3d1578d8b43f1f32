"""Control files of kernels before 5.10: what 3.2, 3.13 and 4.4 had in them when they were recorded."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel

GLOBAL = b"### global filter ###"


def refused(tracefs: Any, path: str, data: bytes) -> str:
    with pytest.raises(OSError) as caught:
        tracefs.write(path, data)
    return errno.errorcode[caught.value.errno or 0]


@pytest.mark.parametrize(
    ("series", "mask"), [("3.0", b"3\n\0"), ("3.2", b"3\n\0"), ("3.13", b"3\n\0"), ("4.4", b"3\n\0"), ("5.4", b"3\n")]
)
def test_a_mask_of_cpus_is_followed_by_the_rest_of_its_buffer(series: str, mask: bytes) -> None:
    tracefs = SimulatedKernel(series, cpus=2).tracefs
    assert tracefs.read("tracing_cpumask") == mask
    with tracefs.open("tracing_cpumask", os.O_RDONLY) as file:
        with pytest.raises(OSError) as caught:
            file.read(2)
        assert caught.value.errno == errno.EINVAL
        assert file.read(3) == mask
    tracefs.write("tracing_cpumask", b"1\n\0")  # what was read of such a file can be written back
    assert tracefs.read("tracing_cpumask") == b"1" + mask[1:]


@pytest.mark.parametrize(
    ("series", "lines"), [("2.6.33", 3), ("3.0", 3), ("3.2", 6), ("3.13", 8), ("4.4", 8), ("5.4", 8)]
)
def test_lines_of_stats(series: str, lines: int) -> None:
    names = (
        "entries",
        "overrun",
        "commit overrun",
        "bytes",
        "oldest event ts",
        "now ts",
        "dropped events",
        "read events",
    )
    text = SimulatedKernel(series).tracefs.read("per_cpu/cpu0/stats").decode()
    assert tuple(line.partition(":")[0] for line in text.splitlines()) == names[:lines]


@pytest.mark.parametrize(("series", "oldest"), [("3.2", b"    0.000000"), ("3.13", b"0"), ("4.4", b"0")])
def test_times_of_stats_by_a_clock_that_counts(series: str, oldest: bytes) -> None:
    tracefs = SimulatedKernel(series).tracefs
    tracefs.write("trace_clock", b"counter")
    assert b"\noldest event ts: " + oldest + b"\n" in tracefs.read("per_cpu/cpu0/stats")


def options(tracefs: Any) -> list[str]:
    return [line.decode() for line in tracefs.read("trace_options").split()]


def files(tracefs: Any) -> set[str]:
    return set(tracefs.listdir("options"))


@pytest.mark.parametrize("series", ["2.6.33", "3.2", "3.13", "4.4", "4.9", "5.4"])
def test_each_tracer_brings_its_options_and_takes_them_along(series: str) -> None:
    tracefs = SimulatedKernel(series).tracefs
    first = options(tracefs)
    common = [name for name in first if "test_nop" not in name]
    for tracer, own in (("function", "nofunc_stack_trace"), ("function_graph", "nofuncgraph-overrun")):
        tracefs.write("current_tracer", tracer.encode())
        assert options(tracefs)[: len(common) + 1] == [*common, own]
        tracefs.write("current_tracer", b"nop")
        assert options(tracefs) == first


@pytest.mark.parametrize("series", ["2.6.33", "3.2", "3.13"])
def test_files_of_a_tracers_options_come_with_it(series: str) -> None:
    """And none does with the tracer that a kernel begins with."""
    tracefs = SimulatedKernel(series).tracefs
    nop = {"test_nop_accept", "test_nop_refuse"}
    first = files(tracefs)
    assert not first & {*nop, "func_stack_trace"}
    tracefs.write("current_tracer", b"nop")
    assert files(tracefs) == first
    tracefs.write("current_tracer", b"function")
    assert files(tracefs) == first | {"func_stack_trace"}
    assert tracefs.mode("options/func_stack_trace") & 0o777 == 0o644
    tracefs.write("options/func_stack_trace", b"1")
    assert "func_stack_trace" in options(tracefs)
    tracefs.write("current_tracer", b"nop")
    assert files(tracefs) == first | nop
    assert not tracefs.exists("options/func_stack_trace")


@pytest.mark.parametrize("series", ["4.4", "4.19"])
def test_files_of_all_tracers_options_are_there(series: str) -> None:
    tracefs = SimulatedKernel(series).tracefs
    first = files(tracefs)
    assert {"test_nop_accept", "test_nop_refuse", "func_stack_trace", "funcgraph-overrun"} <= first
    for tracer in (b"function", b"nop"):
        tracefs.write("current_tracer", tracer)
        assert files(tracefs) == first


@pytest.mark.parametrize(
    ("series", "first", "filtered"), [("3.2", b"none\n", b"next_pid == 3\n"), ("3.13", GLOBAL, GLOBAL)]
)
def test_the_filter_of_a_group(series: str, first: bytes, filtered: bytes) -> None:
    tracefs = SimulatedKernel(series).tracefs
    group, switch, wakeup = (f"events/sched/{name}filter" for name in ("", "sched_switch/", "sched_wakeup/"))
    assert tracefs.read(group).startswith(first)
    tracefs.write(wakeup, b"prio == 1")
    tracefs.write(group, b"next_pid == 3")
    assert tracefs.read(group).startswith(filtered)
    assert (tracefs.read(switch), tracefs.read(wakeup)) == (b"next_pid == 3\n", b"prio == 1\n")
    assert refused(tracefs, group, b"nosuch == 1") == "EINVAL"
    assert tracefs.read(group).startswith(b"nosuch == 1\n^\nparse_error: Couldn't find or set field in one of")
    assert (tracefs.read(switch), tracefs.read(wakeup)) == (b"next_pid == 3\n", b"prio == 1\n")
    tracefs.write(group, b"0")
    assert tracefs.read(group).startswith(first)
    assert (tracefs.read(switch), tracefs.read(wakeup)) == (b"none\n", b"none\n")


def test_the_filter_of_a_group_goes_with_it() -> None:
    tracefs = SimulatedKernel("3.13").tracefs
    tracefs.write("kprobe_events", b"p:mine/a do_sys_open\n")
    assert refused(tracefs, "events/mine/filter", b"nosuch == 1") == "EINVAL"
    assert not tracefs.read("events/mine/filter").startswith(GLOBAL)
    tracefs.write("kprobe_events", b"-:mine/a\n")
    tracefs.write("kprobe_events", b"p:mine/a do_sys_open\n")
    assert tracefs.read("events/mine/filter").startswith(GLOBAL)
