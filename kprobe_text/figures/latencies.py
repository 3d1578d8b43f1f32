"""Latencies: the time from a function's entry to its return in the same task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kprobe_text.figures.figure import OTHERS, ROWS
from kprobe_text.figures.histogram import Histogram, Ranks, duration
from kprobe_text.figures.pairs import POINTER, Pairs
from kprobe_text.figures.shape import plain
from kprobe_text.text import BufferStarted, Event, Lost, Record

PERCENTS = (50, 90, 99)
COLUMN = 12


class Latency:
    """The calls of one function: those with both ends seen, and those with only one.

    `unreturned` are calls that ended without their return being seen; `cut` those after which events were lost;
    `running` those that hadn't returned at the end; `unentered` returns whose entry wasn't seen.
    """

    def __init__(self) -> None:
        self.times = Histogram()
        self.ranks = Ranks()
        self.unreturned = self.cut = self.running = self.unentered = 0

    @property
    def calls(self) -> int:
        """The number of calls with both ends."""
        return self.times.count

    @property
    def mean(self) -> float:
        """The mean of their times in nanoseconds.  Raise `ValueError` if there are none."""
        if not self.times.count:
            raise ValueError("there are no calls")
        return self.times.total / self.times.count

    def percentile(self, percent: int) -> int:
        """Return the least time that `percent` of all times don't exceed, by nearest rank, in nanoseconds.

        It is exact up to 65,536 different times, then to 1 %.  Raise `ValueError` if there are no calls, or for a
        percentage below 0 or above 100.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"{percent} is no percentage")
        return self.ranks.percentile(percent)

    def add(self, nanoseconds: int) -> None:
        """Count a call."""
        self.times.add(nanoseconds)
        self.ranks.add(max(nanoseconds, 0))

    def object(self) -> dict[str, object]:
        """Return it as JSON; all times are nanoseconds."""
        times, shown = self.times, dict[str, object](calls=self.times.count)
        if times.count:
            shown |= {"total": times.total, "mean": round(times.total / times.count), "min": times.least}
            shown |= {f"p{percent}": self.ranks.percentile(percent) for percent in PERCENTS}
            shown |= {"max": times.most, "exact": self.ranks.is_exact, "histogram": times.object()}
        ends = {"unreturned": self.unreturned, "cut": self.cut, "running": self.running, "unentered": self.unentered}
        return shown | ends

    def lines(self, width: int | None) -> list[str]:
        """Return it as lines to read."""
        times, lines = self.times, []
        if times.count:
            titles = ("calls", "mean", *(f"p{percent}" for percent in PERCENTS), "max")
            about = "" if self.ranks.is_exact else "~"
            ranks = [about + duration(self.ranks.percentile(percent)) for percent in PERCENTS]
            mean = duration(round(times.total / times.count))
            cells = [str(times.count), mean, *ranks, duration(times.most or 0)]
            widths = [max(COLUMN, len(cell)) for cell in cells]
            for row in (titles, cells):
                lines.append(" ".join(f"{cell:>{wide}}" for cell, wide in zip(row, widths, strict=True)))
            lines += times.lines(width=width, time=True)
        return lines + ([f"    {words}"] if (words := self._ends()) else [])

    def _ends(self) -> str:
        said = [
            (self.unreturned, "over without a return seen"),
            (self.cut, "broken off by lost events"),
            (self.running, "not returned by the end"),
            (self.unentered, "returned without an entry seen"),
        ]
        return ", ".join(f"{count} {words}" for count, words in said if count)


class Latencies:
    """The latencies of all functions whose entries and returns are seen.

    No call that was open when events were lost is paired any more: the gap could hold its return and the entry of
    another call.  `functions` are those of events by name, where they are known.  A clock that counts no
    time gives no latency.
    """

    def __init__(self, functions: Mapping[str, str] | None = None, pointer: str = POINTER) -> None:
        self.rows: dict[str, Latency] = {name: Latency() for name in (functions or {}).values()}
        self._known = frozenset(self.rows)
        self._pairs = Pairs(functions, pointer)
        self._timeless = 0

    def add(self, record: Record) -> None:
        """Take a record."""
        if isinstance(record, (Lost, BufferStarted)):
            self._count(self._pairs.unreturned(), "cut")
        if not isinstance(record, Event):
            return
        if record.clock not in ("time", "elapsed"):
            self._timeless += 1
            return
        for entry, leave in self._pairs.take(record):
            if entry is None and leave is not None:
                self._row(leave).unentered += 1
            elif entry is not None and leave is not None:
                self._row(leave).add(leave.timestamp - entry.timestamp)
            elif entry is not None and entry is not record:
                self._count((entry,), "unreturned")

    def end(self) -> None:
        """End a trace."""
        self._count(self._pairs.unreturned(), "running")

    def text(self, width: int | None) -> str:
        """Return a table of each function."""
        parts = []
        for name, row in self._shown():
            lines = row.lines(width) or ["    no calls"]
            parts.append("\n".join([f"{plain(name)}, from entry to return", *lines]) + "\n")
        return "\n".join(parts)

    def objects(self) -> list[dict[str, object]]:
        """Return an object for each function."""
        return [{"type": "latency", "function": name, **row.object()} for name, row in self._shown()]

    def notes(self) -> list[str]:
        """Return sentences on what is left out."""
        notes = []
        if self._timeless:
            notes.append(
                f"{self._timeless} events have a clock's count instead of a time: no latency can be computed from them"
            )
        if hidden := len(self.rows) - len(self._shown()):
            notes.append(f"of {hidden} functions, only entries or only returns were seen")
        return notes

    def _shown(self) -> list[tuple[str, Latency]]:
        """Return the functions that were asked for, or for which a complete call was seen."""
        return [(name, row) for name, row in sorted(self.rows.items()) if row.times.count or name in self._known]

    def _row(self, event: Event) -> Latency:
        name = self._pairs.function(event)
        if name not in self.rows and len(self.rows) >= ROWS:
            name = OTHERS
        return self.rows.setdefault(name, Latency())

    def _count(self, entries: Iterable[Event], end: str) -> None:
        for entry in entries:
            row = self._row(entry)
            setattr(row, end, getattr(row, end) + 1)
