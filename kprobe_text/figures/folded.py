"""Folded stacks, from which flame graphs are drawn."""

from __future__ import annotations

from kprobe_text.figures.figure import ROWS
from kprobe_text.figures.shape import plain
from kprobe_text.text import Event, Record, StackTrace


class Folded:
    """Folded stacks for flame graphs: `comm;outermost;…;innermost COUNT`, with frames by their symbols.

    `stacks` counts each: the task's name, then its frames.
    """

    def __init__(self) -> None:
        self.stacks: dict[tuple[str, ...], int] = {}
        self._events = self._found = self._cut = 0

    def add(self, record: Record) -> None:
        """Take a record."""
        if isinstance(record, Event):
            self._events += 1
        elif isinstance(record, StackTrace) and record.complete and not record.user:
            self._found += 1
            key = (record.task, *(frame.symbol or frame.text for frame in reversed(record.frames)))
            if key not in self.stacks and len(self.stacks) >= ROWS * 8:
                self._cut += 1
            else:
                self.stacks[key] = self.stacks.get(key, 0) + 1

    def end(self) -> None:
        """End a trace."""

    def text(self, width: int | None) -> str:
        """Return a line for each stack, in the order of their names."""
        rows = sorted(self.stacks.items())
        return "".join(f"{';'.join(_frame(frame) for frame in key)} {count}\n" for key, count in rows)

    def objects(self) -> list[dict[str, object]]:
        """Return an object for each stack."""
        return [
            {"type": "folded", "task": key[0], "frames": list(key[1:]), "count": count}
            for key, count in sorted(self.stacks.items())
        ]

    def notes(self) -> list[str]:
        """Return sentences on what is left out."""
        notes = [f"{self._cut} stacks aren't counted: there are too many different ones"] if self._cut else []
        missing = self._events - self._found
        return notes + ([f"{missing} of {self._events} events have no kernel stack"] if missing > 0 else [])


def _frame(name: str) -> str:
    return plain(name).replace(";", ":")  # which ends a frame
