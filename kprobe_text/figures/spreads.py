"""Spreads: a histogram of the numbers in a field."""

from __future__ import annotations

from kprobe_text.figures.figure import OTHERS, ROWS
from kprobe_text.figures.frequencies import without
from kprobe_text.figures.histogram import Histogram
from kprobe_text.figures.shape import plain
from kprobe_text.text import Bare, Event, Record

JUST_BELOW = (1 << 32) - 4096  # from here on an unsigned number may be a small negative one: an errno, AT_FDCWD


class Spreads:
    """Histograms of the numbers in one field, one for each event; of an array, each element counts.

    `tables` has them by event.  Values that aren't numbers (strings, what the kernel couldn't read) are counted.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self.tables: dict[str, Histogram] = {}
        self._others: dict[str, int] = {}
        self._below_zero: dict[str, tuple[int, int]] = {}  # of 32 bits, if they have a sign: the least, and how many
        self._without = 0

    def add(self, record: Record) -> None:
        """Take a record."""
        if not isinstance(record, (Event, Bare)):
            return
        if self._field not in record.fields:
            self._without += 1
            return
        read = record.fields[self._field]
        for one in read if type(read) is tuple else (read,):
            if isinstance(one, int):
                self.count(record.name, one)
            else:
                self._others[record.name] = self._others.get(record.name, 0) + 1

    def count(self, event: str, key: object, times: int = 1) -> None:
        """Count a number `times` times."""
        assert isinstance(key, int)
        if event not in self.tables and len(self.tables) >= ROWS:
            event = OTHERS
        if JUST_BELOW <= key < 1 << 32:
            least, count = self._below_zero.get(event, (key, 0))
            self._below_zero[event] = min(least, key), count + times
        self.tables.setdefault(event, Histogram()).add(key, times)

    def end(self) -> None:
        """End a trace."""

    def text(self, width: int | None) -> str:
        """Return a histogram of each event."""
        parts = []
        for event, numbers in sorted(self.tables.items()):
            mean = f"{numbers.total / numbers.count:.4g}"
            title = f"{plain(event)} {plain(self._field)}: {numbers.count} numbers, {numbers.least} .. {numbers.most}"
            parts.append("\n".join([f"{title}, mean {mean}", *numbers.lines(width=width)]) + "\n")
        return "\n".join(parts)

    def objects(self) -> list[dict[str, object]]:
        """Return an object for each event."""
        return [
            {
                "type": "histogram", "event": event, "field": self._field, "count": numbers.count,
                "total": numbers.total, "min": numbers.least, "max": numbers.most, "histogram": numbers.object(),
            }
            for event, numbers in sorted(self.tables.items())
        ]  # fmt: skip

    def notes(self) -> list[str]:
        """Return sentences on what is left out."""
        others = [
            f"{count} values of {plain(event)} {plain(self._field)} are no numbers"
            for event, count in sorted(self._others.items())
        ]
        signs = [
            f"{plain(event)} {plain(self._field)}: {count} numbers are below 0 if it is an int of C, from "
            f"{least - (1 << 32)} on; the type s32 shows them so, on kernels with types"
            for event, (least, count) in sorted(self._below_zero.items())
        ]
        return others + signs + without(self._without, self._field)
