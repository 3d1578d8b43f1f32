"""Probe points: a kernel function, an offset in a file, a tracepoint, or another event."""

from __future__ import annotations

from kprobe.errors import DefinitionError

from .probe import PATTERN, RETURN, Place

BLANKS = " \t\n\v\f\r"  # what the kernel splits at (isspace)
NO_FUNCTION = "this is not a function's name, which holds letters, digits, _ and ."
NO_FILE = "a user-space place is FILE:OFFSET, an offset in the file, such as /bin/bash:0x1234"


def is_file(kind: str, word: str) -> bool:
    """Return whether probe points of this kind are in files."""
    return kind == "u" or (kind in ("p", "r") and "/" in word)


def place(kind: str, text: str, column: int, word: str) -> Place:
    """Return the probe point that `word`, at `column` of `text`, names.  Raise `DefinitionError`."""
    if is_file(kind, word):
        return _in_file(kind, text, column, word)
    if kind == "e":
        return Place(_event(text, column, word))
    if kind == "t":
        if not (word.isascii() and word.isidentifier()):
            raise DefinitionError("a tracepoint is its name alone, such as sched_switch", text, column)
        return Place(word)
    return _function(text, column, word)


def _in_file(kind: str, text: str, column: int, word: str) -> Place:
    path, colon, rest = word.rpartition(":")
    if not colon or "/" not in path:
        raise DefinitionError(NO_FILE, text, column)
    where = column + len(path) + 1
    body, percent, suffix = rest.partition("%")
    counter: int | None = None
    if percent and "(" in suffix:  # the counter may follow the suffix, too
        suffix, _, behind = suffix.partition("(")
        body += f"({behind}"
    if percent and suffix != RETURN[1:]:
        raise DefinitionError(f"the only suffix of a place is {RETURN}", text, where + rest.index("%"))
    offset_text, brace, counter_text = body.partition("(")
    offset = number(offset_text)
    if offset is None or offset < 0 or offset_text[0] == "+":
        raise DefinitionError(NO_FILE, text, where)
    if brace:
        counter = number(counter_text.removesuffix(")"))
        if counter is None or not counter_text.endswith(")"):
            raise DefinitionError(
                "this is not the offset of a reference counter: (0x20)", text, where + len(offset_text)
            )
    return Place(offset=offset, returns=bool(percent) or kind == "r", path=path, counter=counter)


def _event(text: str, column: int, word: str) -> str:
    group, mark, event = word.partition("/" if "/" in word else ".")
    if not mark or not all(name.replace("-", "_").isidentifier() and name.isascii() for name in (group, event)):
        raise DefinitionError("an event probe is at GROUP.EVENT, such as sched.sched_switch", text, column)
    return f"{group}.{event}"


def _function(text: str, column: int, word: str) -> Place:
    if ";" in word:
        raise DefinitionError("one probe at a time", text, column + word.index(";"))
    if "/" in word:
        raise DefinitionError("a kernel place holds no slash (that would be a user-space probe)", text, column)
    body, percent, suffix = word.partition("%")
    if percent and percent + suffix != RETURN:
        raise DefinitionError(f"the only suffix of a place is {RETURN}", text, column + len(body))
    returns = bool(percent)
    address = number(body)
    if address is not None and body[0] not in "+-" and address < 1 << 64:
        return Place(address=address, returns=returns)
    module, colon, name = body.rpartition(":")
    is_pattern = any(mark in name for mark in PATTERN)
    at = len(name) if is_pattern else min((name.find(mark) for mark in "+-" if mark in name), default=len(name))
    symbol, offset_text = name[:at], name[at:]
    if colon and not _is_module(module):
        raise DefinitionError("this is not MODULE:SYMBOL", text, column)
    where = column + len(module) + len(colon)
    if not symbol or symbol[0].isdigit() or not symbol.isprintable() or any(mark in symbol for mark in "=(),;#\"'\\`"):
        raise DefinitionError(NO_FUNCTION, text, where)
    if is_pattern and "+" in symbol:
        raise DefinitionError("a pattern is of functions, and takes no offset", text, where + symbol.index("+"))
    offset = 0
    if offset_text:
        value = number(offset_text)
        if value is None:
            what = (
                "" if offset_text[1:2].isdigit() or not offset_text[1:] else "; a name holds letters, digits and _ only"
            )
            raise DefinitionError(f"this is not an offset{what}", text, where + at)
        offset = value
    return Place(symbol, module, offset, returns=returns)


def _is_module(name: str) -> bool:
    return bool(name) and name.replace("_", "a").replace("-", "a").isalnum() and name.isascii()


def number(text: str) -> int | None:
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
