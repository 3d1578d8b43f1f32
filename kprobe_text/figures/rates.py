"""Rates: events per second by event, task and CPU, since the last sample and in total."""

from __future__ import annotations

from collections.abc import Iterable

from kprobe_text.figures.figure import OTHERS
from kprobe_text.figures.shape import plain
from kprobe_text.text import BufferStarted, Event, Lost, Record

KEPT = 4096  # tasks counted separately


class Row:
    """One event, task or CPU: events per second since the last sample, and events in all."""

    __slots__ = ("name", "rate", "total")

    def __init__(self, name: str, rate: float, total: int) -> None:
        self.name = name
        self.rate = rate
        self.total = total


class Sample:
    """The rates at one moment: `seconds` since the beginning; `lost` events, as the kernel counts them.

    Rates cover the time since the sample before; those of the last sample cover the whole time.
    """

    __slots__ = ("gaps", "is_last", "lost", "rate", "seconds", "tables", "total")

    def __init__(
        self,
        seconds: float,
        rate: float,
        total: int,
        lost: int,
        gaps: int,
        tables: list[list[Row]],
        *,
        is_last: bool = False,
    ) -> None:
        self.is_last = is_last
        self.seconds = seconds
        self.rate = rate
        self.total = total
        self.lost = lost
        self.gaps = gaps
        self.tables = tables


TABLES = ("EVENT", "TASK", "CPU")


class Rates:
    """Counts events, and returns samples of what came since the last one; times are seconds of any clock."""

    def __init__(self, now: float, events: Iterable[str] = ()) -> None:
        self._began = self._sampled = now
        self._counts: list[dict[str, list[int]]] = [{name: [0, 0] for name in events}, {}, {}]  # new, in all
        self._lost = self._gaps = 0

    def add(self, record: Record) -> None:
        """Take a record."""
        if isinstance(record, Event):
            for table, name in zip(
                self._counts, (record.name, f"{record.task}-{record.pid}", f"{record.cpu}"), strict=True
            ):
                if name not in table and len(table) >= KEPT:
                    name = OTHERS
                count = table.setdefault(name, [0, 0])
                count[0] += 1
                count[1] += 1
        elif isinstance(record, Lost) and record.count is not None:
            self._lost += record.count
        elif isinstance(record, (Lost, BufferStarted)):
            self._gaps += 1

    def sample(self, now: float, *, is_last: bool = False) -> Sample:
        """Return the rates since the last sample, the busiest first."""
        seconds = max(now - (self._began if is_last else self._sampled), 1e-9)
        self._sampled = now
        tables = []
        for table in self._counts:
            rows = [Row(plain(name), count[is_last] / seconds, count[1]) for name, count in table.items()]
            tables.append(sorted(rows, key=lambda row: (-row.rate, -row.total, row.name)))
            for count in table.values():
                count[0] = 0
        rate, total = (sum(values) for values in zip(*((row.rate, row.total) for row in tables[0]), strict=True))
        return Sample(now - self._began, rate, int(total), self._lost, self._gaps, tables, is_last=is_last)


def summary(sample: Sample) -> str:
    """Sum up a sample in one line."""
    lost = f", {sample.lost} lost" if sample.lost else ""
    gaps = f", {sample.gaps} gaps of unknown size" if sample.gaps else ""
    mean = " on average" if sample.is_last else ""
    return f"{sample.seconds:.0f} s: {sample.rate:.1f} events/s{mean}, {sample.total} in all{lost}{gaps}"


def text(sample: Sample, most: int = 10) -> str:
    """Return a sample as lines, with at most `most` rows of each table."""
    lines = [summary(sample)]
    for title, rows in zip(TABLES, sample.tables, strict=True):
        lines.append(f"{'PER SECOND':>12} {'IN ALL':>10}  {title}")
        lines += [f"{row.rate:>12.1f} {row.total:>10}  {row.name}" for row in rows[:most]]
        if len(rows) > most:
            lines.append(f"{'':>12} {'':>10}  … {len(rows) - most} more")
    return "\n".join(lines) + "\n\n"
