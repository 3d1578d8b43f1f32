"""The plain way to read: the text of one record -> the record, with caches for what repeats from line to line.

It reads every kind of line; `fast_path` does the same for runs of ordinary probe lines.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from kprobe_text.text.argument_guesses import ArgumentGuesser, Reading
from kprobe_text.text.arguments import Arguments, decode
from kprobe_text.text.code_address import code_address, frame, pop_code_address, reported_frame, scripted_frame
from kprobe_text.text.context import Columns, Context, Contexts, decimal, has_wide_pids, is_graph, keep
from kprobe_text.text.descriptions import Definition, Descriptions, Formats, Room, Site
from kprobe_text.text.forms.graph import call
from kprobe_text.text.forms.nameless import NAMELESS, nameless
from kprobe_text.text.forms.syscall import CALL, SystemCall, called, described, opens
from kprobe_text.text.forms.tracers import noted, traced
from kprobe_text.text.layout import BARE, FRAME, GRAPH_END, MARK, PERF, REPORT, REPORTS, SAMPLE, STACKS
from kprobe_text.text.records import (
    NONE,
    Bare,
    BareMarker,
    BareRawMarker,
    BareStack,
    CodeAddress,
    Comment,
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

_NAME = re.compile(rb"([^\s:]++(?::\w+)?)(?: <[0-9a-f]++>)?: ++(?:\(([^()\n]*)\))?")
# Android's kernels before 3.10 printed no name
_MARK = re.compile(rb"0: |" + MARK)
_FUNCTION = re.compile(rb"(\S++(?: \[[^\]\s]+\])?(?: <[0-9a-f]+>)?) <-(\S++(?: \[[^\]\s]+\])?(?: <[0-9a-f]+>)?)")
# web pages swallow the words in angle brackets
_ONE_LINE = re.compile(rb"(?:<(user )?stack trace> )?=> ([^\n]+)")
# with option fields, of what isn't an event
_NO_TEXT: Final = re.compile(rb"UNKNOWN TYPE \d{1,9}\r?")
_UNKNOWN = re.compile(rb"Unknown type (\d{1,9})")
_RAW_MARKER = re.compile(rb"# ([0-9a-f]{1,8}) buf:((?: [0-9a-f]{2})*)")
_REPORTED_FRAME: Final = re.compile(rb"=> ([^\n]*)")

Known: TypeAlias = tuple[dict[str, Value], bool, frozenset[str]]
"""What a text of arguments says: the fields, and ``complete`` and ``guessed`` as in Event."""


def _recorded(kind: Callable[..., Record], context: Context, *values: object, raw: bytes) -> Record:
    """Make a record of a kind with a full context; ``values`` are its other fields."""
    task, pid, tgid, cpu, flags, timestamp, clock = context
    return kind(task, pid, cpu, flags, timestamp, *values, tgid, clock, raw)


class Learned(NamedTuple):
    """What a text has shown: hexadecimal numbers have 0x, or have none (``is_old``); lines end with CR LF."""

    is_prefixed: bool
    is_old: bool
    has_crlf: bool


class RecordBuilder:
    """Builds records from lines; it knows the formats, and keeps the parts that repeat."""

    __slots__ = (
        "_contexts", "_described", "_frames", "_guesser", "_hexadecimal", "_is_settled", "_old", "_prefixed",
        "_reported", "_sites", "ending", "has_crlf",
    )  # fmt: skip

    def __init__(self, formats: Formats | None, definitions: Iterable[str] = (), *, is_settled: bool = False) -> None:
        self._is_settled = is_settled
        self._described = Descriptions(formats, definitions)
        self._contexts = Contexts()
        self._sites: dict[bytes, Site] = {}
        self._reported: dict[bytes, Site] = {}
        self._frames: dict[bytes, CodeAddress] = {}
        self._guesser = ArgumentGuesser()
        self.begin()

    def begin(self) -> None:
        """Forget the kernel: another trace may be another kernel's."""
        self._prefixed = self._described.is_recent  # hexadecimal numbers have 0x, so all others are decimal
        self._guesser.forget()
        self._old = False  # they have no 0x, so a number without may be hexadecimal
        self._hexadecimal = False  # and some number can't be decimal, so that is certain
        self.has_crlf = False  # somebody ended all lines with CR LF
        self.ending = b""  # or with this

    @property
    def learned(self) -> Learned:
        """What was learned of the kernel and of the text."""
        return Learned(self._prefixed, self._old, self.has_crlf)

    @learned.setter
    def learned(self, learned: Learned) -> None:
        self._prefixed, self._old, self.has_crlf = learned

    @property
    def is_decimal(self) -> bool:
        """Whether numbers without ``0x`` are known to be decimal."""
        return self._prefixed

    def record(self, line: re.Match[bytes], rest: bytes, raw: bytes) -> Record | None:
        """Build the record of a matched line; ``rest`` is what follows its site, over all lines of the record.

        None if the event's arguments can't be read to the end.
        """
        text = line["site"]
        if self.ending:
            rest = self.without_ending(rest)
        if is_graph(line):
            is_call = line["comment"] is not None and CALL.match((text or b"") + rest) is not None
            if line["comment"] is None or (text is None and not is_call):
                return call(line, self._contexts.graph(line), (text or b"") + rest, raw)
            rest = rest.removesuffix(b"\r")
            if not rest.endswith(GRAPH_END):
                return None
            rest = rest.removesuffix(GRAPH_END)
        if (text is None or text.startswith(b"sys_")) and CALL.match((text or b"") + rest) is not None:
            found = called((text or b"") + rest)
            return self._called(line, found, raw) if found.complete else None
        if text is None:
            return self._without_name(line, rest, raw)
        site = self.site_of(line, text)
        if site.address is None:
            if b"\n" in rest and NAMELESS.match(text) is not None:
                return None
            return self.uncertain(line, rest, raw)
        if site.arguments is not None:
            read = self._by_schema(site.arguments, site.definition, rest, decimal(line))
            return None if read is None else self._event(line, site, read[0], raw, True, read[1])
        fields, guessed, complete, whole, _ = self._by_shape(rest, decimal(line))
        return self._event(line, site, fields, raw, complete, guessed) if whole else None

    def without_ending(self, rest: bytes) -> bytes:
        """Remove the ending of each line where a script of a web page contains the text."""
        return rest.replace(self.ending + b"\n", b"\n").removesuffix(self.ending)

    def site_of(self, line: re.Match[bytes], text: bytes) -> Site:
        """Read ``name: (address)`` in a line."""
        if line.re is PERF or line.re in REPORTS:
            return self._reported.get(text) or self._site(text, self._reported)
        return self._sites.get(text) or self._site(text, self._sites)

    def _by_schema(
        self, arguments: Arguments, definition: Definition | None, rest: bytes, is_decimal: bool | None
    ) -> tuple[dict[str, Value], frozenset[str]] | None:
        """Read arguments of known types, and return which are guesses; None if they can't be read to the end."""
        if definition is None or is_decimal or self._prefixed:
            fields = arguments.read(rest)
            return None if fields is None else (fields, arguments.guessed(rest) if arguments.ends else NONE)
        fields = None if self._old else definition.narrow.read(rest)
        if fields is None:
            self._hexadecimal = self._hexadecimal or is_decimal is not None or arguments.read(rest) is None
            read = definition.hexadecimal(rest, is_sure=self._hexadecimal)
            self._old = self._old or read is not None
            return read
        guessed = arguments.guessed(rest)
        if definition.settles or (b"=0x" in rest and b'"' not in rest):
            self._prefixed = True
        elif definition.old.read(rest) not in (None, fields):
            guessed |= definition.unsigned
        return fields, guessed

    def _by_shape(self, rest: bytes, is_decimal: bool | None) -> Reading:
        """Read arguments of unknown format; there are no fields unless they can be read to the end."""
        reading = self._guesser.read(rest, decimal=bool(is_decimal) or self._prefixed, is_trial=True)
        if not self._prefixed and b"=0x" in rest and b'"' not in rest and reading[3]:
            self._prefixed = True
        return reading

    def arguments(self, site: Site, context: bytes, rest: bytes) -> Known | None:
        """Read the arguments of an event in the usual layout; None if they can't be read to the end."""
        is_decimal = self._prefixed or has_wide_pids(context)
        if site.arguments is not None:
            read = self._by_schema(site.arguments, site.definition, rest, is_decimal)
            return None if read is None else (read[0], True, read[1])
        fields, guessed, complete, whole, _ = self._by_shape(rest, is_decimal)
        return (fields, complete, guessed) if whole else None

    def settled(self, site: Site, context: bytes) -> bool:
        """Return whether this text of arguments will always be read as now: it teaches nothing new."""
        return self._prefixed or has_wide_pids(context) or (site.arguments is not None and site.definition is None)

    def site(self, text: bytes) -> Site:
        """Read ``name: (address)`` as tracefs prints it."""
        return self._sites.get(text) or self._site(text, self._sites)

    def columns(self, text: bytes) -> Columns:
        """Read the columns of the usual layout."""
        return self._contexts.columns(text)

    def uncertain(self, line: re.Match[bytes], rest: bytes, raw: bytes) -> Record:
        """Build as much as possible of a record whose arguments are broken, or aren't a probe's."""
        text: bytes | None = line["site"]
        rest = self.without_ending(rest)
        if is_graph(line):
            if line["comment"] is None or text is None:
                return Unparsed(raw)
            rest = rest.removesuffix(b"\r").removesuffix(GRAPH_END)
        if text is None or CALL.match(text + rest) is not None:
            return self._without_name(line, (text or b"") + rest, raw)
        site = self.site_of(line, text)
        if site.address is not None:
            if site.arguments is None:
                fields, guessed, *_ = self._guesser.read(rest, decimal=bool(decimal(line)) or self._prefixed)
                return self._event(line, site, fields, raw, False, guessed)
            # only its newline may be missing
            if (record := self.record(line, rest, raw)) is not None:
                return record
            fields, guessed = site.arguments.partly(rest)
            return self._event(line, site, fields, raw, False, guessed)
        shown = text.partition(b": ")[2] + rest
        if (other := self._other(line, site, shown, text, raw)) is not None:
            return other
        fields, complete = self._guesser.pairs(shown.lstrip(b" "), site.texts, site.signed)
        if site.arguments is not None and not fields.keys() >= set(site.arguments.names):
            complete = False  # the rest may follow a newline in a string, as there are no quotes
        # option fields prints the probe's address and caller as fields
        address, caller = pop_code_address(fields, "__probe_ip"), None
        if address is None:
            address, caller = pop_code_address(fields, "__probe_func"), pop_code_address(fields, "__probe_ret_ip")
        site = site._replace(address=address, caller=caller)
        return self._event(line, site, fields, raw, complete, frozenset(fields))

    def _other(self, line: re.Match[bytes], site: Site, shown: bytes, text: bytes, raw: bytes) -> Record | None:
        """Build the record of a line with a name that isn't an event with pairs; None for an event with pairs."""
        system_call = described(site.name, shown) if site.name.startswith("sys_e") else noted(site.name, shown)
        if system_call is not None:
            return self._called(line, system_call, raw)
        if is_graph(line):
            return None
        if line.re is PERF and line["group"] is None and (sample := SAMPLE.fullmatch(shown)) is not None:
            address = None if sample[1] is None else scripted_frame(decode(sample[1]), decode(sample[2]))
            return self._event(line, site._replace(address=address), {}, raw, True, NONE)
        if line.re is BARE:
            return BareMarker(self._mark_text(shown), raw) if site.mark else None
        if NAMELESS.match(text) is not None:
            head = text.partition(b": ")[0]
            return nameless(self._contexts.read(line), head + b": " + shown, raw)
        if site.mark and line.re not in REPORTS:
            return _recorded(Marker, self._contexts.read(line), self._mark_text(shown), raw=raw)
        if line.re in REPORTS and site.name == "print":
            text_of_mark = self._mark_text(shown.partition(b": ")[2]).removesuffix("\n")
            return _recorded(Marker, self._contexts.read(line), text_of_mark, raw=raw)
        if self.is_stack(line) and "ARRAY[" not in decode(shown):  # option -R of trace-cmd shows its bytes
            frames = tuple(reported_frame(decode(found[1].rstrip(b" \r"))) for found in _REPORTED_FRAME.finditer(shown))
            return _recorded(StackTrace, self._contexts.read(line), frames, site.name == "user_stack", raw=raw)
        return None

    def _mark_text(self, shown: bytes) -> str:
        """Return the text of a mark, with its original line ends."""
        return decode(shown.removesuffix(b"\r").replace(b"\r\n", b"\n") if self.has_crlf else shown)

    def is_stack(self, line: re.Match[bytes]) -> bool:
        """Return whether a line begins a stack, with frames in the lines after it."""
        text = line["site"]
        if text is None:
            return line["rest"].removesuffix(b"\r") in STACKS
        return line.re in REPORTS and text.partition(b":")[0] in (b"kernel_stack", b"user_stack")

    def imitates(self, line: re.Match[bytes], record: Record) -> bool:
        """Return whether a string in a record could imitate the record's end and further records."""
        if self._is_settled:
            return False
        text = line["site"]
        if (text is None or text.startswith(b"sys_")) and CALL.match((text or b"") + line["rest"]) is not None:
            return b'"' in record.raw
        if self.is_stack(line) and line.string.startswith(b" => ", line.start() + len(record.raw)):
            return True  # what follows may be a frame, whose file has such a name
        if text is None or self.is_stack(line):
            # all others have no strings
            return isinstance(record, (Comment, Unparsed)) and _NO_TEXT.fullmatch(line["rest"]) is None
        return self.site_of(line, text).imitates(line, record)

    def opens(self, line: re.Match[bytes], rest: bytes) -> bool:
        """Return whether a record that can't be read may go on in the next line, within a string."""
        site = line["site"]
        if site is None or (is_graph(line) and line["comment"] is None):
            return False
        if CALL.match(shown := site + rest) is not None:
            return opens(shown)
        known = self.site_of(line, site)
        if known.address is None:
            return False
        if known.arguments is not None:
            return known.arguments.opens(rest)
        return self._guesser.read(rest, decimal=bool(decimal(line)) or self._prefixed, is_trial=True)[4]

    def _site(self, text: bytes, table: dict[bytes, Site]) -> Site:
        """Read ``name: (address)``."""
        parts = _NAME.fullmatch(text)
        assert parts is not None
        name = decode(parts[1])
        known = self._described.of(name)
        address: CodeAddress | None = None
        caller: CodeAddress | None = None
        is_mark = _MARK.match(text) is not None
        # the text of a mark may begin like an address
        if parts[2] is not None and not (is_mark and known.arguments is None):
            # a return probe prints (caller <- function), but reports show the two in the order of the print fmt
            first, arrow, second = decode(parts[2]).partition(" <- ")
            if arrow and table is self._reported:
                first, second = second, first
            address = code_address(first)
            if arrow and address is not None:
                caller, address = address, code_address(second)
                caller = caller if address is not None else None
        room = Room() if is_mark else known.room
        is_quoted = address is not None and (known.arguments is not None or not known.texts)
        opens = ('"' if is_quoted else ":") if room.is_open else ": (" if room.seal is not None else ""
        site = Site(
            name, address, caller, known.arguments, known.texts, known.signed, known.shown, is_mark,
            known.definition, "" if self._is_settled else opens, room, is_quoted,
        )  # fmt: skip
        return keep(table, text, site)

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
        if is_graph(line):
            return Bare(name, address, caller, fields, raw, complete, guessed, *self._contexts.graph(line))
        task, pid, tgid, cpu, flags, stamp, clock = self._contexts.read(line)
        group = ""
        if line.re is PERF:
            group = decode(line["group"] or b"")
            if line["period"] is not None:
                complete = complete and "period" not in fields  # an argument of that name
                fields = {"period": int(line["period"]), **fields}
        instance = decode((line["instance"] or b"").lstrip(b" ")) if line.re is REPORT else ""
        return Event(
            task, pid, cpu, flags, stamp, name, address, caller, fields, tgid, clock, raw, complete, guessed, group,
            instance,
        )  # fmt: skip

    def _called(self, line: re.Match[bytes], found: SystemCall, raw: bytes) -> Record:
        """Build the event of a system call."""
        site = Site(found.name, None, None, None, NONE, NONE, None, False, None)
        return self._event(line, site, found.fields, raw, found.complete, found.guessed)

    def _without_name(self, line: re.Match[bytes], rest: bytes, raw: bytes) -> Record:
        rest = rest.removesuffix(b"\r")
        if CALL.match(rest) is not None:
            return self._called(line, called(rest), raw)
        if line.re is BARE:
            return self._bare(rest, raw)
        context = self._contexts.read(line)
        if NAMELESS.match(rest) is not None and b"\n" not in rest:
            return nameless(context, rest, raw)
        first, _, more = rest.partition(b"\n")
        first = first.removesuffix(b"\r")
        if first in STACKS:
            frames, user = self._frames_of(more), first == b"<user stack trace>"
            return _recorded(StackTrace, context, frames, user, raw=raw)
        if (stack := _ONE_LINE.fullmatch(rest)) is not None:
            table = {text: frame(decode(text.strip(b" "))) for text in dict.fromkeys(stack[2].split(FRAME))}
            frames = tuple(map(table.__getitem__, stack[2].split(FRAME)))
            return _recorded(StackTrace, context, frames, stack[1] is not None, raw=raw)
        if (call := _FUNCTION.fullmatch(rest)) is not None:
            return _recorded(Function, context, frame(decode(call[1])), frame(decode(call[2])), raw=raw)
        if (unknown := _UNKNOWN.fullmatch(rest)) is not None:
            return _recorded(Unnamed, context, int(unknown[1]), raw=raw)
        if (mark := _RAW_MARKER.fullmatch(rest)) is not None:
            return _recorded(RawMarker, context, int(mark[1], 16), bytes.fromhex(mark[2].decode()), raw=raw)
        return Unparsed(raw) if (event := traced(rest)) is None else self._called(line, event, raw)

    def _bare(self, rest: bytes, raw: bytes) -> Record:
        """Build the record of a line without context and without a name."""
        first, _, more = rest.partition(b"\n")
        if (mark := _RAW_MARKER.fullmatch(rest)) is not None:
            return BareRawMarker(int(mark[1], 16), bytes.fromhex(mark[2].decode()), raw)
        if first.removesuffix(b"\r") in STACKS:
            return BareStack(self._frames_of(more), first.startswith(b"<user"), raw)
        return Unparsed(raw)

    def _frames_of(self, lines: bytes) -> tuple[CodeAddress, ...]:
        return tuple(self._frames.get(text) or self._frame(text) for text in (lines.split(b"\n") if lines else ()))

    def _frame(self, text: bytes) -> CodeAddress:
        # an address of a program without a file has one more blank before it
        return keep(self._frames, text, frame(decode(text[len(FRAME) :].strip(b" \r"))))
