"""A whole trace, and what the number of records stated in its header settles."""

import re
from collections.abc import Iterable
from typing import Final

from kprobe_text.text.descriptions import WHOLE, Formats
from kprobe_text.text.layout import ANY, BARE, BOM, ENDS, holds_another_on_its_line
from kprobe_text.text.parser import Parser
from kprobe_text.text.prefix import unquoted
from kprobe_text.text.records import (
    BareMarker,
    BufferStarted,
    Coded,
    Comment,
    Header,
    Lost,
    Marker,
    Record,
    Switch,
    Unparsed,
)

# entries-in-buffer/entries-written: 12/12   #P:4 (from 3.3 on), and # latency: 0 us, #12/12, CPU#0 | (M:desktop ...)
_COUNT = re.compile(rb"# (?:entries-in-buffer/entries-written: |latency: \d+ us, #)(\d{1,19})/\d{1,19}\b")
# The header is no longer, nor a line of it.
HEADER: Final = 4096
# what is no entry of the buffer, or leaves open how many there are
_OTHER: Final = (Header, BufferStarted, Switch)
_MARKS: Final = (Marker, BareMarker)
_PLACED: Final = object()
_OPEN: Final = (Unparsed, Lost, Coded, Comment)


def stated(text: bytes) -> int | None:
    """Say how many records the header says that a text has, which begins with one; None if it doesn't."""
    for line in unquoted(text[:HEADER].removeprefix(BOM)).splitlines():
        if line[:1] != b"#":
            return None
        if (found := _COUNT.match(line)) is not None:
            return int(found[1])
    return None


class Count:
    """Counts the records of a trace, which were read as if no string held a line that looks like one.

    There can't be more of them, whatever the strings hold, than lines that look like records; so if there are as many
    as the kernel says, each of those is one. A forged one that takes in a real one would even that out, so where one
    might, nothing is settled.
    """

    __slots__ = ("_is_loose", "_is_open", "_is_titled", "entries")

    def __init__(self) -> None:
        self.entries = 0
        self._is_open = False
        self._is_loose = False  # there was text that has no quotes around it, such as a mark
        self._is_titled = True  # all so far was the header

    def add(self, records: Iterable[Record]) -> None:
        """Count these, too."""
        for record in records:
            if isinstance(record, Header):
                # a string can hold a header, too, with another number
                self._is_open |= not self._is_titled
                continue
            self._is_titled = False
            raw = record.raw
            self._is_loose |= isinstance(record, _MARKS) or getattr(record, "address", _PLACED) is None
            if (
                isinstance(record, _OPEN)
                or len(raw) > WHOLE
                or holds_another_on_its_line(raw, self._is_loose)
                or self._holds_another_in_a_line(record)
            ):
                self._is_open = True
            self.entries += not isinstance(record, _OTHER)

    def _holds_another_in_a_line(self, record: Record) -> bool:
        """Say whether there may be more records than were read: one may begin in a line within this one.

        For this one would be part of an earlier one's string then, and end where that can end: a mark at any line.
        """
        raw = record.raw
        if raw.find(b"\n") + 1 == len(raw):
            return False
        raw = unquoted(raw)
        task: str | None = getattr(record, "task", None)
        start = at = 0
        for _ in range(1 + (task or "").count("\n")):  # a task's name may have lines, too
            start, at = at, raw.find(b"\n", at) + 1
        while 0 < at < len(raw):
            if (self._is_loose or ENDS.match(raw, start, at - 1)) and any(
                layout.match(raw, at) for layout in (*ANY, BARE)
            ):
                return True
            start, at = at, raw.find(b"\n", at) + 1
        return False

    def settles(self, entries: int) -> bool:
        """Say whether so many records are all that can have been."""
        return self.entries == entries and not self._is_open


def parse(data: bytes, formats: Formats | None = None, *, definitions: Iterable[str] = ()) -> list[Record]:
    """Read a whole trace; see Parser. Its records aren't ``forgeable`` if the header's number of them is right."""
    definitions = list(definitions)
    entries = stated(data)
    if entries is not None:
        parser, count = Parser(formats, definitions=definitions, settled=True), Count()
        records = parser.feed(data) + parser.close()
        count.add(records)
        if count.settles(entries):
            return records
    parser = Parser(formats, definitions=definitions)
    return parser.feed(data) + parser.close()
