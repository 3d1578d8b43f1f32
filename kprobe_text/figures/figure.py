"""The interface of a figure: it takes records one by one, and gives its result at the end."""

from __future__ import annotations

from typing import Protocol

from kprobe_text.text import Record

ROWS = 8192  # of each table that are kept; what comes when it is full is counted in one row, OTHERS
OTHERS = "(others)"


class Figure(Protocol):
    """A figure of records."""

    def add(self, record: Record) -> None:
        """Take a record."""

    def end(self) -> None:
        """Note that a trace is over: another has a time of its own, and other tasks."""

    def text(self, width: int | None) -> str:
        """Show it as lines, with bars if a terminal's `width` is given."""

    def objects(self) -> list[dict[str, object]]:
        """Give it as JSON has it: a list of objects, each with a `type`."""

    def notes(self) -> list[str]:
        """Return sentences on what is left out."""
