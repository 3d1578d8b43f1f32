"""Sizes and counts of buffers before 5.10: what a guest of 4.14.67 said, beside what 5.10.262 says."""

from __future__ import annotations

import pytest

from kprobe_sim import SimulatedKernel


@pytest.mark.parametrize(("series", "shown"), [("4.14", (b"1\n", b"96\n")), ("5.10", (b"7\n", b"99\n"))])
def test_a_size_that_was_asked_for(series: str, shown: tuple[bytes, bytes]) -> None:
    tracefs = SimulatedKernel(series).tracefs
    found = []
    for size in (b"1", b"96"):
        tracefs.write("per_cpu/cpu0/buffer_size_kb", size)
        found.append(tracefs.read("per_cpu/cpu0/buffer_size_kb"))
    assert tuple(found) == shown


@pytest.mark.parametrize(("series", "total"), [("4.14", b"1408\n"), ("5.10", b"1410\n")])
def test_the_total(series: str, total: bytes) -> None:
    tracefs = SimulatedKernel(series).tracefs
    tracefs.write("buffer_size_kb", b"1408")
    assert tracefs.read("buffer_total_size_kb") == total


@pytest.mark.parametrize(("series", "left"), [("4.14", b"bytes: 2104\n"), ("5.10", b"bytes: 1052\n")])
def test_bytes_of_events_that_were_read_one_by_one(series: str, left: bytes) -> None:
    """In a guest of 4.14.67 2112: a record there had a time of its own."""
    tracefs = SimulatedKernel(series).tracefs
    tracefs.write("trace_marker", b"z" * 1024)
    with tracefs.stream("trace_pipe") as pipe:
        assert pipe.read(0).count(b"tracing_mark_write: zzz") == 1
    tracefs.write("trace_marker", b"z" * 1024)
    assert left in tracefs.read("per_cpu/cpu0/stats")


@pytest.mark.parametrize(("series", "state"), [("4.9", b"freed"), ("4.14", b"allocated")])
def test_a_snapshot_that_is_asked_for(series: str, state: bytes) -> None:
    """A guest of 4.9.229 says so; its triggers do make room."""
    tracefs = SimulatedKernel(series).tracefs
    tracefs.write("snapshot", b"1")
    assert b"# * Snapshot is %b *" % state in tracefs.read("snapshot")
