"""Scenarios as real kernels printed them (fixtures/scenarios), and the simulator, but for what differs by nature."""

from pathlib import Path

import pytest

from kprobe_lab.scenarios.likeness import difference
from kprobe_sim.scenarios.rendering import render
from kprobe_sim.scenarios.shipped import load

RECORDED = Path(__file__).parents[3] / "fixtures" / "scenarios"
TRACES = sorted(path.relative_to(RECORDED) for path in RECORDED.glob("*/*.trace"))


@pytest.mark.parametrize("path", TRACES, ids=str)
def test_the_simulator_prints_what_the_kernel_did(path: Path) -> None:
    name, _, options = path.stem.partition(".")
    rendering = render(load(name), str(path.parent), options.split("+") if options else ())
    assert difference(rendering.text, (RECORDED / path).read_bytes()) == ""


def test_there_are_some_of_each_kernel() -> None:
    assert {str(path.parent) for path in TRACES} == {"5.10", "6.1", "6.12-rt-amd64", "7.3"}
    assert len(TRACES) == 40


@pytest.mark.parametrize("kernel", ["5.10", "6.1", "6.12-rt-amd64", "7.3"])
def test_truth_is_what_stands_there(kernel: str) -> None:
    """What a guest printed of tasks and values, put down by hand."""
    text = (RECORDED / kernel / "comm_forges_context.trace").read_bytes()
    assert b"  a-1 [000] d..1-4727    [000] " in text
    assert b"  -1  (   2) [3-4729    [000] " in text
    truth = render(load("comm_forges_context"), kernel).truth
    assert [(record["task"], record["pid"], record["cpu"]) for record in truth[::2]] == [
        ("a-1 [000] d..1", 4727, 0),
        ("b-2     [001]", 4728, 0),
        ("-1  (   2) [3", 4729, 0),
    ]
    quoted = (RECORDED / kernel / "string_quotes.trace").read_bytes()
    assert b' s="/a" t="b" n=7" t="/a" t="b" n=7" n=-100\n' in quoted
    strings = [record["fields"]["s"] for record in render(load("string_quotes"), kernel).truth]
    assert strings == ['"', '/a"b', '/a" t="b', '/a" t="b" n=7', '""""']


@pytest.mark.parametrize("kernel", ["5.10", "6.1", "6.12-rt-amd64", "7.3"])
def test_clocks_that_count_count_from_where_the_buffer_was_cleared(kernel: str) -> None:
    text = (RECORDED / kernel / "clock_counter.latency-format.trace").read_bytes()
    shown = [line.split(b": ")[0].rsplit(b" ", 1)[1] for line in text.splitlines() if b": ent: " in line]
    assert shown == [b"1", b"3"]
    truth = render(load("clock_counter"), kernel, ["latency-format"]).truth
    assert [(record["timestamp"], record["clock"]) for record in truth[::2]] == [
        (1, "elapsed count"),
        (3, "elapsed count"),
    ]


@pytest.mark.parametrize("kernel", ["5.10", "6.1", "6.12-rt-amd64", "7.3"])
def test_verbose_counts_the_lines_of_a_read_of_trace_pipe_from_1(kernel: str) -> None:
    wanted = [b"00000001"] * 3  # three reads of one line each
    recorded = (RECORDED / kernel / "read_between.latency-format+verbose.trace").read_bytes()
    rendered = render(load("read_between"), kernel, ["latency-format", "verbose"]).text
    for text in (recorded, rendered):
        assert [line.split(b" [")[0].rsplit(b" ", 1)[1] for line in text.splitlines()] == wanted
