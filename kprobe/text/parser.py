"""The text of a trace, in pieces of any size -> records."""

import re
from typing import Final

from kprobe.text.layout import (
    BARE,
    BUFFER_STARTED,
    CONTEXTS,
    FRAME,
    HEX,
    LOST,
    RAW,
    STACKS,
    STANDARD,
    TRACER,
    preferred,
)
from kprobe.text.line import Formats, Lines
from kprobe.text.records import BufferStarted, Coded, Header, Lost, Record, Unparsed

# The kernel makes a record in a buffer of one page, 8 KiB since 6.8: a longer one isn't one record.
_LONGEST: Final = 16384

# Where it is full, and the longest piece of a record that isn't a string.
_FULL: Final = (4096, 8192)
_PIECE: Final = 64

# Without a newline for so long, the input is no text; it is passed on in pieces rather than gathered.
_LONGEST_LINE: Final = 1 << 20

# The longest comm and a newline: so little text may be the beginning of a comm with a newline in it.
_COMM: Final = 17

# How many records of a format may turn out to be broken off before such records are no longer waited for.
_PATIENCE: Final = 3

_NAME = re.compile(rb" \w+=")

Match = re.Match[bytes]


class Parser:
    """Turns the text of ``trace`` or ``trace_pipe`` into records; drops nothing and raises nothing, whatever the text.

    ``formats`` gives the text of the format file by an event's name (a mapping, or a function that returns None for an
    event without one): with it the arguments have their types and strings are exact. It is asked once for each name.

    A record may go on in the next line, when a comm or a string holds a newline, so the last record is held back until
    more text comes or ``close`` is called. With ``live``, text that ends with a newline is taken to end with a record,
    as what one read(2) of trace_pipe returns does: then nothing that is complete is held back. Without it the records
    don't depend on how the text was cut (lines of over 1 MiB apart).

    A string with a newline is rejoined if what follows doesn't look like a new record; if the string's end is missing,
    also if it does, up to 16 KiB. So a program can't forge a record by opening a file with a strange name, unless it
    also imitates the end of its own: then the text is the same as that of two records.
    """

    __slots__ = ("_broken", "_buffer", "_heading", "_layout", "_lines", "_live", "_numbers", "_scanned", "_settled")

    def __init__(self, formats: Formats | None = None, *, live: bool = False) -> None:
        self._lines = Lines(formats)
        self._live = live
        self._broken: dict[bytes, int] = {}
        self._begin()

    def _begin(self) -> None:
        self._buffer = b""
        self._layout: re.Pattern[bytes] = STANDARD
        self._heading = True  # a `#` line here belongs to the header
        self._settled = False  # there has been a record with context, so none comes without
        self._numbers = True  # there has been nothing but numbers, as options raw and hex print them
        self._scanned = 0  # so much of the buffer is known to be without a newline

    def feed(self, data: bytes) -> list[Record]:
        """Take more text; return the records that are complete."""
        self._buffer += data
        newline = self._buffer.rfind(b"\n", self._scanned)
        if newline < 0 and len(self._buffer) < _LONGEST_LINE:
            self._scanned = len(self._buffer)
            return []
        return self._read(final=False)

    def close(self) -> list[Record]:
        """Return what was held back; text that doesn't end with a newline is Unparsed. The parser can be used anew."""
        records = self._read(final=True)
        if self._buffer:
            records.append(Unparsed(self._buffer))
        self._begin()
        return records

    def _read(self, *, final: bool) -> list[Record]:
        text = self._buffer
        limit = text.rfind(b"\n") + 1
        # where the text may end for good: then what stands before it is all there is
        whole = final or (self._live and limit == len(text))
        records: list[Record] = []
        append, standard, other = records.append, self._lines.standard, self._lines.record
        position = 0
        match, usual = self._layout.match, self._layout is STANDARD
        line = match(text, 0, limit)
        while position < limit:
            if line is None:
                position, record = self._other(text, position, limit, whole)
                if record is not None:
                    append(record)
                elif position < 0:
                    position = -position - 1
                    break
                # that may have changed the layout
                match, usual = self._layout.match, self._layout is STANDARD
                line = match(text, position, limit)
                continue
            end = line.end()
            following = match(text, end, limit)
            if following is not None:
                record = standard(line) if usual else other(line, line[line.re.groups], line[0])
                if record is not None:
                    append(record)
                    self._heading = self._numbers = False
                    self._settled = True
                    position, line = end, following
                    continue
            record = self._long(line, text, limit, whole=whole, final=final)
            if record is None:
                break
            append(record)
            self._heading = self._numbers = False
            self._settled = self._settled or self._layout is not BARE
            position += len(record.raw)
            line = match(text, position, limit)
        if position >= limit:
            while len(text) - position >= _LONGEST_LINE:
                append(Unparsed(text[position : position + _LONGEST_LINE]))
                position += _LONGEST_LINE
        self._buffer = text[position:]
        self._scanned = max(0, limit - position)
        return records

    def _other(self, text: bytes, position: int, limit: int, whole: bool) -> tuple[int, Record | None]:
        """Read a line that isn't in the layout of those before it.

        Returns where it ends, and its record. Without a record: the same position if the layout was changed, or
        -position - 1 if the text must go on before the line can be understood.
        """
        end = text.index(b"\n", position) + 1
        raw = text[position:end]
        if (special := _special(raw)) is not None:
            return end, special
        if raw.startswith(TRACER):
            self._heading, self._settled, self._numbers = True, False, True
        if self._heading and raw.startswith(b"#"):
            self._layout = preferred(raw) or self._layout
            return end, Header(raw)
        for layout in CONTEXTS if self._settled else (*CONTEXTS, BARE):
            if layout is not self._layout and layout.match(text, position, limit):
                self._layout = layout
                return position, None
        if limit - position < _COMM and not whole:
            return -position - 1, None
        if self._numbers and (coded := self._coded(text, position, end, limit, whole)) is not None:
            return coded
        self._heading = self._numbers = False
        return end, Unparsed(raw)

    def _coded(self, text: bytes, position: int, end: int, limit: int, whole: bool) -> tuple[int, Record | None] | None:
        """Read a line as the options hex and raw print a record, the former with an empty line after it.

        Returns what `_other` does, or None if the line isn't such a record.
        """
        raw = text[position:end]
        coded, base = HEX.fullmatch(raw), 16
        if coded is None:
            coded, base = RAW.fullmatch(raw), 10
            if coded is None:
                return None
        elif end == limit and not whole:
            return -position - 1, None
        elif text[end : end + 1] == b"\n":
            end += 1
        elif text[end : end + 2] == b"\r\n":
            end += 2
        self._heading = False
        pid, cpu, stamp = (int(coded[i], base) for i in (1, 2, 3))
        return end, Coded(pid, cpu, stamp, int(coded[4]), text[position:end])

    def _starts(self, text: bytes, position: int, limit: int) -> bool:
        """Say whether a line looks like the beginning of a record."""
        if any(layout.match(text, position, limit) for layout in CONTEXTS):
            return True
        if self._layout is BARE and BARE.match(text, position, limit):
            return True
        raw = text[position : text.index(b"\n", position) + 1]
        return raw.startswith(TRACER) or _special(raw) is not None

    def _long(  # noqa: C901 - one reading ahead, in which each step depends on what the ones before it have found
        self, line: Match, text: bytes, limit: int, *, whole: bool, final: bool
    ) -> Record | None:
        """Read a record that isn't followed by another of its layout at once; None if the text must go on first."""
        start, body, end = line.start(), line.start(line.re.groups), line.end()
        site = line[line.re.groups - 1] or b""
        if not site and line[line.re.groups].removesuffix(b"\r") in STACKS:
            while end < limit and text.startswith(FRAME, end):
                end = text.index(b"\n", end) + 1
            if end == limit and not whole:
                return None
            return self._lines.record(line, text[body : end - 1], text[start:end])
        joined = 0  # where the first line ends that was joined although it looks like a record
        while end < limit and end - start < _LONGEST:
            if self._starts(text, end, limit):
                if self._reads(line, text[body : end - 1]):
                    break
                if not joined:
                    if (torn := self._torn(line, text, end)) > 0:
                        return self._lines.uncertain(line, text[body:torn], text[start:torn])
                    if self._broken.get(site, 0) >= _PATIENCE or not self._lines.opens(line, text[body : end - 1]):
                        break
                    joined = end
            end = text.index(b"\n", end) + 1
        # whether all that there is belongs to the record, so that more may
        open_end = end == limit and end - start < _LONGEST and not final
        if open_end and not whole:
            return None
        if not self._reads(line, text[body : end - 1]):
            if open_end and joined:
                return None
            if joined:
                self._broken[site] = self._broken.get(site, 0) + 1
                end = joined
            elif (torn := self._torn(line, text, end)) > 0:
                return self._lines.uncertain(line, text[body:torn], text[start:torn])
            elif open_end and self._lines.opens(line, text[body : end - 1]):
                return None
        return self._longest(line, text, body, end)

    def _reads(self, line: Match, rest: bytes) -> bool:
        return self._lines.record(line, rest, b"") is not None

    def _torn(self, line: Match, text: bytes, end: int) -> int:
        """Say where the kernel broke a record off for want of room; 0 if it didn't.

        It leaves out what doesn't fit, the newline too, so the next record follows on the same line: at the end of a
        buffer of one or two pages, or earlier where a long string would have come
        (fixtures/text/6.1/02_comms.trace: 4095 bytes).
        """
        start, body = line.start(), line.start(line.re.groups)
        match = self._layout.match
        for full in _FULL:
            for position in range(start + full - _PIECE, min(start + full, end) + 1):
                if match(text, position, end):
                    return position
        quote = text.find(b'"', body, end)
        for name in _NAME.finditer(text, body, end if quote < 0 else quote):
            if match(text, name.end(), end):
                return name.end()
        return 0

    def _longest(self, line: Match, text: bytes, body: int, end: int) -> Record:
        """Build a record of as many of the lines as can be read as one; if none can, of all of them."""
        start, first, last = line.start(), line.end(), end
        for _ in range(256):
            record = self._lines.record(line, text[body : last - 1], text[start:last])
            if record is not None:
                return record
            if last == first:
                break
            last = text.rindex(b"\n", first - 1, last - 1) + 1
        return self._lines.uncertain(line, text[body : end - 1], text[start:end])


def _special(raw: bytes) -> Record | None:
    if (lost := LOST.fullmatch(raw)) is not None:
        return Lost(int(lost[1]), int(lost[2]) if lost[2] else None, raw)
    if (started := BUFFER_STARTED.fullmatch(raw)) is not None:
        return BufferStarted(int(started[1]), raw)
    return None


def parse(data: bytes, formats: Formats | None = None) -> list[Record]:
    """Read a whole trace; see Parser."""
    parser = Parser(formats)
    return parser.feed(data) + parser.close()
