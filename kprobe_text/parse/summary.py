"""The summary of a trace: rates, histograms of numbers, latencies of calls, in memory that doesn't grow with it."""

from __future__ import annotations

from kprobe_text.figures.histogram import Histogram
from kprobe_text.figures.latencies import Latencies
from kprobe_text.figures.shape import Counts, plain
from kprobe_text.text import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from kprobe_text.text import Record

    K = TypeVar("K")

# Rows of each kind; once they are full, new keys are counted in one row, OTHERS.
ROWS = 1024
OTHERS = "(others)"


class Summary:
    """Sums up records.

    A latency is the time between a function's entry and its return in the same task; a clock that counts no time gives
    none. Counts are exact; names beyond the first ROWS of each kind are summed up in one row.
    """

    def __init__(self) -> None:
        self._counts = Counts()
        self._hits: dict[tuple[str, str], int] = {}
        self._numbers: dict[tuple[str, str], Histogram] = {}
        self._latencies = Latencies()
        self._events = 0
        self._first: int | None = None
        self._last = self._time = 0

    def add(self, record: Record) -> None:
        """Count a record."""
        self._counts.add(record)
        self._latencies.add(record)
        if not isinstance(record, Event):
            return
        self._events += 1
        key = (record.name, record.task)
        if key not in self._hits and len(self._hits) >= ROWS:
            key = (OTHERS, "")
        self._hits[key] = self._hits.get(key, 0) + 1
        for name, value in record.fields.items():
            if isinstance(value, int):
                _row(self._numbers, (record.name, name), (OTHERS, "")).add(value)
        if record.clock in ("time", "elapsed"):
            self._first = record.timestamp if self._first is None else min(self._first, record.timestamp)
            self._last = max(self._last, record.timestamp)

    def end(self) -> None:
        """End a trace: another one has its own time and other tasks."""
        self._latencies.end()
        self._time += 0 if self._first is None else self._last - self._first
        self._first, self._last = None, 0

    def objects(self) -> list[dict[str, object]]:
        """Return the calls as JSON; the other parts of a summary are text only."""
        return self._latencies.objects()

    def notes(self) -> list[str]:
        """Return nothing: the text shows what is uncertain."""
        return []

    def text(self, width: int | None) -> str:
        """Return the summary, with bars if a terminal's `width` is given."""
        seconds = self._time / 10**9
        lines = [f"{self._events} events in {seconds:.6f} s" + (f"; {said}" if (said := self._counts.words()) else "")]
        lines += ["", f"{'COUNT':>10} {'PER SECOND':>12}  EVENT, TASK"]
        for (name, task), count in sorted(self._hits.items(), key=lambda row: (-row[1], row[0])):
            rate = f"{count / seconds:.1f}" if seconds else "-"
            lines.append(f"{count:>10} {rate:>12}  {plain(name)} {plain(task)}".rstrip())
        for (name, argument), numbers in sorted(self._numbers.items()):
            lines += ["", f"{plain(name)} {plain(argument)}: {_numbers(numbers)}", *numbers.lines(width=width)]
        calls = self._latencies.text(width)
        return "\n".join(lines) + "\n" + (f"\n{calls}" if calls else "")


def _numbers(numbers: Histogram) -> str:
    return f"{numbers.count} numbers, {numbers.least} .. {numbers.most}, mean {numbers.total / numbers.count:.4g}"


def _row(table: dict[K, Histogram], key: K, others: K) -> Histogram:
    """Return the row of a key, or the row for all others once the table is full."""
    if key not in table:
        if len(table) >= ROWS:
            key = others
        table.setdefault(key, Histogram())
    return table[key]
