"""Arguments of an event whose format isn't known, or that isn't a probe's: told by their look.

What can't be told without the format: on 3.2 and 3.13 numbers of the unsigned types are hexadecimal without ``0x``, so
``flags=8241`` is read as decimal here and ``raw=fffe`` stays text.
"""

import re
from collections.abc import Collection

from kprobe.text.arguments import decode
from kprobe.text.place import find_place
from kprobe.text.records import FAULT, Value

_NAME = re.compile(rb" ([A-Za-z_]\w*)=")
# A string ends where another argument or nothing follows; a quote before anything else belongs to the string.
_CLOSE = re.compile(rb"\"(?= [A-Za-z_]\w*=[\"'({\-0-9A-Za-z_]|\Z)")
_BARE = re.compile(rb"[^\s\"{}']+(?: \[[^\]\s]+\])?(?= |\Z)")
_CHARACTER = re.compile(rb"'(.)'", re.S)
_ELEMENT = re.compile(rb"'(.)'(?=[,}])|\"(.*?)\"(?=[,}])|([^,{}\"']+)", re.S)
_NUMBER = re.compile(rb"(-?\d{1,20})|0x([0-9a-f]{1,16})")
_PAIR = re.compile(rb"(?:^|(?<=[ ,]))([A-Za-z_]\w*)=(.*?)(?=,? (?:==> )?[A-Za-z_]\w*=|\Z)", re.S)
_BOTH = re.compile(rb"(0x[0-9a-f]{1,16}) \((-?\d{1,20})\)")
_FAULT = b"(fault)"

# How often the end of a string may be moved before the arguments are given up: a hostile string can offer many ends.
_TRIES = 100


def scalar(text: bytes) -> Value:
    """Read one unquoted value."""
    number = _NUMBER.fullmatch(text)
    if number is not None:
        return int(number[1]) if number[1] else int(number[2], 16)
    if text == _FAULT:
        return FAULT
    if b"+0x" in text and (place := find_place(decode(text))) is not None:
        return place
    return decode(text)


def _array(body: bytes, position: int) -> tuple[Value, int] | None:
    values: list[Value] = []
    while body[position : position + 1] in (b"{", b","):
        element = _ELEMENT.match(body, position + 1)
        if element is None:
            return None
        character, string, bare = element.groups()
        values.append(scalar(bare) if bare is not None else decode(character if character is not None else string))
        position = element.end()
    return (tuple(values), position + 1) if body[position : position + 1] == b"}" else None


def _value(body: bytes, position: int) -> tuple[Value, int] | None:
    """Read a value that isn't a string, and say where it ends."""
    first = body[position : position + 1]
    if first == b"{":
        return _array(body, position)
    if first == b"'":
        character = _CHARACTER.match(body, position)
        return None if character is None else (decode(character[1]), character.end())
    if body.startswith(_FAULT, position):
        return FAULT, position + len(_FAULT)
    bare = _BARE.match(body, position)
    return None if bare is None else (scalar(bare[0]), bare.end())


def probe_arguments(body: bytes) -> tuple[dict[str, Value], bool, bool]:
    """Read `` name=value`` pairs; say also whether that was all, and whether the text breaks off within a string.

    If the pairs can't be told to the end, the result holds those before the first doubtful one.
    """
    found: list[tuple[str, Value]] = []
    # for each string: how many pairs stand before it, its name, where it begins and where it was last taken to end
    strings: list[tuple[int, str, int, int]] = []
    best: list[tuple[str, Value]] = []
    opens = False
    position = 0
    for _ in range(_TRIES):
        while position < len(body) and (name := _NAME.match(body, position)) is not None:
            label, start = name[1].decode(), name.end()
            if body[start : start + 1] == b'"':
                close = _CLOSE.search(body, start + 1)
                if close is None:
                    opens = True
                    break
                strings.append((len(found), label, start + 1, close.start()))
                found.append((label, decode(body[start + 1 : close.start()])))
                position = close.end()
                continue
            value = _value(body, start)
            if value is None:
                break
            found.append((label, value[0]))
            position = value[1]
        if position == len(body):
            return dict(found), True, False
        best = best or list(found)
        while strings:
            count, label, start, end = strings.pop()
            if (close := _CLOSE.search(body, end + 1)) is not None:
                del found[count:]
                strings.append((count, label, start, close.start()))
                found.append((label, decode(body[start : close.start()])))
                position = close.end()
                break
        else:
            break
    return dict(best), False, opens


def pairs(body: bytes, texts: Collection[str] = (), signed: Collection[str] = ()) -> dict[str, Value]:
    """Read ``name=value`` pairs from the text of any event; a value ends where the next name begins.

    Of ``0xffffff9c (-100)``, which option fields prints, the names in ``signed`` take the second number. The values of
    the names in ``texts`` aren't numbers, whatever they look like.
    """
    found: dict[str, Value] = {}
    for name, value in _PAIR.findall(body):
        label = name.decode()
        both = _BOTH.fullmatch(value)
        if label in texts:
            found[label] = decode(value)
        elif both is not None:
            found[label] = int(both[2]) if label in signed else int(both[1], 16)
        else:
            found[label] = scalar(value)
    return found
