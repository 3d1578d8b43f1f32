"""Event systems named like a file that stands in events/: there is one of both, and which one depends on the kernel."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from .text import define


def test_a_system_named_like_a_file(tracefs: Any, choose: Any) -> None:
    """On eventfs, 6.6, the directory hides the file; before, the directory can't be made."""
    define(tracefs, "p:enable/a ksys_sync", "p:header_page/b ksys_sync")
    hides = choose({"": False, "<argname>": True})
    names = [name for name in tracefs.listdir("events") if name in ("enable", "header_page", "header_event")]
    assert sorted(names) == ["enable"] * (1 + hides) + ["header_event"] + ["header_page"] * (1 + hides)
    if hides:
        assert tracefs.read("events/enable/enable") == b"0\n"
        assert tracefs.read("events/header_page/b/enable") == b"0\n"
    else:
        assert tracefs.read("events/enable") in (b"0\n", b"X\n")
    with pytest.raises(OSError) as refused:
        tracefs.read("events/enable" if hides else "events/enable/a/id")
    assert refused.value.errno == (errno.EISDIR if hides else errno.ENOTDIR)
