"""Frequencies: how many events there are for each value of a field, each task, thread, CPU or stack."""

from __future__ import annotations

from kprobe_text.figures.figure import OTHERS, ROWS
from kprobe_text.figures.histogram import bar
from kprobe_text.figures.shape import plain, value
from kprobe_text.text import FAULT, Bare, CodeAddress, Event, Record, StackTrace, Value

COMM, PID, CPU, STACK = WORDS = "comm", "pid", "cpu", "stacktrace"  # no field, unless an event has one of that name
WITH = 14  # columns of a line beside its bar and its key
BARS = 30


class Frequencies:
    """Counts events by `key`: a field's name, or comm, pid (the thread's), cpu, stacktrace; a table for each event.

    An event's field takes precedence over a word of that list.  `tables` has them by event, each
    with 8,192 rows and one for the rest.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self.tables: dict[str, dict[object, int]] = {}
        self._events: dict[tuple[str, int, int], str] = {}  # the last event of each task, and its CPU
        self._without = 0

    def add(self, record: Record) -> None:
        """Take a record."""
        if isinstance(record, StackTrace):
            if self._key == STACK and record.complete and not record.user:
                name = self._events.pop((record.task, record.pid, record.cpu), "")
                self.count(name, ";".join(frame.symbol or frame.text for frame in reversed(record.frames)))
        elif isinstance(record, (Event, Bare)):
            self._event(record)

    def count(self, event: str, key: object, times: int = 1) -> None:
        """Count a value `times` times."""
        table = self.tables.setdefault(event, {})
        if key not in table and len(table) >= ROWS:
            key = OTHERS
        table[key] = table.get(key, 0) + times

    def end(self) -> None:
        """End a trace."""
        self._events.clear()

    def text(self, width: int | None) -> str:
        """Return a table for each event, the most frequent value first."""
        parts = []
        for event, table in sorted(self.tables.items()):
            rows = sorted(table.items(), key=lambda row: (-row[1], _order(row[0])))
            top = rows[0][1]
            room = 0 if width is None else min(BARS, max(0, width // 3 - WITH))
            lines = [f"{plain(event)}, by {plain(self._key)}" if event else f"by {plain(self._key)}"]
            for key, count in rows:
                drawn = f"{bar(count, top, room):<{room}}  " if room else ""
                lines.append(f"{count:>10}  {drawn}{_words(key)}")
            parts.append("\n".join(lines) + "\n")
        return "\n".join(parts)

    def objects(self) -> list[dict[str, object]]:
        """Return an object for each value of each event."""
        return [
            {"type": "count", "event": event, "by": self._key, "key": _json(key), "count": count}
            for event, table in sorted(self.tables.items())
            for key, count in sorted(table.items(), key=lambda row: (-row[1], _order(row[0])))
        ]

    def notes(self) -> list[str]:
        """Return sentences on what is left out."""
        full = [event for event, table in self.tables.items() if OTHERS in table]
        notes = [f"{plain(event)} has more than {ROWS} values: those that came later share one row" for event in full]
        return notes + without(self._without, self._key)

    def _event(self, event: Event | Bare) -> None:
        if self._key in event.fields:
            self.count(event.name, _hashable(event.fields[self._key]))
        elif self._key == COMM and event.task is not None:
            self.count(event.name, event.task)
        elif self._key == PID and event.pid is not None:
            self.count(event.name, event.pid)
        elif self._key == CPU and event.cpu is not None:
            self.count(event.name, event.cpu)
        elif self._key == STACK and isinstance(event, Event):
            if len(self._events) >= ROWS:
                self._events.clear()
            self._events[event.task, event.pid, event.cpu] = event.name
        else:
            self._without += 1


def without(count: int, name: str) -> list[str]:
    """Return a sentence on events that lack a field, if there were any."""
    return [f"{count} events have no {plain(name)}"] if count else []


def _hashable(read: Value) -> object:
    return read.text if isinstance(read, CodeAddress) else read


def _json(key: object) -> object:
    return value(key) if key is not FAULT else None


def _order(key: object) -> tuple[int, int, str]:
    return (0, key, "") if isinstance(key, int) else (1, 0, str(key))


def _words(key: object) -> str:
    if isinstance(key, tuple):
        return "{" + ",".join(map(_words, key)) + "}"
    return plain(str(key))
