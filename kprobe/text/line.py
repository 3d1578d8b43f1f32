"""One record's text -> the record, with tables for what repeats from line to line."""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from kprobe.text.arguments import Arguments, arguments_of, decode
from kprobe.text.format import parse_format
from kprobe.text.layout import BARE, FRAME, LATENCY, STACKS, STANDARD, STANDARD_CONTEXT, VERBOSE
from kprobe.text.place import find_place, frame
from kprobe.text.records import (
    NONE,
    Bare,
    Clock,
    CodeAddress,
    Event,
    Function,
    Marker,
    RawMarker,
    Record,
    StackTrace,
    Unnamed,
    Unparsed,
    Value,
)
from kprobe.text.tokens import pairs, probe_arguments

Formats: TypeAlias = Mapping[str, str | bytes] | Callable[[str], str | bytes | None]

MARKER_NAME: Final = b"tracing_mark_write"

# A hostile trace could make each line new; no table grows beyond this many rows.
_ROWS = 8192

_NAME = re.compile(rb"([^\s:]+): (?:\(([^()\n]*)\))?")
_FUNCTION = re.compile(rb"(\S+(?: \[[^\]\s]+\])?(?: <[0-9a-f]+>)?) <-(\S+(?: \[[^\]\s]+\])?(?: <[0-9a-f]+>)?)")
_UNKNOWN = re.compile(rb"Unknown type (\d{1,9})")
_RAW_MARKER = re.compile(rb"# ([0-9a-f]{1,8}) buf:((?: [0-9a-f]{2})*)")

_new = tuple.__new__

K = TypeVar("K")
V = TypeVar("V")

Context: TypeAlias = tuple[str, int, int | None, int, str, int, Clock]


class Site(NamedTuple):
    """What ``name: (place)`` says: constant for each probe, and known from the first line on."""

    name: str
    address: CodeAddress | None
    caller: CodeAddress | None
    arguments: Arguments | None
    texts: frozenset[str]
    signed: frozenset[str]
    mark: bool


class Lines:
    """Builds records; knows the formats and remembers the parts that repeat."""

    __slots__ = ("_contexts", "_formats", "_frames", "_known", "_seconds", "_sites")

    def __init__(self, formats: Formats | None) -> None:
        self._formats = formats
        self._known: dict[str, tuple[Arguments | None, frozenset[str], frozenset[str]]] = {}
        self._contexts: dict[bytes, tuple[str, int, int | None, int, str]] = {}
        self._seconds: dict[bytes, int] = {}
        self._sites: dict[bytes, Site] = {}
        self._frames: dict[bytes, CodeAddress] = {}

    def record(self, line: re.Match[bytes], rest: bytes, raw: bytes) -> Record | None:
        """Build the record of a matched line; ``rest`` is what follows its site, over all lines of the record.

        None if the event's arguments can't be read to the end.
        """
        text = line[line.re.groups - 1]
        if text is None:
            return self._without_name(line, rest, raw)
        site = self._sites.get(text) or self._site(text)
        if site.address is None:
            return self.uncertain(line, rest, raw)
        if site.arguments is not None:
            fields = site.arguments.read(rest)
            return None if fields is None else self._event(line, site, fields, raw, True, site.arguments.guessed(rest))
        fields, guessed, complete, whole, _ = probe_arguments(rest, decimal=_decimal(line))
        return self._event(line, site, fields, raw, complete, guessed) if whole else None

    def standard(self, line: re.Match[bytes]) -> Record | None:
        """Do what ``record`` does, for one line in the usual layout: this decides how fast a trace is read."""
        context, seconds, fraction, count, text, rest = line.groups()
        if text is None or count is not None:
            return self.record(line, rest, line[0])
        name, address, caller, arguments, _, _, _ = self._sites.get(text) or self._site(text)
        if address is None:
            return self.uncertain(line, rest, line[0])
        if arguments is not None:
            fields = arguments.read(rest)
            if fields is None:
                return None
            complete, guessed = True, NONE
            for end in arguments.ends:
                if rest.count(end) > 1:
                    guessed = arguments.guessed(rest)
                    break
        else:
            decimal = context[23] == 32 and context[25] in b"[("  # as _decimal has it
            fields, guessed, complete, whole, _ = probe_arguments(rest, decimal=decimal)
            if not whole:
                return None
        task, pid, tgid, cpu, flags = self._contexts.get(context) or self._standard_context(context)
        stamp = (self._seconds.get(seconds) or self._second(seconds)) + int(fraction) * 1000
        # what Event(…) does, at less than half the cost
        return _new(
            Event,
            (task, pid, cpu, flags, stamp, name, address, caller, fields, tgid, "time", line[0], complete, guessed),
        )

    def uncertain(self, line: re.Match[bytes], rest: bytes, raw: bytes) -> Record:
        """Build the record of a line whose arguments aren't a probe's, or are broken: as far as they can be read."""
        cells = line.groups()
        if cells[-2] is None:
            return self._without_name(line, rest, raw)
        site = self._sites.get(cells[-2]) or self._site(cells[-2])
        if site.address is not None:
            if site.arguments is None:
                fields, guessed, *_ = probe_arguments(rest, decimal=_decimal(line))
                return self._event(line, site, fields, raw, False, guessed)
            # a record that lost nothing but its newline
            if (record := self.record(line, rest, raw)) is not None:
                return record
            fields, guessed = site.arguments.partly(rest)
            return self._event(line, site, fields, raw, False, guessed)
        if site.mark and line.re is not BARE:
            task, pid, tgid, cpu, flags, stamp, clock = self._context(line)
            text = decode(cells[-2][len(MARKER_NAME) + 2 :] + rest)
            return Marker(task, pid, cpu, flags, stamp, text, tgid, clock, raw)
        fields, complete = pairs(cells[-2].partition(b": ")[2] + rest, site.texts, site.signed)
        # option fields prints the place as two fields more
        address, caller = fields.pop("__probe_ip", None), None
        if address is None and "__probe_func" in fields:
            address, caller = fields.pop("__probe_func"), fields.pop("__probe_ret_ip", None)
        site = site._replace(address=_numbered(address), caller=_numbered(caller))
        return self._event(line, site, fields, raw, complete, frozenset(fields))

    def opens(self, line: re.Match[bytes], rest: bytes) -> bool:
        """Say whether a record that can't be read may go on in the next line, within a string."""
        site = line[line.re.groups - 1]
        if site is None:
            return False
        known = self._sites.get(site) or self._site(site)
        if known.address is None:
            return False
        return known.arguments.opens(rest) if known.arguments is not None else probe_arguments(rest)[4]

    def _site(self, text: bytes) -> Site:
        """Read ``name: (place)``."""
        parts = _NAME.fullmatch(text)
        assert parts is not None
        name = decode(parts[1])
        arguments, texts, signed = self._format(name)
        address: CodeAddress | None = None
        caller: CodeAddress | None = None
        if parts[2] is not None:
            # a return probe prints (where it returns to <- the function)
            first, arrow, second = decode(parts[2]).partition(" <- ")
            address = find_place(first)
            if arrow and address is not None:
                caller, address = address, find_place(second)
                caller = caller if address is not None else None
        site = Site(name, address, caller, arguments, texts, signed, parts[1] == MARKER_NAME)
        _row(self._sites, text, site)
        return site

    def _format(self, name: str) -> tuple[Arguments | None, frozenset[str], frozenset[str]]:
        if (known := self._known.get(name)) is not None:
            return known
        text = None
        if self._formats is not None:
            text = self._formats(name) if callable(self._formats) else self._formats.get(name)
        known = (None, frozenset[str](), frozenset[str]())
        if text is not None:
            try:
                form = parse_format(text)
            except ValueError:
                pass  # a trace is read as well as it can be; a format that isn't one is no format
            else:
                texts = frozenset(
                    field.name for field in form.fields if "char" in field.type and field.length is not None
                )
                signed = frozenset(field.name for field in form.fields if field.signed)
                known = (arguments_of(form.print_fmt), texts, signed)
        _row(self._known, name, known)
        return known

    def _event(
        self,
        line: re.Match[bytes],
        site: Site,
        fields: dict[str, Value],
        raw: bytes,
        complete: bool,
        guessed: frozenset[str],
    ) -> Record:
        name, address, caller = site.name, site.address, site.caller
        if line.re is BARE:
            return Bare(name, address, caller, fields, raw, complete, guessed)
        task, pid, tgid, cpu, flags, stamp, clock = self._context(line)
        return Event(task, pid, cpu, flags, stamp, name, address, caller, fields, tgid, clock, raw, complete, guessed)

    def _without_name(self, line: re.Match[bytes], rest: bytes, raw: bytes) -> Record:
        task, pid, tgid, cpu, flags, stamp, clock = self._context(line)
        rest = rest.removesuffix(b"\r")
        first, _, more = rest.partition(b"\n")
        first = first.removesuffix(b"\r")
        if first in STACKS:
            lines = more.split(b"\n") if more else []
            frames = tuple(self._frames.get(text) or self._frame(text) for text in lines)
            return StackTrace(task, pid, cpu, flags, stamp, frames, first == b"<user stack trace>", tgid, clock, raw)
        if (call := _FUNCTION.fullmatch(rest)) is not None:
            function, parent = frame(decode(call[1])), frame(decode(call[2]))
            return Function(task, pid, cpu, flags, stamp, function, parent, tgid, clock, raw)
        if (unknown := _UNKNOWN.fullmatch(rest)) is not None:
            return Unnamed(task, pid, cpu, flags, stamp, int(unknown[1]), tgid, clock, raw)
        if (mark := _RAW_MARKER.fullmatch(rest)) is not None:
            data = bytes.fromhex(mark[2].decode())
            return RawMarker(task, pid, cpu, flags, stamp, int(mark[1], 16), data, tgid, clock, raw)
        return Unparsed(raw)

    def _context(self, line: re.Match[bytes]) -> Context:
        if line.re is STANDARD:
            task, pid, tgid, cpu, flags = self._contexts.get(line[1]) or self._standard_context(line[1])
            if line[4] is not None:
                return task, pid, tgid, cpu, flags, int(line[4]), "count"
            return task, pid, tgid, cpu, flags, self._second(line[2]) + int(line[3]) * 1000, "time"
        if line.re is VERBOSE:
            task = decode(line[1][:16].lstrip(b" "))
            time = int(line[4], 16)
            if line[5] is None:
                return task, int(line[1][16:]), None, int(line[2]), decode(line[3]), time, "count"
            return task, int(line[1][16:]), None, int(line[2]), decode(line[3]), time * 1000, "time"
        task, pid = decode(line[1][:8].lstrip(b" ")), _digits(line[1][9:])
        if line[5] is None:
            return task, pid, None, int(line[2]), decode(line[3]), int(line[4]), "elapsed count"
        return task, pid, None, int(line[2]), decode(line[3]), int(line[4]) * 1000, "elapsed"

    def _standard_context(self, text: bytes) -> tuple[str, int, int | None, int, str]:
        parts = STANDARD_CONTEXT.fullmatch(text)
        assert parts is not None
        comm, pid, tgid, cpu, flags = parts.groups()
        leader = None if tgid is None else _tgid(tgid)
        return _row(self._contexts, text, (decode(comm.lstrip(b" ")), int(pid), leader, int(cpu), decode(flags or b"")))

    def _second(self, text: bytes) -> int:
        return _row(self._seconds, text, int(text) * 1_000_000_000)

    def _frame(self, text: bytes) -> CodeAddress:
        return _row(self._frames, text, frame(decode(text[len(FRAME) :].rstrip(b" \r"))))


def _row(table: dict[K, V], key: K, value: V) -> V:
    if len(table) >= _ROWS:
        table.clear()
    table[key] = value
    return value


def _decimal(line: re.Match[bytes]) -> bool:
    """Say whether the column of the pid has the width that only kernels have which print no hexadecimal without 0x.

    It was 5 up to 4.19 and is 7 at 5.10 (fixtures/text); a pid of 7 digits fills either.
    """
    if line.re is STANDARD:
        return line[1][23:24] == b" " and line[1][25:26] in (b"[", b"(")
    # here the CPU's number follows, 3 wide
    return line.re is LATENCY and line[1][15:16] == b" " and line.end(2) - line.start() >= 20


def _digits(text: bytes) -> int:
    return int(text.partition(b" ")[0])


def _tgid(text: bytes) -> int | None:
    digits = text.strip(b" ")
    return int(digits) if digits.isdigit() else None


def _numbered(value: "Value | None") -> CodeAddress | None:
    return CodeAddress("", None, None, "", value, hex(value)) if isinstance(value, int) else None
