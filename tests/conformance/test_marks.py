"""Writes to trace_marker and trace_marker_raw: how much of them is taken, and whether the files have a position."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from .builds import EPROBES, LONGER_RAW_MARKS
from .text import traced


def taken(tracefs: Any, path: str, size: int) -> int | str:
    """Write that many bytes; return how many were taken, or the name of the errno."""
    with tracefs.open(path, os.O_WRONLY) as file:
        try:
            return int(file.write(b"y" * size))
        except OSError as error:
            return errno.errorcode[error.errno or 0]


def test_a_long_mark(tracefs: Any, choose: Any) -> None:
    limit = choose({"": 1024, "<argname>": 4054})  # since 6.8: what a page has room for
    assert [taken(tracefs, "trace_marker", size) for size in (1024, 2000, 5000)] == [1024, min(2000, limit), limit]
    assert [len(body) for body in traced(tracefs)] == [20 + size for size in (1024, min(2000, limit), limit)]


def test_sizes_of_raw_marks(tracefs: Any, choose: Any) -> None:
    sizes = (3, 4, 1025, 3072, 3073, 4060, 4061, 4064, 4065)
    answers = choose(
        {
            "": ["EINVAL", 4, 1024, 1024, *["EINVAL"] * 5],
            "<argname>": ["EINVAL", 4, 1025, 3072, 3073, 4060, *["EINVAL"] * 3],
            LONGER_RAW_MARKS: ["EINVAL", 4, 1025, 3072, 3073, 4060, 4061, 4064, "EINVAL"],
        }
    )
    assert [taken(tracefs, "trace_marker_raw", size) for size in sizes] == answers


def test_a_position(tracefs: Any, choose: Any) -> None:
    with tracefs.open("trace_marker", os.O_WRONLY) as file:
        if choose({"": True, EPROBES: False}):
            assert file.lseek(1, os.SEEK_SET) == 1
        else:
            with pytest.raises(OSError) as refused:
                file.lseek(1, os.SEEK_SET)
            assert refused.value.errno == errno.ESPIPE
