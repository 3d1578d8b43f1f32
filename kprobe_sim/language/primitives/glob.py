"""The kernel's patterns, as in `FIELD ~ "PATTERN"` and `FIELD == "TEXT"`.

A matcher takes a buffer, the start of the string and the length of the field (bytes, with the final NUL).
Source: regex_match_*() and filter_parse_regex() in kernel/trace/trace_events_filter.c, lib/glob.c; fixtures/filters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto

from kprobe_sim.builds.gates import FilterGates
from kprobe_sim.named_tuple import NamedTuple

Matcher = Callable[[bytes, int, int], bool]


class Pattern(NamedTuple):
    """A compiled pattern, `negated` if it began with an exclamation mark."""

    matches: Matcher
    negated: bool


def compile_text(text: bytes, gates: FilterGates) -> Matcher:
    """Return the matcher of == and !=: the whole string."""
    size = len(text)
    ended = text + b"\0"
    bounded = gates.full_match_bounded

    def full(buffer: bytes, start: int, length: int) -> bool:
        if length > size:
            return buffer[start : start + size + 1] == ended
        if length == 0:  # the kernel takes this for "length unknown" and reads up to the NUL
            return c_string(buffer[start:]) == text
        return (length == size or not bounded) and buffer[start : start + length] == text[:length]

    return full


class PatternKind(Enum):
    """How a pattern is compared: as a whole, by its front, middle or end, or as a glob."""

    FULL = auto()
    FRONT = auto()
    MIDDLE = auto()
    END = auto()
    GLOB = auto()


def classify(text: bytes) -> tuple[PatternKind, bytes]:
    """Return how a pattern is compared, and with what.

    A pattern that begins with a digit is plain text.  One whose only signs are stars at its ends is a search.  Any
    other is a glob.
    """
    inner = text[1:-1]
    if text[:1].isdigit():
        return PatternKind.FULL, text
    if b"*" in inner or any(sign in text for sign in b"[?\\"):
        return PatternKind.GLOB, text
    front, back = text.startswith(b"*"), len(text) > 1 and text.endswith(b"*")
    if front:
        return (PatternKind.MIDDLE, inner) if back else (PatternKind.END, text[1:])
    return (PatternKind.FRONT, text[:-1]) if back else (PatternKind.FULL, text)


def compile_pattern(text: bytes, gates: FilterGates) -> Pattern:
    """Return the matcher of ~."""
    kind, searched = classify(text.removeprefix(b"!"))
    if kind is PatternKind.GLOB:
        matcher = _glob(searched, gates)
    elif kind is PatternKind.FULL:
        matcher = compile_text(searched, gates)
    else:
        matcher = {PatternKind.FRONT: _front, PatternKind.MIDDLE: _middle, PatternKind.END: _end}[kind](searched)
    return Pattern(matcher, text.startswith(b"!"))


def c_string(data: bytes) -> bytes:
    """Return `data` up to its first NUL."""
    return data.partition(b"\0")[0]


def _front(text: bytes) -> Matcher:
    size = len(text)

    def front(buffer: bytes, start: int, length: int) -> bool:
        return (length == 0 or length >= size) and buffer[start : start + size] == text

    return front


def _middle(text: bytes) -> Matcher:
    def middle(buffer: bytes, start: int, length: int) -> bool:
        if not text:
            return True
        if length == 0:
            return text in c_string(buffer[start:])
        return buffer.find(text, start, start + length) >= 0  # a NUL within the field doesn't end the search

    return middle


def _end(text: bytes) -> Matcher:
    size = len(text)

    def end(buffer: bytes, start: int, length: int) -> bool:
        # The end of the field, not of the string: `comm ~ "*sh"` compares bytes 13 and 14 of the 16.
        last = start + length - 1
        return length > size and buffer[last - size : last] == text

    return end


def _glob(pattern: bytes, gates: FilterGates) -> Matcher:
    bounded = gates.glob_bounded
    if not gates.glob_class_stops and b"[!" in pattern:

        def scan(buffer: bytes, start: int, length: int) -> bool:
            return glob_match(pattern, buffer[start : start + length] if bounded else buffer[start:], past_end=True)

        return scan
    fullmatch = glob_expression(pattern).fullmatch

    def glob(buffer: bytes, start: int, length: int) -> bool:
        return fullmatch(c_string(buffer[start : start + length] if bounded else buffer[start:])) is not None

    return glob


class _Class(NamedTuple):
    """A character class of a glob: where the pattern goes on, whether it is negated, its spans."""

    after: int
    negated: bool
    spans: list[tuple[int, int]]


def _read_class(pattern: bytes, position: int) -> _Class | None:
    # `position` is right after the bracket.  None: no bracket closes it, so it is a plain character.
    negated = pattern[position : position + 1] == b"!"
    position += negated
    spans: list[tuple[int, int]] = []
    first = True
    while position < len(pattern):
        low = high = pattern[position]
        position += 1
        if low == 0x5D and not first:
            return _Class(position, negated, spans)
        first = False
        if pattern[position : position + 1] == b"-" and pattern[position + 1 : position + 2] != b"]":
            if position + 1 >= len(pattern):
                return None
            high = pattern[position + 1]
            position += 2
        spans.append((low, high))
    return None


class Sign(NamedTuple):
    """One sign of a glob as a regular expression; `plain` is the only character that it matches, or b""."""

    expression: bytes
    plain: bytes = b""


def glob_signs(pattern: bytes, any_sign: bytes = b".") -> list[list[Sign]]:
    """Return the signs of a glob, in pieces between its stars.

    `?` is any character (`any_sign` as an expression), `[a-c]` and `[!x]` are classes, a backslash makes the next sign
    plain.
    """
    pieces: list[list[Sign]] = [[]]
    position = 0
    while position < len(pattern):
        sign = pattern[position : position + 1]
        position += 1
        if sign == b"*":
            pieces.append([])
        elif sign == b"?":
            pieces[-1].append(Sign(any_sign))
        elif sign == b"[" and (group := _read_class(pattern, position)):
            position = group.after
            pieces[-1].append(Sign(_class_expression(group)))
        else:
            if sign == b"\\":
                sign = pattern[position : position + 1]  # at the end of the pattern: nothing
                position += 1
            pieces[-1].append(Sign(re.escape(sign), sign))
    return pieces


def glob_expression(pattern: bytes) -> re.Pattern[bytes]:
    """Return a regular expression that fully matches what the glob matches, in quadratic time at most."""
    first, *others = [b"".join([sign.expression for sign in piece]) for piece in glob_signs(pattern)]
    if not others:
        return re.compile(first, re.DOTALL)
    *inner, last = others
    # Only the last star need be tried again, so every earlier piece may keep its first match: (?>...).
    middle = b"".join(b"(?>.*?" + piece + b")" for piece in inner)
    return re.compile(first + middle + b".*" + last, re.DOTALL)


def _class_expression(group: _Class) -> bytes:
    spans = b"".join(b"\\x%02x-\\x%02x" % span for span in group.spans if span[0] <= span[1])
    if not spans:
        return b"." if group.negated else b"(?!)"
    return (b"[^" if group.negated else b"[") + spans + b"]"


def _takes(pattern: bytes, position: int, byte: int, *, past_end: bool) -> tuple[bool, int] | None:
    """Return whether the sign at `position` takes a byte, and where the pattern goes on; None if nothing can match."""
    ahead = position + 1
    sign = pattern[position:ahead]
    if sign == b"?":
        return (True, ahead) if byte else None
    if sign == b"[" and (group := _read_class(pattern, ahead)):
        if byte == 0 and not past_end:
            return None
        return any(low <= byte <= high for low, high in group.spans) is not group.negated, group.after
    if sign == b"\\":
        sign = pattern[ahead : ahead + 1]
        ahead += 1
    return sign != b"" and sign[0] == byte, ahead


def glob_match(pattern: bytes, subject: bytes, *, past_end: bool = False) -> bool:
    """Match all of a subject, which a NUL ends, sign by sign.

    `past_end`: a negated class takes the end of the string for a character, and the match goes on after it, as on
    kernels before 6.12 (NULs follow the subject).
    """
    position, index = 0, 0
    star: tuple[int, int] | None = None
    while True:
        byte = subject[index] if index < len(subject) else 0
        if pattern[position : position + 1] == b"*":
            position += 1
            if position == len(pattern):
                return True
            star = (position, index)
            continue
        if byte == 0 and pattern[position:] in (b"", b"\\"):
            return True
        taken = _takes(pattern, position, byte, past_end=past_end)
        if taken is None:
            return False
        matched, ahead = taken
        if matched:
            position, index = ahead, index + 1
        elif byte == 0 or star is None:
            return False
        else:
            star = (star[0], star[1] + 1)
            position, index = star
