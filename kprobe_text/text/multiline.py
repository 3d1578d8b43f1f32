"""Records of several lines: lines of a stack, and lines in a string."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, TypeAlias

from kprobe_text.text.bare_strings import is_over, lines_taken, mark_lines
from kprobe_text.text.context import is_graph
from kprobe_text.text.forms.nameless import NAMELESS
from kprobe_text.text.forms.syscall import CALL, described
from kprobe_text.text.layout import (
    ANY,
    BARE,
    ENDS,
    FRAME,
    GRAPH,
    GRAPH_RULE,
    PAGE_END,
    PERF,
    PERF_FRAME,
    PIECE,
    REPORT_FRAME,
    REPORTS,
    TRACER,
    broken_off,
    special,
)
from kprobe_text.text.prefix import form_of
from kprobe_text.text.record_builder import RecordBuilder
from kprobe_text.text.records import Bare, BareMarker, Event, Marker, Record

# The kernel prints a record into a buffer of one page, since 6.8 of 8 KiB: nothing longer is one record. Other programs
# that print records have no such limit.
LONGEST: Final = 16384

# How many bytes fill that buffer.
FULL: Final = (4096, 8192)

# How many records of one event, and of all, may turn out to be broken off before the reader stops waiting for an end.
_PATIENCE: Final = 3
_PATIENCE_ALL: Final = 64

# How many bytes may be read again in search of a record's end among lines that look like records.
_AGAIN: Final = 16384

_TEXT: Final = frozenset({"text"})

Match = re.Match[bytes]
Layouts: TypeAlias = tuple[re.Pattern[bytes], ...]


class MultilineReader:
    """Reads records whose next line isn't a record of the same layout.

    Only a string holds a newline. A quoted string goes on to its closing quote; one without quotes goes on while
    arguments of its event follow, or if it is the last. A line that is a record by itself, in any layout, ends a record
    without an open quote.
    """

    __slots__ = ("_builder", "broken")

    def __init__(self, builder: RecordBuilder) -> None:
        self._builder = builder
        self.broken: dict[bytes, int] = {}
        """How many records of each event had a string without an end."""

    def foreign(self, text: bytes, position: int, limit: int, family: Layouts) -> re.Pattern[bytes] | None:
        """Give the layout outside a text's family in which a line is a record by itself; None if there is none.

        A text without context has no such layout, whatever a mark holds.
        """
        for layout in () if family in ((BARE,), ANY) else ANY:
            line = layout.match(text, position, limit)
            # bars alone make a line look like one of function_graph, so it must be readable, too
            if line is not None and (layout is not GRAPH or self._builder.record(line, line["rest"], line[0])):
                return layout
        return None

    def _starts(self, text: bytes, position: int, limit: int, layout: re.Pattern[bytes], family: Layouts) -> bool:
        """Return whether a line looks like the beginning of a record."""
        if any(member.match(text, position, limit) for member in family):
            return True
        if layout is BARE and BARE.match(text, position, limit):
            return True
        raw = text[position : text.index(b"\n", position) + 1]
        if layout is PERF and (raw in (b"\n", b"\r\n") or PERF_FRAME.fullmatch(raw)):
            return True
        if layout is GRAPH and raw.startswith(GRAPH_RULE):
            return True
        if raw.startswith(TRACER) or special(raw) is not None or PAGE_END.fullmatch(raw) is not None:
            return True
        if form_of(raw) is not None:  # a record that somebody quoted
            return True
        return self.foreign(text, position, limit, family) is not None

    def record(
        self, line: Match, text: bytes, limit: int, family: Layouts, *, whole: bool, final: bool
    ) -> Record | None:
        """Read the record that begins with a line; None if that takes more text.

        ``whole``: the text may end here for good; ``final``: it does. ``family`` are the layouts of its lines.
        """
        body, end = line.start("rest"), line.end()
        if self._builder.is_stack(line):
            if (last := self._last_frame(line, text, limit)) == limit and not whole:
                return None
            record = self._builder.record(line, text[body : last - 1], text[line.start() : last])
            if record is not None:  # else a mark in a function_graph begins like a stack
                return record
        has_quotes, is_mark, shown = self._kind(line)
        if has_quotes:
            return self._quoted(line, text, limit, family, whole=whole, final=final)
        rest = self._builder.without_ending(line["rest"]).removesuffix(b"\r")
        if not is_mark and is_over(shown, rest):
            return self._alone(line, text, end)
        ends = [end]
        while ends[-1] < limit and ends[-1] - line.start() < LONGEST:
            if self._starts(text, ends[-1], limit, line.re, family):
                break
            ends.append(text.index(b"\n", ends[-1]) + 1)
        if ends[-1] == limit and ends[-1] - line.start() < LONGEST and not whole:
            return None
        others = [self._builder.without_ending(text[start : end - 1]) for start, end in pairwise(ends)]
        taken = mark_lines(others) if is_mark else lines_taken(shown, rest, others)
        record = self._alone(line, text, ends[taken])
        if others and isinstance(record, (Marker, BareMarker)):
            return record._replace(guessed=_TEXT)
        return record

    def _last_frame(self, line: Match, text: bytes, limit: int) -> int:
        """Return where a stack's last frame ends; a task's name may look like the beginning of one."""
        end, frames = line.end(), REPORT_FRAME if line.re in REPORTS else FRAME
        while end < limit and text.startswith(frames, end) and line.re.match(text, end, limit) is None:
            end = text.index(b"\n", end) + 1
        return end

    def _kind(self, line: Match) -> tuple[bool, bool, Mapping[str, bool] | None]:
        """Say whether a line's strings have quotes, whether it is a mark, and otherwise what `lines_taken` needs."""
        name, rest = line["site"], line["rest"]
        if is_graph(line) or CALL.match((name or b"") + rest) is not None:
            return True, False, None
        if name is None or NAMELESS.match(name) is not None:
            return False, False, {}
        site = self._builder.site_of(line, name)
        if site.address is not None:
            return b'"' in rest or b"'" in rest, False, {}
        if site.mark or (line.re in REPORTS and site.name == "print"):
            return False, True, None
        if site.name.startswith("sys_e"):
            return False, b'"' in rest and described(site.name, rest) is None, {}
        return False, False, site.shown

    def _alone(self, line: Match, text: bytes, end: int) -> Record:
        """Read a record whose last line is known."""
        start, body = line.start(), line.start("rest")
        record = self._builder.record(line, text[body : end - 1], text[start:end])
        if record is not None:
            return record
        torn = self._torn(line, text, end) or end - 1
        return self._builder.uncertain(line, text[body:torn], text[start : torn if torn < end - 1 else end])

    def _quoted(  # noqa: C901 - one reading ahead, in which each step depends on what the ones before it have found
        self, line: Match, text: bytes, limit: int, family: Layouts, *, whole: bool, final: bool
    ) -> Record | None:
        """Read a record with quoted strings, which may end in a later line."""
        start, body, end = line.start(), line.start("rest"), line.end()
        site = line["site"] or b""
        first = self._builder.record(line, line["rest"], line[0])
        has_no_end = is_graph(line) or b"'" in line["rest"] or self._builder.opens(line, line["rest"])
        if first is None and not has_no_end:
            return self._alone(line, text, end)
        joined = again = 0  # where the first line ends that was joined although it looks like a record
        last = start
        while end < limit and end - start < LONGEST and again < _AGAIN:
            if self._starts(text, end, limit, line.re, family):
                if not joined or ENDS.match(text, last, end - 1 - (text[end - 2 : end - 1] == b"\r")):
                    again += end - body if joined else 0
                    record = (
                        self._builder.record(line, text[body : end - 1], text[start:end]) if end > line.end() else first
                    )
                    if record is not None:
                        return doubted(record, first)
                if not joined:
                    if (record := self._longest(line, text, end, first)) is not None:
                        return doubted(record, first)
                    if (torn := self._torn(line, text, end)) > 0:
                        return self._builder.uncertain(line, text[body:torn], text[start:torn])
                    if not self._is_patient(site) or not self._builder.opens(line, text[body : end - 1]):
                        break
                    joined = end
            last, end = end, text.index(b"\n", end) + 1
        # whether all the text belongs to the record, so that more may
        open_end = end == limit and end - start < LONGEST and again < _AGAIN and not final
        if open_end and not whole:
            return None
        record = self._builder.record(line, text[body : end - 1], text[start:end]) if end > line.end() else first
        if record is not None:
            return doubted(record, first)
        if open_end and joined:
            return None
        if joined:
            self.broken[site] = self.broken.get(site, 0) + 1
            end = joined
        elif (torn := self._torn(line, text, end)) > 0:
            return self._builder.uncertain(line, text[body:torn], text[start:torn])
        elif open_end and self._builder.opens(line, text[body : end - 1]):
            return None
        record = self._longest(line, text, end, first)
        if record is not None:
            return doubted(record, first)
        return self._builder.uncertain(line, text[body : end - 1], text[start:end])

    def _is_patient(self, site: bytes) -> bool:
        """Return whether to wait for the end of a string in a record of this event."""
        return self.broken.get(site, 0) < _PATIENCE and sum(self.broken.values()) < _PATIENCE_ALL

    def _torn(self, line: Match, text: bytes, end: int) -> int:
        """Return where the kernel broke a record off because it didn't fit; 0 if it didn't.

        What doesn't fit is left out, even the newline, so the next record follows on the same line: at the end of a
        buffer of one or two pages, or earlier where a long string would have followed
        (fixtures/text/6.1/02_comms.trace: 4095 bytes).
        """
        start, body = line.start(), line.start("rest")
        anywhere, named = broken_off(line.re)
        for full in FULL:
            if end - start >= full - PIECE and (piece := anywhere.match(text, start + full - PIECE, end)) is not None:
                return piece.end()
        name = named.match(text, body, end)
        return 0 if name is None else name.end()

    def _longest(self, line: Match, text: bytes, last: int, first: Record | None) -> Record | None:
        """Build a record of as many lines as can be read as one; ``first`` is the record of its first line."""
        body, start, end = line.start("rest"), line.start(), line.end()
        for _ in range(256):
            if last == end:
                return first
            record = self._builder.record(line, text[body : last - 1], text[start:last])
            if record is not None:
                return record
            last = text.rindex(b"\n", end - 1, last - 1) + 1
        return None


def doubted(record: Record, first: Record | None) -> Record:
    """Mark the strings of a record of several lines as guesses if its first line could be the whole record."""
    if first is None or not isinstance(record, (Event, Bare)) or len(record.raw) == len(first.raw):
        return record
    strings = (name for name, value in record.fields.items() if isinstance(value, (str, tuple)))
    return record._replace(guessed=record.guessed.union(strings))
