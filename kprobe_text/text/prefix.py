"""Prefixes of lines in a quoted trace: recognised by their form, taken off, and put back into ``raw``.

Logs, mail, grep and ts put something before each line; its numbers vary, its form doesn't. Only lines that aren't
records as they stand are searched, and a prefix must be followed by a record: so columns that are padded with blanks
aren't shortened. A text may have several prefixes (mail that quotes mail); lines without any are read as they are.
"""

import re
from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from kprobe_text.text.layout import (
    BARE,
    BUFFER_STARTED,
    GRAPH,
    GRAPH_RULE,
    HEX,
    LATENCY,
    LOOSE,
    LOST,
    PERF,
    RAW,
    REPORT,
    REPORT_HEADER,
    REPORT_LATENCY,
    REPORT_NAME,
    STANDARD,
    VERBOSE,
)
from kprobe_text.text.records import Record

# How many parts a form may have, how many forms a text, how long a prefix may be.
_PARTS: Final = 8
_FORMS: Final = 8
_LONGEST: Final = 256
# Without a newline for this long it is not a line (see parser).
_LONGEST_LINE: Final = 1 << 20

_BLANKS: Final = b" \t"


class _Part(NamedTuple):
    """A part of a prefix, without the blanks after it.

    ``blanks``: how many usually follow. ``after_time``: it counts only behind a date or time. ``is_vague``: a task's
    name may look like it, so only aligned columns may follow. ``others``: the pattern in other lines, if it is wider.
    """

    pattern: bytes
    blanks: int = 1
    after_time: bool = False
    is_time: bool = False
    is_vague: bool = False
    others: bytes = b""


_CLOCK: Final = rb"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE: Final = rb"(?: ?(?:Z|UTC|[A-Z]{3,4}(?= )|[+-]\d\d:?\d\d))?"
_DAY: Final = rb"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?"
_MONTH: Final = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

_ALL: Final = (
    # printk's level, of syslog(2) and of RFC 5424, which has its version after it
    _Part(rb"<\d{1,3}>(?:1 )?", blanks=0, is_time=True),
    # /dev/kmsg and netconsole
    _Part(rb"\d{1,3},\d{1,20},\d{1,20},[^;\n]{1,64};", blanks=0),
    # printk's time, the caller's task or CPU, and whatever other programs put in brackets
    _Part(rb"\[[^\[\]\n]{1,80}\]", is_time=True),
    _Part(_DAY + rb"\d{4}-\d\d-\d\d[T ]" + _CLOCK + _ZONE, is_time=True),
    _Part(_DAY + _MONTH + rb" {1,2}\d{1,2}(?:,? \d{4})? " + _CLOCK + rb"(?: \d{4})?" + _ZONE, is_time=True),
    # logcat's
    _Part(rb"\d\d-\d\d " + _CLOCK, is_time=True),
    _Part(_CLOCK, is_time=True),
    _Part(rb"\d{1,11}\.\d{3,9}", is_time=True),
    _Part(rb" {0,6}\d{1,7} {1,6}\d{1,7} [VDIWEFS] [^\n:]{0,64}:", after_time=True),
    _Part(rb"[VDIWEFS]/[^\n()]{1,64}\( {0,6}\d{1,7}\):"),
    # syslog's host and program, in its two forms; dmesg -x
    _Part(rb"[\w.-]{1,64} [\w./@()-]{1,64}(?:\[\d{1,10}\])?:", after_time=True),
    _Part(rb"[\w.-]{1,64} [\w./-]{1,64} [\d-]{1,10} [\w-]{1,32} (?:-|\[[^\]\n]{1,64}\])", after_time=True),
    _Part(rb"(?:[\w.-]{1,64} )?kernel:"),
    _Part(rb"[a-z]{3,8} {0,4}:[a-z]{3,8} {0,4}:"),
    _Part(rb"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b:?", after_time=True),
    # grep -n, grep -n of several files, grep of several files; cat -n, nl and editors; containers' logs
    _Part(rb"\d{1,9}[:-]", blanks=0),
    _Part(rb"[\w./~][^\s:|>]{0,160}:\d{1,9}:", blanks=0),
    _Part(rb"[.~]{0,2}/[^\s:|>]{0,160}:", blanks=0),
    _Part(rb"[\w./~][^\s:|>]{0,160}\.(?:txt|log|trace|out|md|html?):", blanks=0),
    _Part(rb"(?!tracing_mark_write)[\w./~][^\s:|>]{0,160}(?:[:-]\d{1,9})?[:-]", blanks=0, is_vague=True),
    _Part(rb"\d{1,9}(?=\t)", others=rb"\d{1,9}"),
    _Part(rb"\d{1,9}(?=  )", blanks=2, others=rb"\d{1,9}"),
    _Part(rb"\d{1,9}(?=[ \t])", is_vague=True, others=rb"\d{1,9}"),
    _Part(rb"[\w.@-]{1,64} {0,32}\|"),
    # mail, lists, comments, tables, patches
    _Part(rb"(?://|[>|#+])"),
    _Part(rb"[*;%!:-](?=[ \t])", others=rb"[*;%!:-]"),
    _Part(rb"[*;%!:-]", blanks=0, is_vague=True),
)
_COMPILED: Final = tuple((re.compile(part.pattern), part) for part in _ALL)

_HEADING: Final = (
    rb"# (?:tracer: |entries-in-buffer/|latency: \d| {8,16}TASK-PID|CPU {2,8}DURATION| {1,8}cmd {1,8}pid"
    rb"|\S+ latency trace v)"
)
_HEADER: Final = re.compile(_HEADING)
# What every record, header or note of a trace has: lines without it aren't searched.
_HINT: Final = re.compile(
    rb"\[\d{1,9}\] +(?:\S{1,16} +)?\d{1,20}(?:\.\d{6})?\d{0,3}: |[\d)] +\d{1,12}\.\d{6}(?:\d{3})?: "
    rb"|\dus[^\n]: |\d[^\s\d][^ \n]{2,12} +\d[\d.]*: |\] -?\d+(?:\.\d{3}ms)? \(\+|\|  |: \(\S+\+0x|type: \d"
    rb"|cpus=\d|version = |EVENTS|buffer started|tracing_mark|-{42}|" + _HEADING
)
# a task's name has 15 bytes at most, and the column of the pid five
_COLUMNS: Final = re.compile(rb" [^\n\t]{15}-[\d ]{6}")
_NOTES: Final = (REPORT_HEADER, LOST, BUFFER_STARTED)
_CALLED: Final = re.compile(rb"\(\)? \{|\);|\}|/\* ")
_PLACED: Final = re.compile(rb"[^\s:]+: \([^()\n]*\+0x[^()\n]*\)|tracing_mark_write[^\s:]*: ")


def _aligned(line: bytes, at: int) -> bool:
    """Say whether aligned columns, or a line of a header, begin at a position."""
    if _COLUMNS.match(line, at) is not None and STANDARD.match(line, at) is not None:
        return True
    if line[at + 8 : at + 9] == b"-" and any(layout.match(line, at) for layout in (LATENCY, REPORT_LATENCY)):
        return True
    if line[at : at + 1] == b" " and (script := PERF.match(line, at)) is not None and script.end("task") == at + 16:
        return True
    if line.startswith(GRAPH_RULE, at) and line[at + len(GRAPH_RULE) :].rstrip(b"\r\n") == b"":
        return True
    return _HEADER.match(line, at) is not None or any(note.fullmatch(line, at) for note in _NOTES)


def _counted(line: bytes, at: int) -> bool:
    """Say whether a record begins at a position whose first numbers could be parts of a prefix."""
    if VERBOSE.match(line, at) or RAW.fullmatch(line, at) or HEX.fullmatch(line, at):
        return True
    return GRAPH.match(line, at) is not None and _CALLED.search(line, at) is not None


def _named(line: bytes, at: int) -> bool:
    """Say whether a record begins at a position whose name could be the end of a prefix."""
    if PERF.match(line, at) or LOOSE.match(line, at):
        return True
    return BARE.match(line, at) is not None and _PLACED.match(line, at) is not None


class Form(NamedTuple):
    """The form of a prefix.  ``parts``: how many it has besides blanks."""

    pattern: bytes
    parts: int

    def length(self, line: bytes) -> int:
        """Return the length of a line's prefix; 0 if it has none, or only blanks that align the line."""
        found = _pattern(self.pattern).match(line)
        if found is None or found.end() == len(line) or (not self.parts and _aligned(line, 0)):
            return 0
        return found.end()


@cache
def _pattern(form: bytes) -> re.Pattern[bytes]:
    return re.compile(form)


class _Split(NamedTuple):
    """Where a prefix may end: behind its parts, of which there are ``parts``, and ``usual`` blanks."""

    pattern: bytes
    parts: int
    at: int
    blanks: int
    usual: int
    is_vague: bool

    def form(self, line: bytes, end: int) -> Form:
        """Give the form of a prefix that ends there; in an empty line the blanks at its end may be missing."""
        blanks = line[self.at : end]
        last = rb"(?:" + re.escape(blanks) + rb"|[ \t]*(?=\r?\n))" if blanks else b""
        return Form(self.pattern + last, self.parts)


def _splits(line: bytes) -> Iterator[_Split]:
    """Yield the places at which a prefix may end."""
    pattern, at, is_time, is_vague, usual = b"", 0, False, False, 0
    for count in range(_PARTS + 1):
        blanks = _blanks(line, at)
        yield _Split(pattern, count, at, blanks, min(usual, blanks), is_vague)
        at += blanks
        found = ((part, match) for match, part in _matches(line, at) if is_time or not part.after_time)
        part, match = next(found, (None, None))
        if part is None or match is None or at > _LONGEST:
            return
        pattern += (rb"[ \t]{0,32}" if blanks or count else b"") + (part.others or part.pattern)
        at, usual = match.end(), part.blanks
        is_time, is_vague = is_time or part.is_time, is_vague or part.is_vague


def _matches(line: bytes, at: int) -> Iterator[tuple[re.Match[bytes], _Part]]:
    for compiled, part in _COMPILED:
        if (match := compiled.match(line, at)) is not None:
            yield match, part


def form_of(line: bytes) -> Form | None:
    """Give the form of the prefix before a record; None if the line is a record as it is, or holds none."""
    if _HINT.search(line, 0, 2 * _LONGEST) is None or _aligned(line, 0) or _counted(line, 0):
        return None
    is_named = (report := REPORT.match(line)) is not None and _is_padded(report)
    indent = _indent(line)
    found = Form(re.escape(line[:indent]), 0) if indent else None
    for split in _splits(line):
        for end in range(split.at + (not split.parts), split.at + split.blanks + 1):
            if _aligned(line, end):
                # or trace-cmd's columns, after the name of an instance
                return None if is_named and (not split.parts or split.is_vague) else split.form(line, end)
        if split.parts and not split.is_vague:
            end = split.at + split.usual
            if found is None and _counted(line, end):
                return split.form(line, end)
            if _named(line, end):
                found = split.form(line, end)  # the longest is right
    return found


def _is_padded(report: re.Match[bytes]) -> bool:
    """Say whether the name of the event is padded to trace-cmd's width."""
    if report["site"] is None:
        return False
    name, _, rest = (report["site"] + report["rest"]).partition(b":")
    blanks = len(rest) - len(rest.lstrip(b" "))
    return blanks > 1 and len(name) + 1 + blanks >= REPORT_NAME


def _blanks(line: bytes, at: int) -> int:
    end = at
    while end < len(line) and end - at < _LONGEST and line[end] in _BLANKS:
        end += 1
    return end - at


def _indent(line: bytes) -> int:
    """Say how far a line of perf script is indented: its first column has 16 characters, or no blanks."""
    found = PERF.match(line)
    if found is None:
        return 0
    end = found.end("task")
    return max(0, end - 16) if end >= 16 else found.start("task")


class Prefixes:
    """Takes the prefixes off the lines of a text, once it knows their form, and puts them back into the records.

    ``tail``: text that is held back, as it has no newline.  ``is_new``: there is a new form, so call `again`.
    """

    __slots__ = ("_forms", "_heads", "_tries", "is_new", "tail")

    def __init__(self) -> None:
        self._forms: tuple[Form, ...] = ()
        self._heads: deque[tuple[int, bytes]] = deque()  # of each line that no record has yet: its length, its prefix
        self._tries = 0
        self.tail = b""
        self.is_new = False

    def __bool__(self) -> bool:
        return bool(self._forms)

    def find(self, line: bytes) -> bool:
        """Say whether the next line, which isn't a record as it stands, has a prefix."""
        self.is_new = self._tries < _FORMS and form_of(line) is not None
        return self.is_new

    def again(self, text: bytes) -> bytes:
        """Take the text again, as it stood, from the line with the new prefix on."""
        self.is_new = False
        self._tries += 1
        form = form_of(text[: text.find(b"\n") + 1])
        if form is not None and form not in self._forms:
            self._forms = tuple(sorted((*self._forms, form), key=lambda form: -form.parts))
        return self.take(text)

    def take(self, data: bytes) -> bytes:
        """Take more text; return its whole lines without their prefixes."""
        if not self._forms:
            return data
        lines = (self.tail + data).split(b"\n")
        self.tail = lines.pop()
        taken = [self._line(line + b"\n") for line in lines]
        if len(self.tail) >= _LONGEST_LINE:
            self._heads.append((len(self.tail), b""))
            taken.append(self.tail)
            self.tail = b""
        return b"".join(taken)

    def _line(self, line: bytes) -> bytes:
        length = next((length for form in self._forms if (length := form.length(line))), 0)
        self._heads.append((len(line) - length, line[:length]))
        return line[length:]

    def take_back(self, text: bytes) -> bytes:
        """Give back text without a record as it stood, and forget it."""
        parts, at = [], 0
        for length, prefix in self._heads:
            parts += [prefix, text[at : at + length]]
            at += length
        tail, self.tail = self.tail, b""
        self._heads.clear()
        return b"".join((*parts, text[at:], tail))

    def whole(self, records: list[Record]) -> list[Record]:
        """Give records their text as it stood."""
        return [record._replace(raw=self._whole(record.raw)) for record in records] if self._heads else records

    def _whole(self, raw: bytes) -> bytes:
        parts, at = [], 0
        while at < len(raw):
            length, prefix = self._heads.popleft()
            end = at + length
            if end > len(raw):
                self._heads.appendleft((end - len(raw), b""))
            parts += [prefix, raw[at:end]]
            at = end
        return b"".join(parts)


def unquoted(text: bytes) -> bytes:
    """Take off the prefixes of a few lines, if the first has one."""
    line = text[: text.find(b"\n") + 1] or text + b"\n"
    if (form := form_of(line)) is None:
        return text
    return b"".join(line[form.length(line) :] for line in text.splitlines(keepends=True))
