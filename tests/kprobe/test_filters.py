"""Filters that pick threads, and their union with the user's."""

from __future__ import annotations

from kprobe.definitions.filters import both, thread_filter


def test_threads() -> None:
    assert thread_filter([7]) == "common_pid == 7"
    assert thread_filter([12, 7]) == "common_pid == 7 || common_pid == 12"


def test_both() -> None:
    assert both() == ""
    assert both("", " 0 ") == ""
    assert both("a == 1", "") == "a == 1"
    assert both("a == 1 || b == 2", "common_pid == 7") == "(a == 1 || b == 2) && (common_pid == 7)"
