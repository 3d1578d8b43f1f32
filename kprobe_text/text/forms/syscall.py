"""Events of system calls, which tracefs prints in their own format.

Up to 6.17 ``sys_openat(dfd: ffffff9c, filename: 7ffe10, flags: 0, mode: 0)``, all numbers hexadecimal; from 6.18 on
those of ten and more have 0x, from 6.19 on what lies in the user's memory follows, and openat has decimal numbers and
flags by name (recorded guests of the corpus). ``sys_openat -> 0x3`` is the exit. trace-cmd and perf print what stands
in the parentheses after the event's name. What a pointer leads to is called as in the format: ``__filename_val``.
"""

import re
from typing import Final, NamedTuple

from kprobe_text.text.arguments import decode
from kprobe_text.text.records import NONE, Value

CALL: Final = re.compile(rb"sys_\w+(?:\(| -> 0x)")

_EXIT: Final = re.compile(rb"sys_(\w+) -> 0x([0-9a-f]{1,16})")
_ENTER: Final = re.compile(rb"sys_(\w+)\(")
_OPENS: Final = re.compile(rb'sys_\w+\([^"\n]* "')
# option verbose puts the type before the name
_LABEL: Final = re.compile(rb"(?:[\w *]{1,64} \**)?(\w{1,64}): ")
_NUMBER: Final = re.compile(rb"(?:0x([0-9a-f]{1,16})|([0-9a-f]{1,16}))(?=[,) ]|\Z)")
_FLAGS: Final = re.compile(rb"[A-Z]\w*(?:\|\w+)*")
_OCTAL: Final = re.compile(rb"0[0-7]{3,11}(?=[,)]|\Z)")
_BYTES: Final = re.compile(rb" \(((?:[0-9a-f]{2}(?::[0-9a-f]{2})*)?)(, \.\.\.)?\)")
_END: Final = re.compile(rb'"(?=\)\Z|\Z|, [\w *]{1,128}: )')
# its numbers are decimal, and what stands behind the name has no quote, so the last one is its end
_OPENAT: Final = re.compile(
    rb'sys_openat\(dfd: (\d{1,20}), filename: (\d{1,20}) "(.*)", '
    rb"flags: ([A-Z]\w*(?:\|\w+)*)(?:, mode: (0[0-7]{3,11}))?\)",
    re.S,
)
_RAW_ENTER: Final = re.compile(rb"NR (-?\d{1,20}) \(([0-9a-f]{1,16}(?:, [0-9a-f]{1,16}){5})\)")
_RAW_EXIT: Final = re.compile(rb"NR (-?\d{1,20}) = (-?\d{1,20})")
_RETURNED: Final = re.compile(rb"0x([0-9a-f]{1,16})")
_BITS: Final = 64
# the most arguments that a system call has
_MOST: Final = 6


class SystemCall(NamedTuple):
    """An event of a system call, ``fields``, ``complete`` and ``guessed`` as in Event."""

    name: str
    fields: dict[str, Value]
    complete: bool
    guessed: frozenset[str] = NONE


def called(text: bytes) -> SystemCall:
    """Read what begins as CALL says."""
    text = text.removesuffix(b"\r")
    if (found := _EXIT.fullmatch(text)) is not None:
        return SystemCall("sys_exit_" + decode(found[1]), {"ret": _signed(int(found[2], 16))}, True)
    if (found := _OPENAT.fullmatch(text)) is not None:
        fields: dict[str, Value] = {"dfd": int(found[1]), "filename": int(found[2])}
        fields |= {"__filename_val": decode(found[3]), "flags": decode(found[4])}
        return SystemCall("sys_enter_openat", fields | ({} if found[5] is None else {"mode": int(found[5], 8)}), True)
    begin = _ENTER.match(text)
    if begin is None:
        return SystemCall("sys_exit_" + decode(text[4:].partition(b" ")[0]), {}, False)
    name = "sys_enter_" + decode(begin[1])
    if text.endswith(b")"):
        return _arguments(name, text[begin.end() : -1])
    return _arguments(name, text[begin.end() :])._replace(complete=False)


def described(name: str, text: bytes) -> SystemCall | None:
    """Read what stands after an event's name; None if it isn't that of a system call."""
    text = text.strip(b" \r")
    if name == "sys_enter" and (found := _RAW_ENTER.fullmatch(text)) is not None:
        values = tuple(int(part, 16) for part in found[2].split(b", "))
        return SystemCall(name, {"id": int(found[1]), "args": values}, True)
    if name == "sys_exit" and (found := _RAW_EXIT.fullmatch(text)) is not None:
        return SystemCall(name, {"id": int(found[1]), "ret": int(found[2])}, True)
    if name.startswith("sys_exit_") and (found := _RETURNED.fullmatch(text)) is not None:
        return SystemCall(name, {"ret": _signed(int(found[1], 16))}, True)
    if name.startswith("sys_enter_") and (not text or _LABEL.match(text) is not None):
        read = _arguments(name, text)
        return read if read.complete else None
    return None


def opens(text: bytes) -> bool:
    """Say whether text that can't be read may be the beginning of a string with a newline in it."""
    return _OPENS.match(text) is not None


def _arguments(name: str, text: bytes) -> SystemCall:
    fields: dict[str, Value] = {}
    first: int | None = None  # the number of the first string
    quotes = at = count = 0
    while at < len(text) and count < _MOST:
        count += 1
        label = _LABEL.match(text, at)
        if label is None or (word := decode(label[1])) in fields:
            break
        found = _value(text, label.end())
        if found is None:
            if rest := text[label.end() :]:
                fields[word] = decode(rest)
                return SystemCall(name, fields, False, frozenset({word}))
            break
        fields[word], end = found
        if (memory := _memory(text, end)) is not None:
            fields[f"__{word}_val"], end, is_string = memory
            if is_string:
                first = len(fields) - 1 if first is None else first
                quotes += 2
            else:
                quotes += text.count(b'"', found[1], end)
        if text[end : end + 2] not in (b", ", b""):
            break
        at = end + 2
    # a quote more than those of the strings: it may be the end of one, and what follows part of it
    is_doubtful = first is not None and text.count(b'"') != quotes
    guessed = frozenset(list(fields)[first:]) if is_doubtful else NONE
    return SystemCall(name, fields, at >= len(text), guessed)


def _memory(text: bytes, at: int) -> tuple[Value, int, bool] | None:
    """Read what lies in the user's memory; say where that ends, and whether it is a string."""
    if text.startswith(b' "', at):
        close = _END.search(text, at + 2)
        return None if close is None else (decode(text[at + 2 : close.start()]), close.end(), True)
    data = _BYTES.match(text, at)
    if data is None:
        return None
    held = bytes.fromhex(data[1].replace(b":", b"").decode())
    shown = b' "' + bytes(byte if 32 <= byte < 127 else 46 for byte in held) + b'"' + b"..." * bool(data[2])
    end = data.end() + len(shown) * text.startswith(shown, data.end())
    return tuple(held), end, False


def _value(text: bytes, at: int) -> tuple[Value, int] | None:
    """Read a number or flags by name; say where that ends."""
    if (found := _OCTAL.match(text, at)) is not None:  # no hexadecimal number without 0x begins with 0
        return int(found[0], 8), found.end()
    if (found := _NUMBER.match(text, at)) is not None:
        return int(found[1] or found[2], 16), found.end()
    if (found := _FLAGS.match(text, at)) is not None:
        return decode(found[0]), found.end()
    return None


def _signed(value: int) -> int:
    return value - (1 << _BITS) if value >> (_BITS - 1) else value
