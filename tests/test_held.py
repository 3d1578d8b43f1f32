"""tools/guests/held.py: what is put to both sides, what counts as the same, and the rows of its page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kprobe_sim import SimulatedKernel

TOOL = Path(__file__).parent.parent / "tools" / "guests" / "held.py"


@pytest.fixture
def held(loaded: Callable[[Path], ModuleType], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The tool, with a page of its own."""
    held = loaded(TOOL)
    monkeypatch.setattr(held, "PAGE", tmp_path / "held.md")
    return held


def test_an_answer_is_errno_listing_log_and_format_and_leaves_nothing(held: ModuleType) -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    refused, listing, log, formats = held.answer(tracefs, "p:x do_sys_openat2 $arg0")
    assert (refused, listing, formats) == (22, b"", [])
    assert log.splitlines()[2] == b"                              ^"
    assert held.answer(tracefs, "p:x do_sys_openat2")[:2] == (0, b"p:kprobes/x do_sys_openat2\n")
    assert held.answer(tracefs, "p do_sys_openat2")[1] == b"p:kprobes/p_do_sys_openat2_0 do_sys_openat2\n"
    (text,) = held.answer(tracefs, "p 0x10")[3]
    assert text.startswith(b"name: p_HASHED\nID\nformat:\n")
    assert tracefs.read("kprobe_events") == b""


def test_kernels_that_answer_otherwise_are_told_apart(held: ModuleType) -> None:
    old, new = SimulatedKernel("6.1").tracefs, SimulatedKernel("7.3").tracefs
    assert len(held.definitions()) == 480
    different = [line for line in held.definitions() if held.answer(old, line) != held.answer(new, line)]
    assert "p1:x do_sys_openat2" in different
    assert "p do_sys_openat2" not in different


def test_rows_come_in_the_order_of_the_lock_and_one_kernels_replaces_its_own(held: ModuleType) -> None:
    assert held.rows() == {}
    held.write("7.1", "7.1 | a | 1, 0, 0 | –")
    held.write("6.12-rt-amd64", "6.12-rt-amd64 | b | 1, 0, 0 | 2, 0, 0")
    held.write("7.1", "7.1 | c | 1, 0, 0 | 3, 0, 0")
    assert held.PAGE.read_text("utf-8").splitlines()[-2:] == [
        "| 6.12-rt-amd64 | b | 1, 0, 0 | 2, 0, 0 |",
        "| 7.1 | c | 1, 0, 0 | 3, 0, 0 |",
    ]
