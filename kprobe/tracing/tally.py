"""How many events a trace has had, by event and in total, and how many the kernel lost."""

from __future__ import annotations

from io import BytesIO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kprobe_text.text import Parser, Record

    from .ring_counts import RingCounts

FEW = 8  # names that are searched for one by one
# a line of the patch of 2009, which shows a probe's address and not its event
UNNAMED = (
    rb"^[^\n]{16}-\d+ +\[\d+\] +\d+\.\d+: "
    rb"(?:[^\s:]+\+0x[0-9a-f]+/0x[0-9a-f]+(?: <- [^\s:]+)?|0(?:x[0-9a-f]+)? <- [^\s:]+):"
)


class EventTally:
    """Counts the events read from a trace, and cuts it off after `most` of them.

    Text is counted by the look of its lines; if it may be cut off it is parsed; with `ring`, the kernel counts.
    """

    ring: RingCounts | None = None

    def __init__(self, names: Iterable[str], most: int | None = None) -> None:
        self._events = dict.fromkeys(names, 0)
        self._unnamed = 0  # events that the kernel prints without names
        self._lost = 0
        self._uncertain = False
        self._most = most
        self._unfinished = b""  # an incomplete line
        self._parser: Parser | None = None
        self._line: Callable[[bytes], list[bytes]] | None = None

    @property
    def events(self) -> dict[str, int]:
        """The number of each event, by name.  Raise `OSError` if the kernel's counts can't be read."""
        if self.ring is not None:
            return dict.fromkeys(self._events, self.ring.numbers()[0])
        return self._events

    @property
    def lost(self) -> int:
        """How many events the kernel overwrote unread, as far as it tells.  Raise `OSError` as `events` does."""
        return self._lost if self.ring is None else self.ring.numbers()[1]

    @property
    def uncertain(self) -> bool:
        """True if more may be lost: some losses have no number."""
        return self._uncertain

    @property
    def is_by_event(self) -> bool:
        """True if `events` has all events, by name."""
        return not self._unnamed

    @property
    def total(self) -> int:
        """All events, including those that the kernel prints without names."""
        return sum(self.events.values()) + self._unnamed

    @property
    def is_full(self) -> bool:
        """True once the wanted number of events has been read."""
        return self._most is not None and self.total >= self._most

    def text(self, data: bytes, formats: Callable[[], dict[str, str]], *, live: bool) -> bytes:
        """Count the events in the kernel's text, and return it up to the last one needed.

        Where it may be cut off, the events' `formats` tell lines from the contents of strings.
        """
        if self._most is not None:
            return self._cut(data, formats, live=live)
        if self.ring is None:
            self._count(self._unfinished + data if self._unfinished else data)
        return data

    def settle(self) -> None:
        """Keep the final counts: the trace ends."""
        if self.ring is not None:
            self.ring.settle()

    def _count(self, text: bytes) -> None:
        """Count events in complete lines; text is copied only where a line is incomplete."""
        end = text.rfind(b"\n") + 1
        self._unfinished = text[end:]
        lines = text[:end]
        names = [name.encode() for name in self._events]
        counts = [lines.count(b": %b: " % name) for name in names] if len(names) <= FEW else []
        # other lines too, or several names in one line; counting newlines takes twice as long
        if sum(counts) != len(BytesIO(lines).readlines()):
            found = self._names(lines)
            counts = [found.count(name) for name in names]
            if not found:
                self._count_unnamed(lines)
            self._count_lost(lines)
        for name, count in zip(self._events, counts, strict=True):
            self._events[name] += count

    def records(self, records: list[Record]) -> list[Record]:
        """Count records; return them up to the last one needed, and its stack."""
        from kprobe_text.text import Event, Lost, StackTrace

        for at, record in enumerate(records):
            if self.is_full and not isinstance(record, StackTrace):
                return records[:at]
            if isinstance(record, Event) and record.name in self._events:
                self._events[record.name] += 1
            elif isinstance(record, Event) and not record.name:
                self._unnamed += 1
            elif isinstance(record, Lost):
                self._lost += record.count or 0
                self._uncertain |= record.count is None
        return records

    def header(self, data: bytes) -> None:
        """Count overwritten events by the headings of a buffer that is read at the end: 205/1000 are 795 lost."""
        numbers = data.partition(b"entries-in-buffer/entries-written: ")[2].split()
        kept, _, written = numbers[0].partition(b"/") if numbers else (b"", b"", b"")
        if kept.isdigit() and written.isdigit():
            self._lost += int(written) - int(kept)

    def _cut(self, data: bytes, formats: Callable[[], dict[str, str]], *, live: bool) -> bytes:
        from kprobe_text.text import Parser

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

            names = b"|".join(re.escape(name.encode()) for name in self._events)
            self._line = re.compile(rb"^[^\n]{8,}?: (%b): \(" % names, re.MULTILINE).findall
        return self._line(data)

    def _count_unnamed(self, data: bytes) -> None:
        if b"+0x" in data or b" <- " in data:
            import re

            self._unnamed += len(re.findall(UNNAMED, data, re.MULTILINE))

    def _count_lost(self, data: bytes) -> None:
        if b"EVENTS" not in data:
            return
        for line in data.split(b"\n"):
            words = line.split()
            if line.startswith(b"CPU:") and words[1:2] == [b"[LOST"]:
                self._lost += int(words[2]) if words[2].isdigit() else 0
                self._uncertain |= not words[2].isdigit()
