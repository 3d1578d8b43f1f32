"""Arguments of an event whose format isn't known, or that isn't a probe's, recognised by their shape.

Without the format two things are guesses. Up to 3.13, numbers of unsigned types are hexadecimal without ``0x``: where
the kernel may be that old, ``flags=8241`` is read as decimal, and ``raw=fffe`` stays text (fixtures/text/3.2). And a
string may end at more than one place.
"""

import re
from collections.abc import Collection
from typing import Final, TypeAlias

from kprobe_text.text.arguments import decode
from kprobe_text.text.code_address import code_address
from kprobe_text.text.records import FAULT, NONE, Value

_NAME = re.compile(rb" ([A-Za-z_]\w*)=")
# A string ends where another argument or nothing follows; a quote before anything else belongs to the string.
_CLOSE = re.compile(rb"\"(?= [A-Za-z_]\w*=[\"'({\-0-9A-Za-z_]|\r?\Z)")
# An argument that one pattern recognises: a decimal number, one with 0x, numbers in braces, other text without quotes,
# or the quote that begins a string. The number of the last group says which.
_ONE = rb"(?:-?\d{1,20}+|0x[0-9a-f]{1,16}+)"
_ARGUMENT = re.compile(
    rb" ([A-Za-z_]\w*)=(?:(?:(-?\d{1,20}+)|0x([0-9a-f]{1,16}+))(?= (?!\[)|\r?\Z)|"
    rb"\{(" + _ONE + rb"(?:," + _ONE + rb"){0,63})\}|"
    rb"([^\s\"{}']++(?: \[[^\]\s]+\])?)(?= |\r?\Z)|(\"))"
)
_DECIMAL: Final = 2
_ARRAY: Final = 4
_BARE: Final = 5
_STRING: Final = 6
_CHARACTER = re.compile(rb"'(.)'", re.S)
_ELEMENT = re.compile(rb"[{,](?:'(.)'(?=[,}])|\"(.*?)\"(?=[,}])|([^,{}\"']++))", re.S)
_QUOTED = rb"\"[^\"]*+(?:\"(?![,}])[^\"]*+)*\"(?=[,}])"
_WHOLE = re.compile(rb"(?=\{)(?:[{,](?>'.'(?=[,}])|" + _QUOTED + rb"|[^,{}\"']++)){1,64}\}", re.S)
_NUMBER = re.compile(rb"(-?\d{1,20})|0x([0-9a-f]{1,16})")
_HEXADECIMAL = re.compile(rb"[0-9a-f]{1,16}")
_FIRST = re.compile(rb"(?:^|(?<=[ ,]))([A-Za-z_]\w*)=")
_NEXT = re.compile(rb" (?:==> )?([A-Za-z_]\w*)=")
_BOTH = re.compile(rb"(0x[0-9a-f]{1,16}) \((-?\d{1,20})\)")
_FAULT = b"(fault)"
_QUOTE: Final = 34

# An event has at most this many arguments (MAX_TRACE_ARGS): what looks like one more belongs to the last value. (An
# array has at most 64 elements, MAX_ARRAY_LEN.)
_MOST: Final = 128

# No kernel prints more pairs for an event that isn't a probe's: its text has 1024 bytes (TRACE_BUF_SIZE).
_PAIRS: Final = 256

# Before the arguments are given up: how often the end of a string may be moved, how many bytes may be searched for
# that, and how many arguments read again. A hostile string can offer many ends.
_TRIES: Final = 64
_TRIED: Final = 1 << 15
_AGAIN: Final = 200

# How sure a value is: certain; possibly another; nothing that a kernel prints, so its text is kept.
_SURE: Final = 0
_GUESS: Final = 1
_UNREAD: Final = 2


Reading: TypeAlias = tuple[dict[str, Value], frozenset[str], bool, bool, bool]
"""What was read of a text: the fields, ``guessed`` and ``complete`` as in Event, then whether the text is that of
arguments, to the end, and whether it breaks off within a string."""

# An argument: its name, where its value begins and ends, the value, how sure it is, and whether it is a string.
_Argument: TypeAlias = tuple[str, int, int, Value, int, bool]


def scalar(text: bytes) -> Value:
    """Read one unquoted value."""
    number = _NUMBER.fullmatch(text)
    if number is not None:
        return int(number[1]) if number[1] else int(number[2], 16)
    return _word(text)


def _word(text: bytes) -> Value:
    """Read one unquoted value that isn't a number."""
    if text == _FAULT:
        return FAULT
    if b"+0x" in text and (place := code_address(decode(text))) is not None:
        return place
    return decode(text)


def _bare(text: bytes, *, decimal: bool) -> tuple[Value, int]:
    """Read one unquoted value; return how sure it is, too."""
    number = _NUMBER.fullmatch(text)
    if number is None:
        value = _word(text)
        if isinstance(value, str):
            return value, _GUESS if _HEXADECIMAL.fullmatch(text) else _UNREAD
        return value, _SURE
    digits = number[1]
    if not digits:
        return int(number[2], 16), _SURE
    # one digit is the same in both bases, and hexadecimal numbers have no sign and at most 16 digits
    sure = decimal or len(digits) == 1 or digits[0] == 45 or len(digits) > 16
    return int(digits), _SURE if sure else _GUESS


def _array(body: bytes, position: int) -> tuple[Value, int, int] | None:
    whole = _WHOLE.match(body, position)
    if whole is None:
        return None
    values: list[Value] = []
    doubt, strings = _SURE, 0
    while (element := _ELEMENT.match(body, position, whole.end())) is not None:
        position = element.end()
        character, string, bare = element.groups()
        if bare:
            # a kernel that prints arrays prints no numbers without 0x that aren't decimal
            value, sure = _bare(bare, decimal=True)
            if sure:
                if sure == _UNREAD:
                    return None
                doubt = sure
            values.append(value)
        else:
            values.append(decode(string if character is None else character))
            strings += character is None
    # one string may contain the end of another
    return tuple(values), whole.end(), _GUESS if strings > 1 else doubt


def _numbers(text: bytes) -> tuple[int, ...]:
    parts = text.split(b",")
    return tuple([int(part, 16 if b"x" in part else 10) for part in parts] if b"x" in text else map(int, parts))


def _argument(body: bytes, position: int, decimal: bool) -> _Argument | None:
    """Read the argument at a position; None if there is none, or its value has no form that a kernel prints."""
    found = _ARGUMENT.match(body, position)
    if found is None:
        return _rare(body, position)
    kind, end = found.lastindex, found.end()
    label = found[1].decode()
    if kind == _DECIMAL:
        digits = found[2]
        # one digit is the same in both bases, and hexadecimal numbers have no sign and at most 16 digits
        sure = decimal or len(digits) == 1 or digits[0] == 45 or len(digits) > 16
        return label, found.start(2), end, int(digits), _SURE if sure else _GUESS, False
    if kind == _BARE:
        return label, found.start(5), end, *_bare(found[5], decimal=decimal), False
    if kind == _ARRAY:
        return label, found.start(4) - 1, end, _numbers(found[4]), _SURE, False
    if kind == _STRING:
        close = _CLOSE.search(body, end)
        if close is None:
            return None
        return label, end - 1, close.end(), decode(body[end : close.start()]), _SURE, True
    return label, found.start(3) - 2, end, int(found[3], 16), _SURE, False


def _rare(body: bytes, position: int) -> _Argument | None:
    """Read an argument that is a character, or an array of characters, strings or places."""
    name = _NAME.match(body, position)
    if name is None:
        return None
    start = name.end()
    if body[start : start + 1] == b"{":
        read = _array(body, start)
        return None if read is None else (name[1].decode(), start, read[1], read[0], read[2], False)
    character = _CHARACTER.match(body, start)
    if character is None:
        return None
    return name[1].decode(), start, character.end(), decode(character[1]), _SURE, False


class ArgumentGuesser:
    """Reads arguments, and keeps the last results: broken text is asked for often."""

    __slots__ = ("_asked", "_earlier", "_last", "_pairs")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the last text."""
        self._last = self._earlier = b"", False, attempted(b"")
        self._asked: tuple[bytes, Collection[str], Collection[str]] = b"", (), ()
        self._pairs = pairs(b"")

    def read(self, body: bytes, *, decimal: bool, is_trial: bool = False) -> Reading:
        """Read `` name=value`` pairs; ``decimal`` says that numbers without ``0x`` are decimal for sure.

        If the pairs can't be read to the end, the text that isn't understood is the value of the name before it, and
        all that follows is a guess. The caller may change the fields. A trial is of text that is read to the end.
        """
        if body != self._last[0] or decimal != self._last[1]:
            last, self._last = self._last, self._earlier
            self._earlier = last
            if body != self._last[0] or decimal != self._last[1]:
                self._last = body, decimal, attempted(body, decimal=decimal)
        found, whole, opens = self._last[2]
        if not whole and is_trial:
            return {}, NONE, False, False, opens
        return _finished(body, found, whole, opens, decimal)

    def pairs(self, body: bytes, texts: Collection[str], signed: Collection[str]) -> tuple[dict[str, Value], bool]:
        """Do the same as the function `pairs`; the caller may change the dict."""
        asked = body, texts, signed
        if asked != self._asked:
            self._asked, self._pairs = asked, pairs(body, texts, signed)
        fields, complete = self._pairs
        return fields.copy(), complete


def attempted(body: bytes, *, decimal: bool = False) -> tuple[list[_Argument], bool, bool]:
    """Read pairs as far as they can be read; say whether that is to the end, and whether a string has no end."""
    found: list[_Argument] = []
    names: set[str] = set()
    best: list[_Argument] | None = None
    opens = False
    end = len(body) - (body[-1:] == b"\r")
    position = again = 0
    for _ in range(min(_TRIES, 1 + _TRIED // (end + 1))):
        while position < end and (argument := _argument(body, position, decimal)) is not None:
            label = argument[0]
            if label in names or len(found) == _MOST:
                break  # the kernel lets no two arguments have the same name
            names.add(label)
            found.append(argument)
            position = argument[2]
        if position == end:
            return found, True, False
        opens = opens or _opens(body, position, names)
        if best is None:
            best = list(found)
        again += len(found)
        moved = _moved(body, found) if again < _AGAIN else None
        if moved is None:
            break
        names = {argument[0] for argument in found}
        position = moved
    return best or [], False, opens


def _finished(body: bytes, found: list[_Argument], whole: bool, opens: bool, decimal: bool) -> Reading:
    """Go on after the pairs that were read, if that isn't to the end."""
    if not whole:
        found = _further(body[: len(body) - (body[-1:] == b"\r")], found.copy(), decimal=decimal)
    return _reading(body, found, whole=whole, opens=opens)


def _opens(body: bytes, position: int, names: set[str]) -> bool:
    """Return whether a string without an end begins at a position."""
    name = _NAME.match(body, position)
    if name is None or body[name.end() : name.end() + 1] != b'"' or name[1].decode() in names:
        return False
    return _CLOSE.search(body, name.end() + 1) is None


def _moved(body: bytes, found: list[_Argument]) -> int | None:
    """Let the last string that can end later do so; drop what was found after it and say where it ends now."""
    while found:
        label, start, end, _, _, string = found.pop()
        if string and (close := _CLOSE.search(body, end)) is not None:
            found.append((label, start, close.end(), decode(body[start + 1 : close.start()]), _SURE, True))
            return close.end()
    return None


def _further(body: bytes, found: list[_Argument], *, decimal: bool) -> list[_Argument]:
    """Go on after the pairs that were understood: each new name ends the value before it, whatever that is."""
    position = at = found[-1][2] if found else 0
    names = {argument[0] for argument in found}
    cuts: list[tuple[str, int, int]] = []
    for name in dict.fromkeys(_NAME.findall(body, position)):
        if len(names) == _MOST:
            break
        label = name.decode()
        if label not in names:
            names.add(label)
            at = body.index(b" " + name + b"=", at)
            cuts.append((label, at, at + len(name) + 2))
    following = cuts[0][1] if cuts else len(body)
    if found and following > position:
        label, start, *_ = found.pop()
        found.append((label, start, following, decode(body[start:following]), _UNREAD, False))
    ends = [at for _, at, _ in cuts[1:]] + [len(body)]
    add = found.append
    for (label, at, start), end in zip(cuts, ends, strict=False):
        if start == end == len(body):
            break  # the kernel broke off after the name
        if end - start > 1 and body[start] == body[end - 1] == _QUOTE:
            add((label, start, end, decode(body[start + 1 : end - 1]), _GUESS, True))
        elif (read := _argument(body[at:end], 0, decimal)) is None or read[2] != end - at:
            add((label, start, end, decode(body[start:end]), _UNREAD, False))
        else:
            add((label, start, end, read[3], read[4] or _GUESS, False))
    return found


def _reading(body: bytes, found: list[_Argument], *, whole: bool, opens: bool) -> Reading:
    fields: dict[str, Value] = {}
    guessed: list[str] = []
    complete = whole
    first = last = -1
    ends = True  # a string may end after this
    for i, (label, _, end, value, doubt, string) in enumerate(found):
        fields[label] = value
        if doubt:
            guessed.append(label)
            complete = complete and doubt != _UNREAD
        if string:
            last = i
            if first < 0 and ends and end < len(body):
                ends = _CLOSE.search(body, end) is not None
                first = i if ends else first
    if first >= 0:
        # what stands from the first string that may end elsewhere to the last string may all belong to the first
        guessed += [argument[0] for argument in found[first : last + 1]]
    return fields, frozenset(guessed) if guessed else NONE, complete, whole, opens


def pairs(body: bytes, texts: Collection[str] = (), signed: Collection[str] = ()) -> tuple[dict[str, Value], bool]:
    """Read ``name=value`` pairs from the text of any event, and say whether there was nothing else.

    A value ends where the next name begins, unless that is one more than an event has. Option ``fields`` prints
    ``0xffffff9c (-100)``: the names in ``signed`` take the second number. The values of the names in ``texts`` aren't
    numbers, even if they look like it.
    """
    body = body.removesuffix(b"\r")
    pair = _FIRST.search(body)
    if pair is None:
        return {}, not body
    first, *parts = _NEXT.split(body[pair.end() :], _PAIRS - 1)
    labels, values = [pair[1], *parts[::2]], [first, *parts[1::2]]
    if len(set(labels)) < len(labels):
        labels, values = _once(body, pair)
    last = len(labels) - 1
    found: dict[str, Value] = {}
    known: dict[bytes, Value] = {}
    for i, (name, value) in enumerate(zip(b"=".join(labels).decode().split("="), values, strict=True)):
        if value[-1:] == b"," and i < last:
            value = value[:-1]
        if name in texts:
            found[name] = decode(value)
        elif value in known:
            found[name] = known[value]
        elif value[-1:] == b")" and (both := _BOTH.fullmatch(value)) is not None:
            found[name] = int(both[2]) if name in signed else int(both[1], 16)
        else:
            found[name] = known[value] = scalar(value)
    return found, pair.start() == 0 and last + 1 < _PAIRS


def _once(body: bytes, pair: re.Match[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Cut pairs apart; a repeated name belongs to the value before it."""
    start = pair.end()
    labels, values = list(dict.fromkeys([pair[1], *_NEXT.findall(body, start)]))[:_PAIRS], []
    for label in labels[1:]:
        end = body.index(b" " + label + b"=", start)
        values.append(body[start:end].removesuffix(b" ==>"))
        start = end + len(label) + 2
    return labels, [*values, body[start:]]
