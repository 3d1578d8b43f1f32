"""The text of one record -> the record, with caches for what repeats from line to line."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from kprobe_text.text.argument_guesses import ArgumentGuesser, Reading
from kprobe_text.text.arguments import Arguments, decode
from kprobe_text.text.code_address import code_address, frame, pop_code_address, reported_frame, scripted_frame
from kprobe_text.text.context import Columns, Contexts, decimal, is_graph, keep
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
# Android's kernels before 3.10 had no name for the place
_MARK = re.compile(rb"0: |" + MARK)
_FUNCTION = re.compile(rb"(\S++(?: \[[^\]\s]+\])?(?: <[0-9a-f]+>)?) <-(\S++(?: \[[^\]\s]+\])?(?: <[0-9a-f]+>)?)")
# pages swallow the words in angle brackets
_ONE_LINE = re.compile(rb"(?:<(user )?stack trace> )?=> ([^\n]+)")
# of what isn't an event, with option fields
_NO_TEXT: Final = re.compile(rb"UNKNOWN TYPE \d{1,9}\r?")
_UNKNOWN = re.compile(rb"Unknown type (\d{1,9})")
_RAW_MARKER = re.compile(rb"# ([0-9a-f]{1,8}) buf:((?: [0-9a-f]{2})*)")
_REPORTED_FRAME: Final = re.compile(rb"=> ([^\n]*)")

Known: TypeAlias = tuple[dict[str, Value], bool, frozenset[str]]
"""What a text of arguments says: the fields, and ``complete`` and ``guessed`` as Event has them."""


class Learned(NamedTuple):
    """What a text has shown: hexadecimal numbers have 0x, or have none (``is_old``); lines end with CR LF."""

    is_prefixed: bool
    is_old: bool
    has_crlf: bool


class RecordBuilder:
    """Builds records; knows the formats and remembers the parts that repeat."""

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
        """Forget what was known of the kernel: another trace may be another's."""
        self._prefixed = self._described.is_recent  # a number has 0x, so those without are decimal
        self._guesser.forget()
        self._old = False  # one that would have it had none, so those without are hexadecimal
        self._hexadecimal = False  # and that is sure, as there was one that can't be decimal
        self.has_crlf = False  # somebody ended all lines with CR LF
        self.ending = b""  # or with that

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
        fields, guessed, complete, whole, _ = self._look(rest, decimal(line))
        return self._event(line, site, fields, raw, complete, guessed) if whole else None

    def without_ending(self, rest: bytes) -> bytes:
        """Take off what stands at the end of each line of a page, where a script holds the text."""
        return rest.replace(self.ending + b"\n", b"\n").removesuffix(self.ending)

    def site_of(self, line: re.Match[bytes], text: bytes) -> Site:
        """Read what a line prints as ``name: (place)``."""
        if line.re is PERF or line.re in REPORTS:
            return self._reported.get(text) or self._site(text, self._reported)
        return self._sites.get(text) or self._site(text, self._sites)

    def _by_schema(
        self, arguments: Arguments, definition: Definition | None, rest: bytes, is_decimal: bool | None
    ) -> tuple[dict[str, Value], frozenset[str]] | None:
        """Read arguments whose types are known, and say which of them are guesses; None if they can't be read whole."""
        if definition is None or is_decimal or self._prefixed:
            fields = arguments.read(rest)
            return None if fields is None else (fields, arguments.guessed(rest) if arguments.ends else NONE)
        fields = None if self._old else definition.narrow.read(rest)
        if fields is None:
            self._hexadecimal = self._hexadecimal or is_decimal is not None or arguments.read(rest) is None
            found = definition.hexadecimal(rest, is_sure=self._hexadecimal)
            self._old = self._old or found is not None
            return found
        guessed = arguments.guessed(rest)
        if definition.settles or (b"=0x" in rest and b'"' not in rest):
            self._prefixed = True
        elif definition.old.read(rest) not in (None, fields):
            guessed |= definition.unsigned
        return fields, guessed

    def _look(self, rest: bytes, is_decimal: bool | None) -> Reading:
        """Read arguments whose format isn't known; of those that can't be read to the end there are no fields."""
        found = self._guesser.read(rest, decimal=bool(is_decimal) or self._prefixed, is_trial=True)
        if not self._prefixed and b"=0x" in rest and b'"' not in rest and found[3]:
            self._prefixed = True
        return found

    def arguments(self, site: Site, context: bytes, rest: bytes) -> Known | None:
        """Read the arguments of an event in the usual layout; None if they can't be read to the end."""
        # as context.decimal has it
        is_decimal = self._prefixed or (context[23] == 32 and context[25] in b"[(")
        if site.arguments is not None:
            read = self._by_schema(site.arguments, site.definition, rest, is_decimal)
            return None if read is None else (read[0], True, read[1])
        fields, guessed, complete, whole, _ = self._look(rest, is_decimal)
        return (fields, complete, guessed) if whole else None

    def settled(self, site: Site, context: bytes) -> bool:
        """Say whether the same text of arguments will always be read as it is now: nothing is to be learned of it."""
        is_decimal = self._prefixed or (context[23] == 32 and context[25] in b"[(")
        return is_decimal or (site.arguments is not None and site.definition is None)

    def site(self, text: bytes) -> Site:
        """Read what tracefs prints as ``name: (place)``."""
        return self._sites.get(text) or self._site(text, self._sites)

    def columns(self, text: bytes) -> Columns:
        """Read the columns of the usual layout."""
        return self._contexts.columns(text)

    def uncertain(self, line: re.Match[bytes], rest: bytes, raw: bytes) -> Record:
        """Build the record of a line whose arguments aren't a probe's, or are broken: as far as they can be read."""
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
            # a record that lost nothing but its newline
            if (record := self.record(line, rest, raw)) is not None:
                return record
            fields, guessed = site.arguments.partly(rest)
            return self._event(line, site, fields, raw, False, guessed)
        shown = text.partition(b": ")[2] + rest
        if (other := self._other(line, site, shown, text, raw)) is not None:
            return other
        fields, complete = self._guesser.pairs(shown.lstrip(b" "), site.texts, site.signed)
        if site.arguments is not None and not fields.keys() >= set(site.arguments.names):
            complete = False  # such as after a newline in a string, which stands there without quotes
        # option fields prints the place as two fields more
        address, caller = pop_code_address(fields, "__probe_ip"), None
        if address is None:
            address, caller = pop_code_address(fields, "__probe_func"), pop_code_address(fields, "__probe_ret_ip")
        site = site._replace(address=address, caller=caller)
        return self._event(line, site, fields, raw, complete, frozenset(fields))

    def _other(self, line: re.Match[bytes], site: Site, shown: bytes, text: bytes, raw: bytes) -> Record | None:
        """Build the record of a line that has a name and isn't an event with pairs; None if it is one."""
        told = described(site.name, shown) if site.name.startswith("sys_e") else noted(site.name, shown)
        if told is not None:
            return self._called(line, told, raw)
        if is_graph(line):
            return None
        if line.re is PERF and line["group"] is None and (sample := SAMPLE.fullmatch(shown)) is not None:
            address = None if sample[1] is None else scripted_frame(decode(sample[1]), decode(sample[2]))
            return self._event(line, site._replace(address=address), {}, raw, True, NONE)
        if line.re is BARE:
            return BareMarker(self._said(shown), raw) if site.mark else None
        if NAMELESS.match(text) is not None:
            head = text.partition(b": ")[0]
            return nameless(self._contexts.read(line), head + b": " + shown, raw)
        if site.mark and line.re not in REPORTS:
            task, pid, tgid, cpu, flags, stamp, clock = self._contexts.read(line)
            return Marker(task, pid, cpu, flags, stamp, self._said(shown), tgid, clock, raw)
        if line.re in REPORTS and site.name == "print":
            task, pid, tgid, cpu, flags, stamp, clock = self._contexts.read(line)
            said = self._said(shown.partition(b": ")[2]).removesuffix("\n")
            return Marker(task, pid, cpu, flags, stamp, said, tgid, clock, raw)
        if self.is_stack(line) and "ARRAY[" not in decode(shown):  # option -R of trace-cmd shows its bytes
            task, pid, tgid, cpu, flags, stamp, clock = self._contexts.read(line)
            frames = tuple(reported_frame(decode(found[1].rstrip(b" \r"))) for found in _REPORTED_FRAME.finditer(shown))
            return StackTrace(task, pid, cpu, flags, stamp, frames, site.name == "user_stack", tgid, clock, raw)
        return None

    def _said(self, shown: bytes) -> str:
        """Return the text of a mark, with the ends of lines that it had."""
        return decode(shown.removesuffix(b"\r").replace(b"\r\n", b"\n") if self.has_crlf else shown)

    def is_stack(self, line: re.Match[bytes]) -> bool:
        """Say whether a line begins a stack, whose frames are the lines after it."""
        text = line["site"]
        if text is None:
            return line["rest"].removesuffix(b"\r") in STACKS
        return line.re in REPORTS and text.partition(b":")[0] in (b"kernel_stack", b"user_stack")

    def imitates(self, line: re.Match[bytes], record: Record) -> bool:
        """Say whether a string in a record could have written the look of its end and of further records."""
        if self._is_settled:
            return False
        text = line["site"]
        if (text is None or text.startswith(b"sys_")) and CALL.match((text or b"") + line["rest"]) is not None:
            return b'"' in record.raw
        if self.is_stack(line) and line.string.startswith(b" => ", line.start() + len(record.raw)):
            return True  # what follows may be a frame, of a file with such a name
        if text is None or self.is_stack(line):
            # all others have no strings
            return isinstance(record, (Comment, Unparsed)) and _NO_TEXT.fullmatch(line["rest"]) is None
        return self.site_of(line, text).imitates(line, record)

    def opens(self, line: re.Match[bytes], rest: bytes) -> bool:
        """Say whether a record that can't be read may go on in the next line, within a string."""
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
        """Read ``name: (place)``."""
        parts = _NAME.fullmatch(text)
        assert parts is not None
        name = decode(parts[1])
        known = self._described.of(name)
        address: CodeAddress | None = None
        caller: CodeAddress | None = None
        is_mark = _MARK.match(text) is not None
        # what a mark says may begin like a place
        if parts[2] is not None and not (is_mark and known.arguments is None):
            # a return probe prints (where it returns to <- the function), but reports show them as in the print fmt
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
        task, pid, tgid, cpu, flags, stamp, clock = context
        if NAMELESS.match(rest) is not None and b"\n" not in rest:
            return nameless(context, rest, raw)
        first, _, more = rest.partition(b"\n")
        first = first.removesuffix(b"\r")
        if first in STACKS:
            frames, user = self._frames_of(more), first == b"<user stack trace>"
            return StackTrace(task, pid, cpu, flags, stamp, frames, user, tgid, clock, raw)
        if (stack := _ONE_LINE.fullmatch(rest)) is not None:
            table = {text: frame(decode(text.strip(b" "))) for text in dict.fromkeys(stack[2].split(FRAME))}
            frames = tuple(map(table.__getitem__, stack[2].split(FRAME)))
            return StackTrace(task, pid, cpu, flags, stamp, frames, stack[1] is not None, tgid, clock, raw)
        if (call := _FUNCTION.fullmatch(rest)) is not None:
            function, parent = frame(decode(call[1])), frame(decode(call[2]))
            return Function(task, pid, cpu, flags, stamp, function, parent, tgid, clock, raw)
        if (unknown := _UNKNOWN.fullmatch(rest)) is not None:
            return Unnamed(task, pid, cpu, flags, stamp, int(unknown[1]), tgid, clock, raw)
        if (mark := _RAW_MARKER.fullmatch(rest)) is not None:
            data = bytes.fromhex(mark[2].decode())
            return RawMarker(task, pid, cpu, flags, stamp, int(mark[1], 16), data, tgid, clock, raw)
        return Unparsed(raw) if (told := traced(rest)) is None else self._called(line, told, raw)

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
        # of a program's place without a file there is a blank more
        return keep(self._frames, text, frame(decode(text[len(FRAME) :].strip(b" \r"))))
