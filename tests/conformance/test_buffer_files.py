"""The files snapshot and trace_pipe_raw: what they take and give besides the records."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from .text import refused, traced

RAW = "per_cpu/cpu0/trace_pipe_raw"
PAGE = 4096


def state(tracefs: Any) -> str:
    """Return what snapshot says of itself while nothing is in it."""
    return str(tracefs.read("snapshot").decode().partition("# * Snapshot is ")[2].partition(" *")[0])


def test_numbers_for_snapshot(tracefs: Any) -> None:
    assert state(tracefs) == "freed"
    for written, then in (("2", "freed"), ("1", "allocated"), ("2", "allocated"), ("0", "freed"), ("1\n", "allocated")):
        tracefs.write("snapshot", written.encode())
        assert state(tracefs) == then
    tracefs.write("snapshot", b"0")


@pytest.mark.parametrize("written", ["", "x", "-1", " 1", "1 ", "0x1"])
def test_refused_by_snapshot(tracefs: Any, written: str) -> None:
    assert refused(tracefs, "snapshot", written) == errno.EINVAL
    assert state(tracefs) == "freed"


def test_a_snapshot_swaps_the_buffers(tracefs: Any) -> None:
    tracefs.write("trace_marker", b"one")
    tracefs.write("snapshot", b"1")
    assert traced(tracefs) == []
    assert tracefs.read("snapshot").endswith(b": tracing_mark_write: one\n")
    tracefs.write("trace_marker", b"two")
    tracefs.write("snapshot", b"1")
    assert tracefs.read("snapshot").endswith(b": tracing_mark_write: two\n")
    assert traced(tracefs) == ["tracing_mark_write: one"]
    tracefs.write("snapshot", b"0")


def test_raw_pages(tracefs: Any) -> None:
    """A read without room for an event gives nothing; any number may read, each has a page of its own."""
    flags = os.O_RDONLY | os.O_NONBLOCK
    tracefs.write("trace_marker", b"one")
    with tracefs.open(RAW, flags) as first, tracefs.open(RAW, flags) as second:
        assert first.read(20) == b""
        page = first.read(PAGE)
        assert len(page) == PAGE
        assert b"one\n" in page
        with pytest.raises(BlockingIOError):
            second.read(PAGE)
    assert traced(tracefs) == []
