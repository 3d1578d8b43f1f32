"""The user's text of a probe, and the probe that it means.

The language is that of the kernel's kprobe_events, plus the shorthand of perf-tools: the name may be left out, and the
probe is then called after its function::

    p:do_sys_open                       p:do_sys_open do_sys_open
    r:do_sys_open $retval               r:do_sys_open do_sys_open $retval
    p:myopen do_sys_open mode=%cx:u16   as it stands

This module knows what the user means.  What a kernel accepts is the kernel's to say: fetch arguments are passed on
as they are, and so are offsets and maxactive numbers outside any kernel's range.
"""

from __future__ import annotations

from .errors import DefinitionError

GROUP = "kprobes"  # the kernel's default group
NAME_MAX = 63  # MAX_EVENT_NAME_LEN is 64 with the NUL, in every kernel that checks
BLANKS = " \t\n\v\f\r"  # what the kernel splits at (isspace)
START = "a probe starts with p: or r:"
NO_NAME = "a name begins with a letter or _, and holds letters, digits and _"
RETURN = "%return"  # the suffix of a place
NO_FUNCTION = "this is not a function's name, which holds letters, digits, _ and ."
OTHERS = {
    "P": "in lower case",
    "R": "in lower case",
    "t": "and t: (a tracepoint probe) isn't for kprobe",
    "f": "and f: (a function probe) isn't for kprobe",
    "e": "and e: (an event probe) isn't for kprobe",
    "u": "and u: (a user-space probe) isn't for kprobe",
    "-": "and what kprobe adds it removes itself",
}


class Place:
    """Where a probe sits: a symbol with module and offset, or an address; `returns` is the suffix %return."""

    __slots__ = ("address", "module", "offset", "returns", "symbol")

    symbol: str
    module: str
    offset: int
    address: int | None
    returns: bool

    def __init__(
        self, symbol: str = "", module: str = "", offset: int = 0, address: int | None = None, returns: bool = False
    ) -> None:
        _set(self, symbol=symbol, module=module, offset=offset, address=address, returns=returns)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} can't be set")

    def _key(self) -> tuple[object, ...]:
        return (self.symbol, self.module, self.offset, self.address, self.returns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Place({str(self)!r})"

    def __str__(self) -> str:
        if self.address is not None:
            text = f"{self.address:#x}"
        else:
            text = f"{self.module}:{self.symbol}" if self.module else self.symbol
            if self.offset:
                text += f"{self.offset:+d}"
        return text + (RETURN if self.returns else "")


class Probe:
    """One probe; `str(probe)` is the line to write to kprobe_events, without the newline.

    `kind` is "p" or "r" as written; `maxactive` is None if not given; `args` are the fetch arguments, each as written.
    `is_named`: the name is the user's own choice, and so isn't changed.
    """

    __slots__ = ("args", "group", "is_named", "kind", "maxactive", "name", "place")

    kind: str
    name: str
    place: Place
    args: tuple[str, ...]
    group: str
    maxactive: int | None
    is_named: bool

    def __init__(
        self,
        kind: str,
        name: str,
        place: Place,
        args: tuple[str, ...] = (),
        group: str = GROUP,
        maxactive: int | None = None,
        is_named: bool = True,
    ) -> None:
        _set(self, kind=kind, name=name, place=place, args=args, group=group, maxactive=maxactive, is_named=is_named)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} can't be set")

    @property
    def event(self) -> str:
        """The event's directory below events/: "kprobes/myopen"."""
        return f"{self.group}/{self.name}"

    def in_group(self, group: str) -> Probe:
        """Return the same probe with its event in another group."""
        return Probe(self.kind, self.name, self.place, self.args, group, self.maxactive, self.is_named)

    def called(self, name: str) -> Probe:
        """Return the same probe with its event under another name."""
        return Probe(self.kind, name, self.place, self.args, self.group, self.maxactive, self.is_named)

    @property
    def is_return(self) -> bool:
        """True if the probe fires when the function returns."""
        return self.kind == "r" or self.place.returns

    def _key(self) -> tuple[object, ...]:
        return (self.kind, self.maxactive, self.group, self.name, self.place, self.args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Probe) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Probe({str(self)!r})"

    def __str__(self) -> str:
        number = "" if self.maxactive is None else str(self.maxactive)
        event = self.name if self.group == GROUP else self.event
        return " ".join((f"{self.kind}{number}:{event}", str(self.place), *self.args))


def _words(text: str) -> list[tuple[int, str]]:
    """Return the words of a definition with their columns; there is at least one."""
    for bad, what in (("\n", "a newline: give one probe"), ("\0", "a NUL character")):
        if bad in text.rstrip(BLANKS):
            raise DefinitionError(f"the definition holds {what}", text, text.index(bad))
    words = _split(text)
    if not words:
        raise DefinitionError("the definition is empty", text, 0)
    return words


def _group_and_place(text: str, column: int, event: str) -> tuple[str, str]:
    """Take [GROUP/]PLACE apart, which stands where an event could: the shorthand."""
    group, slash, place = event.rpartition("/")
    if slash and not place:
        raise DefinitionError("a place is missing: which function?", text, len(text.rstrip(BLANKS)))
    if slash and not _is_name(group, "-"):
        raise DefinitionError("this is neither [GROUP/]EVENT nor a place", text, column)
    return group, place


def parse(text: str) -> Probe:
    """Return the probe that `text` means; raise `DefinitionError` with the column of what can't be meant."""
    words = _words(text)
    start, head = words[0]
    kind, maxactive, column, event = _head(text, start, head)
    rest = words[1:]
    if event and rest and _is_event(event) and not _is_argument(rest[0][1]):
        named = True
    elif event:
        named = False
        group, place = _group_and_place(text, column, event)
        rest = [(column + len(event) - len(place), place), *rest]
    else:
        named, group = False, ""
    if not rest:
        raise DefinitionError("a place is missing: which function?", text, len(text.rstrip(BLANKS)))
    place_column, place_text = rest[0]
    if event and not named and len(rest) > 1 and not _is_argument(rest[1][1]) and ":" not in event:
        _no_name(text, column, event)
    place_ = _place(text, place_column, place_text)
    args = tuple(word for _, word in rest[1:])
    if named:
        group, name = _event(text, column, event)
    else:
        name = ""
    is_named = bool(name)
    if not name:
        short = bool(event) and not named
        name = _generated(kind, place_, short)
    return Probe(kind, name, place_, args, group or GROUP, maxactive, is_named)


def _head(text: str, start: int, head: str) -> tuple[str, int | None, int, str]:
    """Split "r10:grp/name" into kind, maxactive, the column of the event and the event."""
    kind, colon, event = head[0], head.find(":"), ""
    number = head[1:]
    if colon >= 0:
        number, event = head[1:colon], head[colon + 1 :]
    if kind not in ("p", "r"):
        other = OTHERS.get(kind, "") if colon == 1 else ""
        raise DefinitionError(f"{START}, {other}" if other else START, text, start)
    if not number:
        return kind, None, start + colon + 1, event
    value = _number(number)
    if value is None or number[0] in "+-":
        raise DefinitionError("a probe starts with p: or r: or rN:, N a number", text, start + 1)
    if kind == "p":
        raise DefinitionError("maxactive is for return probes (r) only", text, start + 1)
    return kind, value, start + colon + 1, event


def _is_event(text: str) -> bool:
    """True if `text` can be [GROUP/]EVENT, GROUP/ or GROUP.EVENT."""
    group, name = _halves(text)
    return (not group or _is_name(group, "-")) and (_is_name(name) or (bool(group) and not name))


def _halves(text: str) -> tuple[str, str]:
    """Split at the first slash, else at the first dot, as kernels do from 6.0."""
    for mark in "/.":
        group, found, name = text.partition(mark)
        if found:
            return group, name
    return "", text


def _event(text: str, column: int, event: str) -> tuple[str, str]:
    group, name = _halves(event)
    for part, where in ((group, column), (name, column + len(event) - len(name))):
        if len(part) > NAME_MAX:
            raise DefinitionError(f"a group or event name has at most {NAME_MAX} characters", text, where)
    return group, name


def _no_name(text: str, column: int, event: str) -> None:
    """Raise if a word that stands before a place can be neither an event's name nor itself a place with an offset."""
    at = min((event.find(mark) for mark in "+-" if mark in event), default=len(event))
    if _number(event[at:]) is None and not (at == len(event) and event[0].isdigit() and _number(event) is not None):
        bad = next((index for index, char in enumerate(event) if not _is_name("a" + char)), 0)
        raise DefinitionError(NO_NAME, text, column + bad)


def _is_name(text: str, extra: str = "") -> bool:
    """True for a C identifier; `extra` characters may stand anywhere."""
    plain = text.translate({ord(mark): "_" for mark in extra})
    return plain.isascii() and plain.isidentifier()


def _is_argument(word: str) -> bool:
    """True if the word after the head is a fetch argument and so can't be the place."""
    if word.endswith(RETURN) and not any(mark in word for mark in "=$(@"):
        return False
    return word[0] in "@+-\\" or any(mark in word for mark in "=%$>")


def _place(text: str, column: int, word: str) -> Place:
    for index, mark in enumerate(word):
        if mark in ";*?[":
            what = "one probe at a time" if mark == ";" else "a kprobe is at one function: wildcards aren't taken"
            raise DefinitionError(what, text, column + index)
    if "/" in word:
        raise DefinitionError("a kernel place holds no slash (that would be a user-space probe)", text, column)
    body, percent, suffix = word.partition("%")
    if percent and percent + suffix != RETURN:
        raise DefinitionError(f"the only suffix of a place is {RETURN}", text, column + len(body))
    returns = bool(percent)
    address = _number(body)
    if address is not None and body[0] not in "+-" and address < 1 << 64:
        return Place(address=address, returns=returns)
    module, colon, name = body.rpartition(":")
    at = min((name.find(mark) for mark in "+-" if mark in name), default=len(name))
    symbol, offset_text = name[:at], name[at:]
    if colon and not _is_module(module):
        raise DefinitionError("this is not MODULE:SYMBOL", text, column)
    where = column + len(module) + len(colon)
    if not symbol or symbol[0].isdigit() or not symbol.isprintable() or any(mark in symbol for mark in "=(),;#\"'"):
        raise DefinitionError(NO_FUNCTION, text, where)
    offset = 0
    if offset_text:
        value = _number(offset_text)
        if value is None:
            what = (
                "" if offset_text[1:2].isdigit() or not offset_text[1:] else "; a name holds letters, digits and _ only"
            )
            raise DefinitionError(f"this is not an offset{what}", text, where + at)
        offset = value
    return Place(symbol, module, offset, returns=returns)


def _is_module(name: str) -> bool:
    return bool(name) and name.replace("_", "a").replace("-", "a").isalnum() and name.isascii()


def _generated(kind: str, place: Place, short: bool) -> str:
    """Name a probe that the user didn't name.

    perf-tools' shorthand uses the function's own name; where that isn't possible, and for `p SYM`, the name is the
    kernel's: p_SYM_OFFSET, with "_" for what a name can't hold.
    """
    if place.address is not None:
        name = f"{kind}_{place.address:#x}"
    elif short and not place.offset:
        name = place.symbol
    else:
        full = f"{place.module}:{place.symbol}" if place.module else place.symbol
        name = f"{kind}_{full}_{place.offset}"
    clean = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in name)
    return clean[:NAME_MAX]


def _number(text: str) -> int | None:
    """Read a number as the kernel's kstrtol does with base 0: 0x is hexadecimal, a leading 0 octal."""
    sign = -1 if text.startswith("-") else 1
    digits = text[1:] if text[:1] in ("+", "-") else text
    base, body = 10, digits
    if digits[:2].lower() == "0x":
        base, body = 16, digits[2:]
    elif digits[:1] == "0":
        base = 8
    allowed = "0123456789abcdef"[:base]
    if not 0 < len(body) < 100 or any(char not in allowed for char in body.lower()):
        return None
    return sign * int(body, base)


def _split(text: str) -> list[tuple[int, str]]:
    """Split at the kernel's blanks; each word with its column."""
    words: list[tuple[int, str]] = []
    start = -1
    for column, char in enumerate(text + " "):
        if char in BLANKS:
            if start >= 0:
                words.append((start, text[start:column]))
            start = -1
        elif start < 0:
            start = column
    return words


def _set(value: object, **fields: object) -> None:
    for name, field in fields.items():
        object.__setattr__(value, name, field)
