"""Lines of a trace that are longer than the buffer in which the kernel makes them."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(("bytes_", "shown"), [(2684, 2684), (3000, 2700)])
def test_a_raw_mark_is_cut_with_its_newline(tracefs: Any, choose: Any, bytes_: int, shown: int) -> None:
    """Since 6.8 a mark may be that long, and 8156 bytes are what a line has at most; before, both are less."""
    tracefs.write("trace_marker_raw", b"zzzz" + b"y" * (bytes_ - 4))
    tracefs.write("trace_marker", b"next")
    text = tracefs.read("trace").partition(b" buf:")[2]
    short = choose({"": True, "<argname>": False})
    assert text.count(b" 79") == (1020 if short else shown - 4)
    assert (b" 79\n" in text or b" 00\n" in text or b" 74\n" in text) is (short or shown == bytes_)
    assert text.endswith(b": tracing_mark_write: next\n")
