"""How many events a trace has had, of each of its events and in all, and how many the kernel lost."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .text import Parser, Record

FEW = 8  # so many names are looked for one by one


class EventTally:
    """Counts what is read of a trace, and cuts it off after `most` events.

    `lost` is what the kernel overwrote before it was read, or more if it is `uncertain`: some losses have no number.
    Text is counted by how its lines look, unless it may be cut off: then it is parsed.
    """

    def __init__(self, names: Iterable[str], most: int | None = None) -> None:
        self.events = dict.fromkeys(names, 0)
        self.lost = 0
        self.uncertain = False
        self._most = most
        self._rest = b""
        self._parser: Parser | None = None
        self._line: Callable[[bytes], list[bytes]] | None = None

    @property
    def total(self) -> int:
        """All events."""
        return sum(self.events.values())

    @property
    def is_full(self) -> bool:
        """True once there were so many as there should be."""
        return self._most is not None and self.total >= self._most

    def text(self, data: bytes, formats: Callable[[], dict[str, str]], *, live: bool) -> bytes:
        """Count the events in the kernel's text, and return it as far as it is wanted.

        Where it may be cut off, lines are told from what strings hold by `formats` of the events.
        """
        if self._most is not None:
            return self._cut(data, formats, live=live)
        data, plain = data, self._rest + data
        end = plain.rfind(b"\n") + 1
        plain, self._rest = plain[:end], plain[end:]
        names = [name.encode() for name in self.events]
        counts = [plain.count(b": %b: (" % name) for name in names] if len(names) <= FEW else []
        if sum(counts) != plain.count(b"\n"):  # also other lines than those of events, or more than one name in one
            found = self._names(plain)
            counts = [found.count(name) for name in names]
            self._count_lost(plain)
        for name, count in zip(self.events, counts, strict=True):
            self.events[name] += count
        return data

    def records(self, records: list[Record]) -> list[Record]:
        """Count records; return them up to the last that is wanted, and its stack."""
        from .text import Event, Lost, StackTrace

        for at, record in enumerate(records):
            if self.is_full and not isinstance(record, StackTrace):
                return records[:at]
            if isinstance(record, Event) and record.name in self.events:
                self.events[record.name] += 1
            elif isinstance(record, Lost):
                self.lost += record.count or 0
                self.uncertain |= record.count is None
        return records

    def header(self, data: bytes) -> None:
        """Count what was overwritten in a buffer that is read at its end, by its headings: 205/1000 are 795 lost."""
        numbers = data.partition(b"entries-in-buffer/entries-written: ")[2].split()
        kept, _, written = numbers[0].partition(b"/") if numbers else (b"", b"", b"")
        if kept.isdigit() and written.isdigit():
            self.lost += int(written) - int(kept)

    def _cut(self, data: bytes, formats: Callable[[], dict[str, str]], *, live: bool) -> bytes:
        from .text import Parser

        if self._parser is None:
            self._parser = Parser(formats().get, live=live)
        records = self._parser.feed(data)
        if not live:
            records += self._parser.close()
        return b"".join(record.raw for record in self.records(records))

    def _names(self, data: bytes) -> list[bytes]:
        """Return the name of the event of each line that has one."""
        if self._line is None:
            import re

            names = b"|".join(re.escape(name.encode()) for name in self.events)
            self._line = re.compile(rb"^[^\n]{8,}?: (%b): \(" % names, re.MULTILINE).findall
        return self._line(data)

    def _count_lost(self, data: bytes) -> None:
        if b"EVENTS" not in data:
            return
        for line in data.split(b"\n"):
            words = line.split()
            if line.startswith(b"CPU:") and words[1:2] == [b"[LOST"]:
                self.lost += int(words[2]) if words[2].isdigit() else 0
                self.uncertain |= not words[2].isdigit()
