"""Control files: values that are rounded, wrapped or refused.

Each row was found by the campaign (kprobe-vm diff) as a difference between the simulator and a real 6.1 kernel.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest

from kprobe_sim.builds.profile import Profile

from .builds import EPROBES, SHORT_RAW_MARKS
from .text import define, errors, probes, refused, traced


@pytest.mark.parametrize(
    ("path", "written", "read"),
    [
        ("max_graph_depth", b"4294967296", b"0\n"),
        ("max_graph_depth", b"4294967295", b"-1\n"),
        ("stack_max_size", b"18446744073709551615", b"-1\n"),
        ("tracing_thresh", b"18446744073709551615", b"18446744073709550\n"),
        ("tracing_thresh", b"7", b"7\n"),
        ("saved_cmdlines_size", b"4", b"6552\n"),
        ("saved_cmdlines_size", b"32768", b"45874\n"),
        ("tracing_cpumask", b"0", b"0\n"),
        ("tracing_cpumask", b"\n", b"0\n"),
        ("options/test_nop_refuse", b"0", b"0\n"),
        ("options/funcgraph-cpu", b"0", b"0\n"),
    ],
)
def test_value(tracefs: Any, path: str, written: bytes, read: bytes) -> None:
    before = tracefs.read(path)
    tracefs.write(path, written)
    after = tracefs.read(path)
    tracefs.write(path, before)
    assert after == read


@pytest.mark.parametrize(
    ("path", "written", "number"),
    [
        ("buffer_percent", b"101", errno.EINVAL),
        ("trace_options", b"notest_nop_refuse", errno.EINVAL),
        ("options/test_nop_refuse", b"1", errno.EINVAL),
        ("tracing_cpumask", b"", errno.EINVAL),
        ("tracing_cpumask", b"x", errno.EINVAL),
        ("tracing_cpumask", b"1,1", errno.EOVERFLOW),
        ("buffer_size_kb", b"4294967296", errno.ENOMEM),
    ],
)
def test_refused(tracefs: Any, path: str, written: bytes, number: int) -> None:
    assert refused(tracefs, path, written) == number


def test_a_masked_cpu_takes_no_mark(tracefs: Any) -> None:
    tracefs.write("tracing_cpumask", b"0")
    assert refused(tracefs, "trace_marker", b"x") == errno.EBADF
    tracefs.write("tracing_cpumask", b"1")
    tracefs.write("trace_marker", b"x")
    assert traced(tracefs) == ["tracing_mark_write: x"]


def test_an_empty_mark(tracefs: Any) -> None:
    with tracefs.open("trace_marker", 1) as file:
        assert file.write(b"") == 0
    assert traced(tracefs) == ["tracing_mark_write: "]


@pytest.mark.parametrize(
    ("written", "shown", "newer"),
    [(4, 16, 0), (8, 16, 4), (10, 16, 8), (64, 64, 60), (100, 100, 96), (1021, 1024, 1020)],
)
def test_bytes_of_a_raw_mark(tracefs: Any, choose: Any, written: int, shown: int, newer: int) -> None:
    tracefs.write("trace_marker_raw", b"y" * written)
    (body,) = traced(tracefs)
    head, _, content = body.partition(" buf:")
    assert head == "# 79797979"
    shown = choose({"": shown, SHORT_RAW_MARKS: newer})
    assert len(content.split()) == shown
    assert content.split()[: written - 4] == ["79"] * (written - 4)


def test_the_tracers_of_an_instance(tracefs: Any, recorded: Profile, choose: Any) -> None:
    """Those of latencies, which some kernels have, can be in an instance too."""
    tracefs.mkdir("instances/i1")
    shared = choose({"": ("function", "nop"), "<argname>": ("function_graph", "function", "nop")})
    everywhere = {*shared, "timerlat", "osnoise", "hwlat", "wakeup_dl", "wakeup_rt", "wakeup"}
    tracers = [tracer for tracer in recorded.tracers if tracer in everywhere]
    assert tracefs.read("instances/i1/available_tracers").decode() == " ".join(tracers) + "\n"
    if "function_graph" not in shared:
        assert refused(tracefs, "instances/i1/current_tracer", b"function_graph") == errno.EINVAL
        names = tracefs.listdir("instances/i1/options")
        assert "func_stack_trace" in names
        assert "funcgraph-cpu" not in names
    tracefs.rmdir("instances/i1")


def test_only_one_exclamation_mark(tracefs: Any) -> None:
    define(tracefs, "p:g/a do_sys_openat2")
    assert refused(tracefs, "set_event", b"!!g:a") == errno.EINVAL
    tracefs.write("set_event", b"!g:a")


@pytest.mark.parametrize("name", ["enable", "filter"])
def test_an_event_named_like_a_file(tracefs: Any, choose: Any, name: str) -> None:
    define(tracefs, f"p:g/{name} do_sys_openat2")
    more = choose({"": [], "<argname>": [name]})  # eventfs lists both
    assert sorted(tracefs.listdir("events/g")) == sorted(["enable", "filter", *more])
    assert probes(tracefs) == [f"p:g/{name} do_sys_openat2"]


def test_a_negative_maxactive(tracefs: Any, choose: Any) -> None:
    define(tracefs, "r2147483648:a do_sys_openat2", "r4294967295:b do_sys_openat2")
    head = choose({"": "r1", EPROBES: "r10"})  # as many as CPUs; since 5.11 at least ten
    assert probes(tracefs) == [f"{head}:kprobes/a do_sys_openat2", f"{head}:kprobes/b do_sys_openat2"]
    assert refused(tracefs, "kprobe_events", b"r2147483647:c do_sys_openat2") == errno.EINVAL
    assert errors(tracefs)[0].message == "trace_kprobe: error: Maxactive is too big"


@pytest.mark.parametrize(
    "option", ["nocontext-info", "printk-msg-only", "raw", "hex", "bin", "latency-format", "verbose"]
)
def test_an_empty_trace_in_any_form(tracefs: Any, option: str) -> None:
    tracefs.write("trace_options", option.encode())
    assert tracefs.read("trace").startswith(b"# tracer: nop\n#\n")
    assert traced(tracefs) == []


def test_the_type_of_a_raw_mark(tracefs: Any) -> None:
    identity = tracefs.read("events/ftrace/raw_data/format").split(b"ID: ")[1].split(b"\n")[0]
    tracefs.write("trace_options", b"hex")
    tracefs.write("trace_marker_raw", b"abcdefgh")
    assert tracefs.read("trace").endswith(b" type: " + identity + b"\n\n")


def test_instances_share_the_options_of_a_tracer(tracefs: Any) -> None:
    tracefs.mkdir("instances/i1")
    tracefs.write("instances/i1/options/test_nop_accept", b"1")
    assert tracefs.read("options/test_nop_accept") == b"1\n"
    tracefs.write("options/test_nop_accept", b"0")
    assert tracefs.read("instances/i1/options/test_nop_accept") == b"0\n"
    tracefs.rmdir("instances/i1")
