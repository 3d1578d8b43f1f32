"""The text of a trace, in chunks of any size -> records: the kind and layout of each line, and where records end."""

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from kprobe_text.text.bare_strings import is_foreign
from kprobe_text.text.code_address import scripted_frame
from kprobe_text.text.descriptions import Formats
from kprobe_text.text.fast_path import FastPath
from kprobe_text.text.forms.graph import switch
from kprobe_text.text.layout import (
    ANY,
    BARE,
    GRAPH,
    LOOSE,
    NAME,
    NAMED,
    PERF,
    PERF_FRAME,
    RAW_MARK,
    RAW_TEXT,
    REPORT,
    REPORT_HEADER,
    SCRIPTED,
    STANDARD,
    TRACEFS,
    TRACER,
    coded,
    family,
    preferred,
    reported,
    special,
    titled,
)
from kprobe_text.text.multiline import FULL, LONGEST, Match, MultilineReader
from kprobe_text.text.prefix import Prefixes, form_of
from kprobe_text.text.record_builder import Learned, RecordBuilder
from kprobe_text.text.records import Event, Header, Record, StackTrace, Unparsed, unfinished

# Input without a newline for this long isn't text; it is passed on in pieces instead of being gathered.
_LONGEST_LINE: Final = 1 << 20


class Phase(Enum):
    """How much of a trace has been read; a text can hold several traces, each of which begins with a header."""

    START = "nothing, or lines of a header that has lost its first"
    HEADER = "the first line of a header"
    CODED = "records as the options raw and hex print them"
    LINES = "other lines"
    MIXED = "other lines after coded records"


_BEFORE_RECORDS: Final = (Phase.START, Phase.HEADER)
_HAS_CODED: Final = (Phase.CODED, Phase.MIXED)


class State(NamedTuple):
    """A parser's knowledge in the middle of a text in the standard layout; it can be compared and sent elsewhere.

    ``broken`` counts the records of each event that had a string without an end.
    """

    phase: Phase
    broken: tuple[tuple[bytes, int], ...]
    learned: Learned


class Parser:
    """Turns the text of ``trace`` or ``trace_pipe`` into records; drops nothing and raises nothing, whatever the text.

    ``formats`` gives the text of an event's format file by its name (a mapping, or a function that returns None where
    there is none), and is asked once for each name: with a format, arguments have their types and strings are exact.
    ``definitions`` are lines of kprobe_events, as read from it or written to it, for events without a format. They say
    the same, except the base of unsigned numbers up to 4.19, which other arguments may show.

    A string can hold a newline, so a record with a string may go on in the next line: the last one is held back until
    more text comes or ``close`` is called. With ``live``, text that ends with a newline ends with a record, as what one
    read(2) of trace_pipe returns does: then nothing complete is held back. Without it the records don't depend on how
    the text was cut (except lines of over 1 MiB).

    Lines that don't look like a new record are joined to a string that has a newline; if the string has no end, up to
    16 KiB of other lines are, too. So to forge a record, a program must also imitate the end of its own record: that
    text is the same as that of two records. Both are read, and are ``forgeable``, as is every record that begins within
    the length of a record after one with a string, or after one that doesn't fit what is known of its event. A seal
    prevents that: a number of 28 bits or more in the definition, behind the last string, that nobody else knows
    (``seal=\\0x5eed1e55:x64``), if the record holds it once. So does ``settled``: the caller has counted the records,
    and there are as many as the kernel says.

    The prefix of each line of a quoted trace is removed, and put back into ``raw`` (see prefix).
    """

    __slots__ = (
        "_buffer", "_builder", "_counted", "_family", "_has_context", "_last", "_layout", "_live", "_multiline",
        "_phase", "_prefixes", "_scanned", "fast_path",
    )  # fmt: skip

    def __init__(
        self,
        formats: Formats | None = None,
        *,
        definitions: Iterable[str] = (),
        live: bool = False,
        settled: bool = False,
    ) -> None:
        self._builder = RecordBuilder(formats, definitions, is_settled=settled)
        self._multiline = MultilineReader(self._builder)
        self.fast_path = FastPath(self._builder, FULL[-1])
        self._live = live
        self._counted = settled
        self._begin()

    def _begin(self) -> None:
        self._buffer = b""
        self._layout: re.Pattern[bytes] = STANDARD
        self._family: tuple[re.Pattern[bytes], ...] = ANY
        self._last: Record | None = None  # the event that a stack of perf script belongs to
        self._builder.begin()
        self._phase = Phase.START
        self._has_context = False  # a record had context, so none comes without
        self._scanned = 0  # this much of the buffer has no newline
        self._prefixes = Prefixes()
        self.fast_path.reach = 0

    def feed(self, data: bytes) -> list[Record]:
        """Take more text; return the records that are complete."""
        self._buffer += self._prefixes.take(data)
        newline = self._buffer.rfind(b"\n", self._scanned)
        if newline < 0 and len(self._buffer) < _LONGEST_LINE:
            self._scanned = len(self._buffer)
            return []
        return self._records(final=False)

    def close(self) -> list[Record]:
        """Return what was held back; a last line without a newline is incomplete. The parser can be used anew."""
        is_whole = self._buffer[-1:] in (b"", b"\n") and not self._prefixes.tail
        self._buffer += b"" if is_whole else self._prefixes.take(b"\n")
        records = self._records(final=True)
        if not is_whole:
            records[-1] = unfinished(records[-1])
        self._begin()
        return records

    def take_back(self) -> bytes:
        """Give back the text that no record was made of yet, as if it had not been fed."""
        text, self._buffer, self._scanned = self._buffer, b"", 0
        return self._prefixes.take_back(text)

    @property
    def state(self) -> State | None:
        """What was learned of the text so far, if that is enough to read on; else None."""
        if not self.is_usual or self._buffer:
            return None
        return State(self._phase, tuple(sorted(self._multiline.broken.items())), self._builder.learned)

    def resume(self, state: State) -> None:
        """Go on where another parser of the same text had this state."""
        self._begin()
        self._phase, self._builder.learned, self._multiline.broken = state.phase, state.learned, dict(state.broken)
        self._family, self._has_context = family(STANDARD), True

    @property
    def is_usual(self) -> bool:
        """Whether the text is in the standard layout, so that a probe's line followed by another is a record."""
        return self._is_plain and not self._prefixes

    @property
    def _is_plain(self) -> bool:
        return self._has_context and self._layout is STANDARD and not self._builder.ending

    @property
    def is_decimal(self) -> bool:
        """Whether numbers without ``0x`` are known to be decimal, whatever the width of the columns."""
        return self._builder.is_decimal

    def _records(self, *, final: bool) -> list[Record]:
        """Read the available text, and reread lines with prefixes of a form that was unknown before."""
        records = self._prefixes.whole(self._read(final=final))
        while self._prefixes.is_new:
            self._buffer, self._family, self._has_context = self._prefixes.again(self.take_back()), ANY, False
            records += self._prefixes.whole(self._read(final=final))
        return records

    def _read(self, *, final: bool) -> list[Record]:
        text = self._buffer
        limit = text.rfind(b"\n") + 1
        # whether the text may end here for good: then no record waits for more
        whole = final or (self._live and limit == len(text) and not self._prefixes.tail)
        records: list[Record] = []
        position = 0
        self.fast_path.begin()
        while position < limit:
            if self._is_plain:
                position = self.fast_path.read(text, position, limit, records)
            if not whole and self._is_short(text, position, limit):
                break
            line = self._layout.match(text, position, limit)
            if line is None or (not self._has_context and self._is_another(line)):
                start = position
                position, record = self._other(text, position, limit, whole)
                if record is not None:
                    records.append(self._marked(text, start, record))
                    self._doubt(position, record)
                elif position < 0:
                    position = -position - 1
                    break
                continue
            record = self._record(line, text, limit, whole=whole, final=final)
            if record is None:
                break
            if self._builder.imitates(line, record):
                self._reach_from(position + len(record.raw))
            record = self._marked(text, position, record)
            records.append(record)
            self._last = record
            self._settle()
            position += len(record.raw)
        self._keep(text, position, limit, records)
        return records

    def _record(self, line: Match, text: bytes, limit: int, *, whole: bool, final: bool) -> Record | None:
        """Read the record that begins with a line; None if the text must go on first."""
        if self._layout.match(text, line.end(), limit) is not None:
            record = self._builder.record(line, line["rest"], line[0])
            if record is not None:
                return record
        return self._multiline.record(line, text, limit, self._family, whole=whole, final=final)

    def _is_short(self, text: bytes, position: int, limit: int) -> bool:
        """Return whether this may be the beginning of a task's name, in an incomplete line."""
        return text.find(b"\n", position + NAME, limit) < 0 and len(text) - position < _LONGEST_LINE

    def _doubt(self, end: int, record: Record) -> None:
        """Note that a line that isn't understood may be the visible part of a mark."""
        if not isinstance(record, Unparsed) or self._counted:
            return
        if RAW_MARK.search(record.raw) is not None or not is_foreign(record.raw):
            self._reach_from(end)

    def _reach_from(self, end: int) -> None:
        """Note that a string of a record, or of one that began within it, may go on behind its end."""
        self.fast_path.reach = end + (FULL[-1] if self._layout in TRACEFS else LONGEST)

    def _marked(self, text: bytes, position: int, record: Record) -> Record:
        """Mark a record that may be part of an earlier record's string, or of a task's name."""
        if isinstance(record, (Header, Unparsed)):
            return record
        is_named = getattr(record, "task", None) is None and NAMED.match(text, position) is not None
        return record._replace(forgeable=True) if is_named or position < self.fast_path.reach else record

    def _keep(self, text: bytes, position: int, limit: int, records: list[Record]) -> None:
        """Keep the unread input, unless it isn't text."""
        if position >= limit:
            while len(text) - position >= _LONGEST_LINE:
                records.append(Unparsed(text[position : position + _LONGEST_LINE]))
                position += _LONGEST_LINE
        self._buffer = text[position:]
        self.fast_path.reach = max(0, self.fast_path.reach - position)
        self._scanned = max(0, limit - position)

    def _other(self, text: bytes, position: int, limit: int, whole: bool) -> tuple[int, Record | None]:
        """Read a line that isn't in the layout of the lines before it.

        Returns where it ends, and its record. Without a record: the same position if the layout has changed, or
        -position - 1 if more text is needed to understand the line.
        """
        end = text.index(b"\n", position) + 1
        raw = text[position:end]
        if (found := special(raw)) is not None:
            return end, found
        title = titled(text, position, end, limit)
        if title.startswith(TRACER):
            self._phase, self._has_context, self._family = Phase.HEADER, False, ANY
            self._builder.begin()
        if self._is_quoted(raw):
            return -position - 1, None
        if self._phase in _BEFORE_RECORDS and title:
            self._layout = preferred(raw) or self._layout
            if REPORT_HEADER.fullmatch(title) is not None:
                self._layout, self._family = REPORT, family(REPORT)
            self._builder.has_crlf = raw.endswith(b"\r\n")  # as no kernel prints it
            self._builder.ending = SCRIPTED if raw.endswith(SCRIPTED + b"\n") else b""
            return position + len(title), Header(title)
        if (layout := self._another(text, position, limit)) is not None:
            self._layout = layout
            return position, None
        if self._layout in (GRAPH, PERF) and (more := self._around(text, position, limit, whole)) is not None:
            return more
        may_be_coded = self._phase in _BEFORE_RECORDS or self._phase is Phase.CODED
        if may_be_coded and (read := coded(text, position, end, limit, whole)) is not None:
            self._phase = self._phase if read[1] is None else Phase.CODED
            return read
        if self._phase in _BEFORE_RECORDS:  # later lines of a mark have no number, and change nothing
            self._phase = Phase.LINES if RAW_TEXT.fullmatch(raw) is None else Phase.CODED
        return end, Unparsed(raw)

    def _another(self, text: bytes, position: int, limit: int) -> re.Pattern[bytes] | None:
        """Give the layout of a line that isn't in the layout of the lines before it; None if it has none."""
        for layout in self._family if self._has_context else (*self._family, BARE):
            if layout is not self._layout and layout.match(text, position, limit):
                return layout
        return self._multiline.foreign(text, position, limit, self._family)

    def _settle(self) -> None:
        """Note that there was a record: what follows is in a layout of the same family."""
        is_first = self._phase is Phase.HEADER
        self._phase = Phase.MIXED if self._phase in _HAS_CODED else Phase.LINES
        if not self._has_context and (self._layout is not BARE or is_first):
            self._has_context = self._layout is not LOOSE
            self._family = family(self._layout)

    def _is_quoted(self, raw: bytes) -> bool:
        """Say whether the line has a prefix; records without name and columns are not searched for one."""
        is_plain = self._phase in _HAS_CODED or (self._layout is PERF and raw[:1] == b"\t")
        return not is_plain and self._prefixes.find(raw)

    def _is_another(self, line: Match) -> bool:
        """Say whether a first line in the standard layout is trace-cmd's, which pads names, or has a prefix."""
        is_first = self._layout is STANDARD and self._family is ANY
        if not is_first or b"\n" in line["columns"]:  # a prefix stands on one line
            return False
        is_reported = reported(line) and REPORT.match(line.string, line.start(), line.end()) is not None
        return is_reported or form_of(line[0]) is not None

    def _around(self, text: bytes, position: int, limit: int, whole: bool) -> tuple[int, Record | None] | None:
        """Read lines that aren't records themselves: another task in a function_graph, a stack of perf script."""
        wait = -position - 1, None
        if self._layout is GRAPH:
            found = switch(text, position, limit)
            if isinstance(found, int):
                return None if whole else wait
            return None if found is None else (position + len(found.raw), found)
        end = position
        frames = []
        while end < limit and (line := PERF_FRAME.match(text, end, limit)) is not None:
            shown = line[2].removesuffix(b"\r").decode("utf-8", "surrogateescape")
            frames.append(scripted_frame(line[1].decode(), shown))
            end = line.end()
        if end == limit and not whole:
            return wait
        if text.startswith((b"\n", b"\r\n"), end) and end < limit:
            end = text.index(b"\n", end) + 1
        event = self._last
        if end == position or not isinstance(event, Event):
            return None
        raw = text[position:end]
        return end, StackTrace(
            event.task, event.pid, event.cpu, event.flags, event.timestamp, tuple(frames), False, event.tgid,
            event.clock, raw,
        )  # fmt: skip
