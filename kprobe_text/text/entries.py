"""A whole trace -> records; the number of entries in its header settles whether a string imitates any of them."""

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
# The longest header.
HEADER: Final = 4096
# records that aren't entries of the buffer, or hide the number of entries
_OTHER: Final = (Header, BufferStarted, Switch)
_MARKS: Final = (Marker, BareMarker)
_PLACED: Final = object()
_OPEN: Final = (Unparsed, Lost, Coded, Comment)


def stated(text: bytes) -> int | None:
    """Return how many records a text has by its header; None without such a header."""
    for line in unquoted(text[:HEADER].removeprefix(BOM)).splitlines():
        if line[:1] != b"#":
            return None
        if (found := _COUNT.match(line)) is not None:
            return int(found[1])
    return None


class Count:
    """Counts the records of a trace that was read as if no string held a line that looks like a record.

    Whatever the strings hold, there can't be more records than lines that look like one. So if there are as many as the
    kernel says, each of those lines is one. A forged record that swallows a real one would even that out, so where that
    is possible nothing is settled.
    """

    __slots__ = ("_is_loose", "_is_open", "_is_titled", "entries")

    def __init__(self) -> None:
        self.entries = 0
        self._is_open = False
        self._is_loose = False  # there was text without quotes around it, such as a mark
        self._is_titled = True  # there was nothing but the header so far

    def add(self, records: Iterable[Record]) -> None:
        """Count further records."""
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
        """Return whether another record may begin in a line within this one.

        This one would then be part of an earlier record's string, and end where that can end: a mark at any line.
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
        """Return whether there can't have been more or fewer records than this."""
        return self.entries == entries and not self._is_open


def parse(data: bytes, formats: Formats | None = None, *, definitions: Iterable[str] = ()) -> list[Record]:
    """Read a whole trace; see Parser. Its records aren't ``forgeable`` if there are as many as the header says."""
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
