"""Marks beside opens on 3.2, 3.13, 4.4 and 4.19: the whole trace, to the byte."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kprobe_sim.machine.clock import VirtualClock
from kprobe_sim.tree.marks import mark, mark_raw

from .recorded_on import recorded_on
from .test_early_records import Hit, hits, opened, probed
from .test_early_whole import OLD, recorded

BEGIN = re.compile(rb"^(?=.{16}-\d+ +\[\d{3}\])", re.MULTILINE)
MARK = re.compile(rb".*?: tracing_mark_write: (.*)", re.DOTALL)
RAW = re.compile(rb"(.*?: )# (\w+) buf: ([0-9a-f ]+)\n")
LONGEST = b"0123456789" * 390 + b"\n"  # 3,901 bytes


def marked(text: bytes) -> Iterator[tuple[Hit, bytes]]:
    """Yield each record, and what it shows of a mark: the rest of the text up to the next one."""
    for piece in BEGIN.split(text)[1:]:
        found, raw = MARK.fullmatch(piece), RAW.fullmatch(piece)
        line = piece if raw is None else raw[1] + b"raw: " + raw[3] + b"\n"
        yield next(hits(line)), b"" if found is None else found[1]


@pytest.mark.parametrize("series", OLD)
def test_marks_beside_opens(series: str) -> None:
    """Of the longest 1,024 bytes were taken; 4.19 has a raw one too, of a number and eight letters."""
    text = recorded(series, "07_marker")
    clock = VirtualClock()
    kernel = recorded_on(series, cpus=2, clock=clock)
    probed(kernel, series)
    sizes = []
    for hit, shown in marked(text):
        kernel.tasks[hit.task.pid] = hit.task
        clock.now = hit.at
        if hit.event == "raw":
            assert mark_raw(kernel.top, b"\1\0\0\0abcdefgh", hit.task, hit.cpu) == 12
        elif shown:
            # the kernel ends a line that doesn't end by itself
            written = {b"no newline\n": b"no newline", LONGEST[:1024] + b"\n": LONGEST}.get(shown, shown)
            sizes.append(mark(kernel.top, written, hit.task, hit.cpu))
        else:
            opened(kernel, hit, hit.task)
    assert kernel.tracefs.read("trace") == text
    assert (len(sizes), max(sizes)) == (11, 1024)
