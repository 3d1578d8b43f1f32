"""What a trace comes to: rates, histograms of numbers, latencies of calls; in memory that doesn't grow with it."""

from __future__ import annotations

from kprobe.parsing.pairs import Pairs
from kprobe.parsing.shape import Counts, plain
from kprobe.text import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from kprobe.text import Record

    K = TypeVar("K")

# How many rows of each kind are kept; what comes when they are full is counted in one row, OTHERS.
ROWS = 1024
OTHERS = "(others)"
WIDTH = 40  # of a bar on a terminal


class Histogram:
    """How many numbers there are from each power of two to the next, and their least, greatest and sum."""

    def __init__(self) -> None:
        self.count = self.total = 0
        self.least: int | None = None
        self.most: int | None = None
        self.buckets: dict[int, int] = {}

    def add(self, number: int) -> None:
        """Count a number."""
        self.count += 1
        self.total += number
        self.least = number if self.least is None else min(self.least, number)
        self.most = number if self.most is None else max(self.most, number)
        bucket = number.bit_length() if number >= 0 else -number.bit_length()
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1

    def lines(self, *, bars: bool, time: bool = False) -> list[str]:
        """Show it, a line for each power of two that occurs."""
        shown = []
        top = max(self.buckets.values(), default=1)
        for bucket, count in sorted(self.buckets.items()):
            low, high = _bounds(bucket)
            words = f"{_time(low)} .. {_time(high)}" if time else f"{low} .. {high}"
            shown.append(f"    {words:>45}  {count:>9}" + (f"  {'█' * (count * WIDTH // top)}" if bars else ""))
        return shown


def _bounds(bucket: int) -> tuple[int, int]:
    if bucket == 0:
        return 0, 0
    low, high = 1 << abs(bucket) - 1, (1 << abs(bucket)) - 1
    return (low, high) if bucket > 0 else (-high, -low)


def _time(nanoseconds: float) -> str:
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 1000)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.4g} {unit}"
    return f"{nanoseconds:.4g} ns"


class Summary:
    """Sums up records.

    A latency is the time between a function's entry and its return in the same task; a clock that counts no time gives
    none. Counts are exact; names beyond the first ROWS of each kind are summed up in one row.
    """

    def __init__(self) -> None:
        self._counts = Counts()
        self._hits: dict[tuple[str, str], int] = {}
        self._numbers: dict[tuple[str, str], Histogram] = {}
        self._latencies: dict[str, Histogram] = {}
        self._pairs = Pairs()
        self._alone = 0  # entries without a return, returns without an entry
        self._events = 0
        self._first: int | None = None
        self._last = self._time = 0

    def add(self, record: Record) -> None:
        """Count a record."""
        self._counts.add(record)
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
            self._call(record)

    def _call(self, event: Event) -> None:
        for entry, leave in self._pairs.take(event):
            if entry is None:
                self._alone += 1
            elif leave is not None:
                place = leave.address
                name = "" if place is None else place.symbol or place.text
                _row(self._latencies, name, OTHERS).add(leave.timestamp - entry.timestamp)
            elif entry.address is not None and not entry.address.offset:
                self._alone += 1

    def end(self) -> None:
        """Note that a trace is over: another has a time of its own, and other tasks."""
        self._alone += sum(1 for _ in self._pairs.rest())
        self._time += 0 if self._first is None else self._last - self._first
        self._first, self._last = None, 0

    def text(self, *, bars: bool) -> str:
        """Show the sum, for a terminal with bars."""
        seconds = self._time / 10**9
        lines = [f"{self._events} events in {seconds:.6f} s" + (f"; {said}" if (said := self._counts.words()) else "")]
        lines += ["", f"{'COUNT':>10} {'PER SECOND':>12}  EVENT, TASK"]
        for (name, task), count in sorted(self._hits.items(), key=lambda row: (-row[1], row[0])):
            rate = f"{count / seconds:.1f}" if seconds else "-"
            lines.append(f"{count:>10} {rate:>12}  {plain(name)} {plain(task)}".rstrip())
        for (name, argument), numbers in sorted(self._numbers.items()):
            lines += ["", f"{plain(name)} {plain(argument)}: {_numbers(numbers)}", *numbers.lines(bars=bars)]
        for function, latency in sorted(self._latencies.items()):
            mean, most = _time(latency.total / latency.count), _time(latency.most or 0)
            lines += [
                "",
                f"{plain(function)}, from entry to return: {latency.count} calls, mean {mean}, longest {most}",
            ]
            lines += latency.lines(bars=bars, time=True)
        if self._latencies and self._alone:
            lines += ["", f"{self._alone} entries and returns have no partner in this trace"]
        return "\n".join(lines) + "\n"


def _numbers(numbers: Histogram) -> str:
    return f"{numbers.count} numbers, {numbers.least} .. {numbers.most}, mean {numbers.total / numbers.count:.4g}"


def _row(table: dict[K, Histogram], key: K, others: K) -> Histogram:
    """Give the row of a key, or that of all the others once the table is full."""
    if key not in table:
        if len(table) >= ROWS:
            key = others
        table.setdefault(key, Histogram())
    return table[key]
