"""An event's definition, its format file, or both -> everything known about it before its text is read.

A definition says the types, but how the kernel prints them has changed (fixtures/text): up to 3.13 u8 to u64 and
arguments without a type are hexadecimal without 0x, at 4.4 all have it, from 4.9 on u8 to u64 are decimal. Arguments
without a type have 0x from 4.4 on, but where the type comes from BTF (6.12): that kernels print wider pids.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from kprobe_text.text.arguments import Arguments, arguments_of, is_seal, sealing
from kprobe_text.text.context import keep
from kprobe_text.text.format import parse_format
from kprobe_text.text.layout import BARE, GRAPH, LATENCY
from kprobe_text.text.records import NONE, CodeAddress, Record, Value

Formats: TypeAlias = Mapping[str, str | bytes] | Callable[[str], str | bytes | None]
"""The text of each event's format file, by the event's name."""


def format_text(formats: Formats | None, name: str) -> str | bytes | None:
    """Return the text of an event's format file; None if there is none."""
    return None if formats is None else formats(name) if callable(formats) else formats.get(name)


# a shorter field has no room for what looks like a record
_ROOM: Final = 32

_EVENT = re.compile(r"([a-z])\d*(?::(?:[\w.-]+/)?(\w*))?")
_ARGUMENT = re.compile(
    r"(?:([A-Za-z_]\w*)=)?(.+?)(?::([a-z]\w*|%p[dD]|b\d+@\d+/\d+)(?:\[([1-9]|[1-5][0-9]|6[0-4])\])?)?"
)  # the kernel's MAX_ARRAY_LEN
_PLACE = re.compile(r"(?:\w+:)?([A-Za-z_][\w.]*)(?:\+(0[xX][0-9a-fA-F]+|[0-9]+))?(%return)?")
_LONG = re.compile(r"0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]{0,18})")
_PRINTED = re.compile(r"\b(\w++)=%[-+ #0]*+[0-9.*]*+[hlLzq]*([a-zA-Z])")
# of 64 bits: the kernel takes no more
_IMMEDIATE = re.compile(r"\\(-?(?:0x[0-9a-f]{1,16}|[1-9][0-9]{0,19}|0))")
_SIZED = re.compile(r"([sux])(8|16|32|64)")
# strings without room for a record: a task's name, and constants of the definition
_SHORT: Final = re.compile(r"\$(?:comm|COMM)|\\\".*")
# What every probe's event has, even with option fields.
PLACED: Final = re.compile(rb": +(?:\(|__probe_)")
# A longer record may have been broken off behind its strings: at 4096 bytes, or at 8192 since 6.8.
WHOLE: Final = 3900
_STRINGS: Final = ("string", "ustring", "symstr", "%pd", "%pD")

# how an argument without a type is printed, and one that is unsigned, in each of the dialects
_WIDE: Final = {"": "%n", "u": "%n"}
_NARROW: Final = {"": "0x%x", "u": "%n"}
_OLD: Final = {"": "%x", "u": "%x"}
# types that came later than 0x
_RECENT: Final = re.compile(r"0x|'|%pS|\{|=")


class Room(NamedTuple):
    """The room of an event's strings to imitate the end of their record and further records.

    ``strings``: how many there are.  ``is_open``: one that is long enough has no seal behind it; ``is_open_bare``: one
    of any length has none, and where lines have no columns a task's name is long enough.  ``seal`` is what only a
    record holds that was printed to its end.
    """

    strings: int = 0
    is_open: bool = True
    is_open_bare: bool = True
    seal: re.Pattern[bytes] | None = None

    def is_settled(self, rest: bytes, length: int, *, may_hold: bool) -> bool:
        """Say whether the seal in a record of that length shows where it ends; ``rest`` is what its place precedes.

        The kernel breaks off what doesn't fit, and the next record follows on the same line: so the seal may be
        that one's.  With ``may_hold`` a single string may hold what looks like one, as long as all of it fits.
        """
        if self.seal is None or len(self.seal.findall(rest)) != 1:
            return False
        return PLACED.search(rest) is None or (may_hold and self.strings == 1 and length < WHOLE)


class Definition(NamedTuple):
    """The arguments of one definition in each dialect.

    ``wide`` reads all that kernels with wide columns print, ``narrow`` that of 4.4 to 4.19, ``old`` that of 3.x.
    ``unsigned`` are the arguments whose base isn't in their type; ``settles``: some argument tells narrow from old.
    """

    wide: Arguments
    narrow: Arguments
    old: Arguments
    unsigned: frozenset[str]
    settles: bool
    room: Room

    @property
    def is_recent(self) -> bool:
        """Whether only kernels take it that print no hexadecimal number without 0x: x8 to x64 came with that (4.9)."""
        return any(_RECENT.search(conversion) is not None for _, conversion in self.old.items)

    def hexadecimal(self, body: bytes, *, is_sure: bool) -> tuple[dict[str, Value], frozenset[str]] | None:
        """Read arguments as 3.x prints them, and name the guesses; unless it is sure that 3.x did, numbers are, too."""
        fields, guessed = self.old.read(body), self.wide.guessed(body)
        if fields is None:
            return None
        if not is_sure and (others := self.wide.read(body)) is not None:
            guessed |= frozenset(name for name in fields if fields[name] != others[name])
        return fields, guessed


def defined_name(definition: str) -> str:
    """Return the name of a definition's event; empty if it has none and the kernel's name is unknown."""
    words = definition.split()
    event = _EVENT.fullmatch(words[0]) if words else None
    if event is None:
        return ""
    if event[2]:
        return event[2]
    place = _PLACE.fullmatch(words[1]) if len(words) > 1 else None
    if place is None:
        return ""
    kind, offset = "r" if place[3] else event[1], _long(place[2] or "0")
    return "" if offset is None else f"{kind}_{place[1].replace('.', '_')}_{offset}"


def _long(text: str) -> int | None:
    """Give a number as kstrtol() reads it, 0 before octal digits; None if it isn't one, or too large for a long."""
    found = _LONG.fullmatch(text)
    if found is None:
        return None
    number = int(found[1], 16) if found[1] else int(found[2], 8) if found[2] else int(found[3])
    return number if number < 1 << 63 else None


def _conversion(text: str, kind: str, count: str) -> str | None:
    """Give the conversion of one argument, with a letter in place of what differs between dialects; None if unknown."""
    if not count and (immediate := _IMMEDIATE.fullmatch(text)) is not None and (not kind or _SIZED.fullmatch(kind)):
        return _sealed(int(immediate[1], 0), int(kind[1:] or 64))
    if not kind:
        # a missing type comes from the source, which only for these two is a string
        one = '"%s"' if text in ("$comm", "$COMM") or text.startswith('\\"') else "<>"
    elif kind in _STRINGS:
        one = '"%s"'
    elif kind == "char":
        one = "'%c'"
    elif kind == "symbol":
        one = "%pS"
    elif (sized := _SIZED.fullmatch(kind)) is not None:
        one = {"s": "%d", "u": "<u>", "x": "0x%x"}[sized[1]]
    elif kind.startswith("b") and "@" in kind:
        one = "<u>"
    else:
        return None
    return "{" + ",".join([one] * int(count)) + "}" if count else one


def _sealed(number: int, bits: int) -> str:
    """Give the conversion of a number that the definition itself says: no other text is its value.

    So a string before it can't imitate the end of its record, unless whoever wrote the string knows the number.
    """
    unsigned = number % (1 << bits)
    signed = unsigned - (1 << bits) if unsigned >> (bits - 1) else unsigned
    return f"=0x{unsigned:x}|{unsigned}|{signed}"


def definition_of(text: str) -> Definition | None:
    """Read a definition; None if its arguments are unknown, as with ``$arg*``."""
    shown: list[tuple[str, str]] = []
    strings, is_open, is_open_bare, seal = 0, False, False, None
    for number, word in enumerate(text.split()[2:], 1):
        found = _ARGUMENT.fullmatch(word)
        if found is None or "$arg*" in found[2]:
            return None
        conversion = _conversion(found[2], found[3] or "", found[4] or "")
        if conversion is None:
            return None
        shown.append((found[1] or f"arg{number}", conversion))
        if "%s" in conversion:
            strings += conversion.count("%s")
            is_open, is_open_bare = is_open or _SHORT.fullmatch(found[2]) is None, True
        elif is_seal(conversion):
            is_open = is_open_bare = False
            seal = sealing(*shown[-1])

    def reader(dialect: dict[str, str]) -> Arguments:
        return Arguments([(n, c.replace("<u>", dialect["u"]).replace("<>", dialect[""])) for n, c in shown])

    unsigned = frozenset(name for name, conversion in shown if "<u>" in conversion)
    # kernels that take numbers in definitions print 0x
    settles = any("<>" in conversion or conversion[0] == "=" for _, conversion in shown)
    return Definition(
        reader(_WIDE), reader(_NARROW), reader(_OLD), unsigned, settles, Room(strings, is_open, is_open_bare, seal)
    )


class Description(NamedTuple):
    """The known facts about an event; by default none.

    ``arguments`` are a probe's; with a ``definition`` alone they are those that any kernel could print. ``texts`` and
    ``signed`` name fields of a format. ``shown`` are the names that are printed, and whether each is a string's; None
    if that isn't known.
    """

    arguments: Arguments | None = None
    definition: Definition | None = None
    texts: frozenset[str] = NONE
    signed: frozenset[str] = NONE
    room: Room = Room()
    shown: Mapping[str, bool] | None = None


_UNKNOWN: Final = Description()


class Site(NamedTuple):
    """What ``name: (address)`` says: constant for each probe, and known from the first line on.

    ``is_quoted``: its strings have quotes. ``opens``: whether a string in a record of it could imitate the record's end
    and further records: "" if none could, else what every such record contains; a single character if one could
    wherever that stands.
    """

    name: str
    address: CodeAddress | None
    caller: CodeAddress | None
    arguments: Arguments | None
    texts: frozenset[str]
    signed: frozenset[str]
    shown: Mapping[str, bool] | None
    mark: bool
    definition: Definition | None
    opens: str = ""
    room: Room = Room()
    is_quoted: bool = False

    def imitates(self, line: re.Match[bytes], record: Record) -> bool:
        """Return whether a string in a record of it could imitate the record's end and further records."""
        if not getattr(record, "complete", True) and (self.arguments is not None or self.address is not None):
            return True  # it contradicts the known facts about the event
        room = self.room
        if room.is_open or (room.is_open_bare and line.re in (BARE, GRAPH)):
            return not self.is_quoted or b'"' in record.raw
        if room.seal is None:
            return False
        # where columns begin with a blank, no column can be taken for the quote that opens a string
        may_hold = self.address is not None and line.re is not LATENCY
        body = record.raw[line.start("rest") - line.start() :]
        return not room.is_settled(body, len(record.raw), may_hold=may_hold)


class Descriptions:
    """Gives descriptions by name; formats are asked once for each. A definition adds the numbers that only it tells."""

    __slots__ = ("_defined", "_formats", "_known", "is_recent")

    def __init__(self, formats: Formats | None, definitions: Iterable[str]) -> None:
        self._formats = formats
        self._defined = {defined_name(text): definition_of(text) for text in definitions}
        self._known: dict[str, Description] = {}
        self.is_recent = any(one is not None and one.is_recent for one in self._defined.values())
        """Whether a definition says that the kernel prints no hexadecimal number without 0x."""

    def of(self, name: str) -> Description:
        """Give what is known of an event."""
        if (known := self._known.get(name)) is not None:
            return known
        return keep(self._known, name, self._describe(name, self._defined.get(name)))

    def _describe(self, name: str, definition: Definition | None) -> Description:
        text = format_text(self._formats, name)
        known = _UNKNOWN if text is None else _formatted(text)
        if definition is None:
            return known
        if known.arguments is None:
            wide = definition.wide
            return known._replace(arguments=wide, definition=definition, room=definition.room, shown=_strings(wide))
        if known.arguments.names != definition.wide.names:
            return known
        return known._replace(arguments=known.arguments.sealed(definition.wide), room=definition.room)


def _room(arguments: Arguments) -> Room:
    strings = sum(conversion.count("%s") for _, conversion in arguments.items)
    return Room(strings, strings > 0, strings > 0)


def _strings(arguments: Arguments) -> Mapping[str, bool]:
    return {name: "%s" in conversion for name, conversion in arguments.items}


def _formatted(text: str | bytes) -> Description:
    try:
        form = parse_format(text)
    except ValueError:
        return _UNKNOWN  # a trace is read as well as it can be; a bad format counts as none
    fields = [field for field in form.fields if "char" in field.type and field.length is not None]
    arguments = arguments_of(form.print_fmt)
    is_open = any(field.length == "" or field.size >= _ROOM for field in fields)
    texts = frozenset(field.name for field in fields)
    # %s is also how the kernel prints flags and symbols, which are numbers in the record
    others = frozenset(field.name for field in form.fields) - texts
    specs = _PRINTED.findall(form.print_fmt)
    printed = {name: spec == "s" and bool(texts) and name not in others for name, spec in specs}
    return Description(
        arguments,
        None,
        texts,
        frozenset(field.name for field in form.fields if field.signed),
        Room(len(texts), is_open, bool(texts)) if arguments is None else _room(arguments),
        printed if arguments is None else _strings(arguments),
    )
