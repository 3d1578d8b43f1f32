"""The arguments of a probe's event, read with the ``print fmt`` of its format file."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from kprobe_text.text.code_address import code_address
from kprobe_text.text.records import FAULT, NONE, Value

# Only the group of a string can be None.
Convert: TypeAlias = Callable[[Any], Value]
Reader: TypeAlias = Callable[[str], dict[str, Value] | None]

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
_PLACES = re.compile(r"\(%lx(?: <- %lx)?\)")
# %n isn't the kernel's: a number in whichever base its text shows (see descriptions)
_SPEC = r"\"%s\"|'%c'|%pS|%n|(?:0x)?%(?:hh|h|ll|l|L)?[dux]"
_ITEM = re.compile(rf" (\w+)=({_SPEC}|\{{(?:{_SPEC})(?:,(?:{_SPEC}))*\}})")
_ELEMENT = re.compile(_SPEC)
# texts are read as Latin-1, a character for each byte: text is quicker to turn into values than bytes are
_FLAGS: Final = re.ASCII | re.DOTALL
# how long hexadecimal numbers may be that are kept with their values, and how many are kept
_SHORT: Final = 9
_ROWS: Final = 1024
_UNNAMED = re.compile(rb" \w++=\Z")
_LABEL = re.compile(rb" ([^ =]++)=")
_CLOSING = re.compile(rb"\" ([^ =]++)=")
# a number of at least this many bits can't be guessed by whoever writes a string
_SEAL: Final = 28


def decode(text: bytes) -> str:
    """Turn the kernel's bytes into text that can be turned back."""
    return text.decode("utf-8", "surrogateescape")


class _NotDecoded(Exception):
    """A text that has the look of a value and isn't one."""


def utf8(text: str) -> str:
    """Turn text that was read as Latin-1, a character for each byte, into what `decode` makes of the bytes."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")


def _text(text: str | None) -> Value:
    return FAULT if text is None else utf8(text)


_decimal: Final[Convert] = int
_hexadecimal: Final[Convert] = partial(int, base=16)
_number: Final[Convert] = partial(int, base=0)


def _symbol(text: str) -> Value:
    place = code_address(utf8(text))
    if place is None or (place.offset is None and place.address is None):
        raise _NotDecoded
    return place if place.symbol else place.address or 0


def _numbers(convert: Convert) -> Convert:
    return lambda text: tuple(map(convert, text.split(",")))


def _characters(text: str) -> Value:
    return tuple(utf8(text[i]) for i in range(1, len(text), 4))


def _strings(length: int) -> Convert:
    one = r'(?>"(.*?)"(?=,["(]|\Z)|\(fault\))'
    pattern = re.compile(",".join([one] * length), _FLAGS)

    def convert(text: str) -> Value:
        parts = pattern.fullmatch(text)
        if parts is None:
            raise _NotDecoded
        return tuple(_text(part) for part in parts.groups())

    return convert


def _scalar(spec: str) -> tuple[str, Convert]:
    """Give the pattern, with one group, and the meaning of that group, for a conversion that isn't a string."""
    if spec == "'%c'":
        return r"'(.)'", _text
    if spec == "%pS":
        return r"([^\s,{}]+(?: \[[^\]\s]+\])?)", _symbol
    if spec[0] == "=":  # one number, in each way to print it (see descriptions)
        return f"({spec[1:]})", _number
    if spec == "%n":
        return r"(0x[0-9a-f]{1,16}+|-?(?:0|[1-9][0-9]{0,19}+))", _number
    if spec[-1] == "x":
        return ("0x" if spec.startswith("0x") else "") + "([0-9a-f]{1,16}+)", _hexadecimal
    return r"(-?[0-9]{1,20}+)", _decimal


def _array(specs: list[str]) -> tuple[str, Convert]:
    if specs[0] == '"%s"':
        # as below: the end once found is kept, since trying all of them has no bound worth having
        return r"\{(?>(.*?)\}(?= \w+=|\Z))", _strings(len(specs))
    if specs[0] == "'%c'":
        return r"\{(" + ",".join(["'.'"] * len(specs)) + r")\}", _characters
    pattern, convert = _scalar(specs[0])
    # int(…, 16) reads the 0x of each element too
    pattern = pattern.replace("(", "(?:", 1)
    return r"\{(" + ",".join([pattern] * len(specs)) + r")\}", _numbers(convert)


def _following(items: list[tuple[str, str]]) -> str:
    """Give the pattern of what stands after a string, as far as the next."""
    pattern = ""
    for name, spec in items:
        pattern += f" {name}=".encode().decode("latin-1")
        if spec == '"%s"':
            return pattern + r'(?:"|\(fault\))'
        if spec[0] == "{":
            return pattern + r"\{"
        pattern += _scalar(spec)[0].replace("(", "(?:", 1)
    return pattern


def _reader(pattern: str, plain: str, names: list[str], converts: list[Convert]) -> Reader:
    """Write the function that reads a text into a dict: spelled out, it takes a third of the time of a loop.

    ``plain`` is the pattern of most texts, whose strings have no quote in them: nothing in those is ambiguous, so it
    matches as ``pattern`` does.
    """
    items = []
    for i, (name, convert) in enumerate(zip(names, converts, strict=True)):
        if convert is _decimal:
            call = f"int(a{i})"
        elif convert is _hexadecimal:
            call = f"h[a{i}] if a{i} in h else hexadecimal(a{i})"
        elif convert is _text:
            call = f"FAULT if a{i} is None else a{i} if a{i}.isascii() else utf8(a{i})"
        else:
            call = f"c[{i}](a{i})"
        items.append(f"{name!r}: {call}")
    values = "".join(f"a{i}, " for i in range(len(names)))
    # the names are words (_ITEM); nothing else comes from outside
    source = f"""
def read(body):
    p = plain(body) or fullmatch(body)
    if p is None:
        # a file whose lines end with CR LF has one character more
        p = fullmatch(body[:-1]) if body[-1:] == "\\r" else None
        if p is None:
            return None
    try:
        {values + "= p.groups()" if names else "pass"}
        return {{{", ".join(items)}}}
    except NotDecoded:
        return None
"""
    # for flags, modes and the like, as int(…, 16) costs as much as half of all that is done here
    table: dict[str, int] = {}

    def hexadecimal(text: str) -> int:
        value = int(text, 16)
        if len(text) < _SHORT and len(table) < _ROWS:
            table[text] = value
        return value

    scope: dict[str, Any] = {
        "h": table, "hexadecimal": hexadecimal,
        "plain": re.compile(plain, _FLAGS).fullmatch, "fullmatch": re.compile(pattern, _FLAGS).fullmatch,
        "c": converts, "utf8": utf8, "FAULT": FAULT, "NotDecoded": _NotDecoded,
    }  # fmt: skip
    exec(source, scope)
    read: Reader = scope["read"]
    return read


class Arguments:
    """Reads the text after a probe's place into its arguments.

    A single string argument is exact whatever it holds, since what stands before and after it is known. If there are
    several, each but the last ends at the first place where the rest still fits; if there is another such place, they
    are guesses.
    """

    __slots__ = ("_items", "_opening", "_parts", "_refused", "_texts", "ends", "names", "read_text")

    def __init__(self, items: list[tuple[str, str]]) -> None:
        strings = [i for i, (_, spec) in enumerate(items) if spec == '"%s"']
        pattern = plain = ""
        opening = None
        converts: list[Convert] = []
        for i, (name, spec) in enumerate(items):
            label = f" {name}=".encode().decode("latin-1")
            pattern += label
            plain += label
            if spec == '"%s"':
                opening = opening or pattern + '"'
                plain += '(?:"([^"]*+)"|\\(fault\\))'
                if i == strings[-1]:
                    pattern += r'(?:"(.*)"|\(fault\))'
                else:
                    # no way back into a string: trying all ends of each has no bound worth having
                    pattern += r'(?>"(.*?)"(?=' + _following(items[i + 1 :]) + r")|\(fault\))"
                converts.append(_text)
                continue
            part, convert = _array(_ELEMENT.findall(spec)) if spec[0] == "{" else _scalar(spec)
            pattern += part
            plain += part
            converts.append(convert)
        if any("'" in spec or (spec[0] == "{" and '"' in spec) for _, spec in items):
            plain = pattern  # quotes that aren't a string's
        self.read_text = _reader(pattern, plain, [name for name, _ in items], converts)
        """Reads the arguments in a text that was read as Latin-1; None if it has anything else, or not all of them."""
        self._opening = re.compile(opening.encode("latin-1"), re.S).match if opening else None
        self._refused: bytes | None = None  # the last text that isn't that of the arguments
        self._items = items
        self.names = [name for name, _ in items]
        self._texts = [i for i, (_, spec) in enumerate(items) if '"%s"' in spec]
        # how each string ends but the last
        self.ends = tuple(
            (b'" ' if items[i][1] == '"%s"' else b"} ") + items[i + 1][0].encode() + b"=" for i in self._texts[:-1]
        )
        self._parts: dict[tuple[tuple[str, str], ...], Arguments] = {}

    def read(self, body: bytes) -> dict[str, Value] | None:
        """Read the arguments; None if the text has anything else, or not all of them."""
        if body == self._refused:
            return None  # broken text is asked for often
        found = self.read_text(body.decode("latin-1"))
        if found is None:
            self._refused = body
        return found

    def sealed(self, other: Arguments) -> Arguments:
        """Take over the numbers that are known beforehand, if the other arguments have the same names."""
        if other.names != self.names or all(spec[0] != "=" for _, spec in other.items):
            return self
        pairs = zip(self._items, other.items, strict=True)
        return Arguments([theirs if theirs[1][0] == "=" else own for own, theirs in pairs])

    @property
    def items(self) -> tuple[tuple[str, str], ...]:
        """The arguments in their order: the name of each and how it is printed."""
        return tuple(self._items)

    def guessed(self, body: bytes) -> frozenset[str]:
        """Name the arguments that are guesses: those between two strings, if the first could end elsewhere."""
        for i, end in zip(self._texts, self.ends, strict=False):
            if body.count(end) > 1:
                return frozenset(self.names[i : self._texts[-1] + 1])
        return NONE

    def partly(self, body: bytes) -> tuple[dict[str, Value], frozenset[str]]:
        """Read as much as possible of a text that isn't that of all the arguments; name those that are guesses.

        A record that the kernel broke off has the first of them. In any other text each argument ends where a later one
        begins; one that can't be decoded has its text as its value, and what follows it is a guess.
        """
        unnamed = _UNNAMED.search(body)
        whole = body if unnamed is None else body[: unnamed.start()]
        labels = set(_LABEL.findall(whole))
        count = next((i for i, name in enumerate(self.names) if name.encode() not in labels), 0)
        if count and (found := (shorter := self._part(self.items[:count])).read(whole)) is not None:
            return found, shorter.guessed(whole)
        cuts = self._cuts(body)
        fields: dict[str, Value] = {}
        guessed: set[str] = set()
        ends = [at for _, at, _ in cuts[1:]] + [len(body)]
        for (i, _, start), end in zip(cuts, ends, strict=False):
            name, text = self.names[i], body[start:end]
            if not text and end == len(body):
                break  # the kernel broke off after the name
            # by the same name for all, of which there are more than ways to print them
            read = self._part((("value", self._items[i][1]),)).read(b" value=" + text)
            fields[name] = decode(text) if read is None else read["value"]
            if guessed or read is None:
                guessed.add(name)
        return fields, frozenset(guessed)

    def _part(self, items: tuple[tuple[str, str], ...]) -> Arguments:
        """Give the reader of some arguments."""
        if (part := self._parts.get(items)) is None:
            part = self._parts[items] = Arguments(list(items))
        return part

    def _cuts(self, body: bytes) -> list[tuple[int, int, int]]:
        """Say where the arguments are: the number of each, where it begins, and where its value begins."""
        cuts: list[tuple[int, int, int]] = []
        position = 0
        labels = _LABEL.findall(body)
        last = dict(zip(labels, range(len(labels)), strict=True))
        passed = 0  # at least this many labels stand before the position
        closing: dict[bytes, int] | None = None  # the last position of each name with a quote before it
        for i, name in enumerate(self.names):
            if last.get(name.encode(), -1) < passed:
                continue
            passed = labels.index(name.encode(), passed) + 1
            label = b" " + name.encode() + b"="
            at = body.find(label, position)
            if cuts and body[cuts[-1][2] : cuts[-1][2] + 1] == b'"':
                # a string's own end is a better sign than a name, which it may hold
                if closing is None:
                    closing = {found[1]: found.start() for found in _CLOSING.finditer(body)}
                if closing.get(name.encode(), 0) > cuts[-1][2]:
                    at = body.index(b'"' + label, cuts[-1][2] + 1) + 1
            if at >= 0:
                position = at + len(label)
                cuts.append((i, at, position))
        return cuts

    def opens(self, body: bytes) -> bool:
        """Say whether text that can't be read may be the beginning of a string with a newline in it."""
        return self._opening is not None and self._opening(body) is not None


def is_seal(spec: str) -> bool:
    """Say whether a conversion is that of a secret number known beforehand (see descriptions)."""
    return spec[0] == "=" and int(spec[1:].partition("|")[0], 16).bit_length() >= _SEAL


def sealing(name: str, spec: str) -> re.Pattern[bytes]:
    """Give the pattern of an argument that is such a number, in each way to print it."""
    return re.compile(f" {name}=(?:{spec[1:]})(?![0-9a-f])".encode())


def arguments_of(print_fmt: str) -> Arguments | None:
    """Make a reader from a print fmt; None if it isn't a probe's, or has an unknown conversion."""
    literal = _LITERAL.match(print_fmt)
    if literal is None:
        return None
    shown = re.sub(r"\\(.)", r"\1", literal[1])
    places = _PLACES.match(shown)
    if places is None:
        return None
    items: list[tuple[str, str]] = []
    position = places.end()
    while (item := _ITEM.match(shown, position)) is not None:
        items.append((item[1], item[2]))
        position = item.end()
    return Arguments(items) if position == len(shown) else None
