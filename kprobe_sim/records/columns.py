"""Texts of many records at once: what is the same in all of them, and a column for what isn't."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import repeat
from operator import add
from typing import TypeVar

from kprobe_sim.named_tuple import NamedTuple

Part = bytes | Sequence[bytes]  # of texts: the same in all, or another in each
Given = TypeVar("Given", bound=Hashable)


class Shown(NamedTuple):
    """What makes the text of one record, and the texts of many, from left to right.

    One of many that has a NUL in it isn't right, and must be made alone.
    """

    one: Callable[[bytes], bytes]
    many: Callable[[Sequence[bytes]], Sequence[Part]]


def column(values: Sequence[Given], make: Callable[[Given], bytes]) -> Part:
    """Return the texts of values; where they repeat, each is made once."""
    different = set(values)
    if len(different) == 1:
        return make(values[0])
    if 2 * len(different) > len(values):
        return list(map(make, values))
    texts = {value: make(value) for value in different}
    return [texts[value] for value in values]


def merged(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with those that are the same in all texts put together where they stand side by side."""
    found: list[Part] = []
    for part in parts:
        if found and isinstance(part, bytes) and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part)
    return found


def text_of(parts: Sequence[Part], count: int) -> bytes:
    """Return so many texts, one after the other."""
    width = len(parts)
    pieces = [part if isinstance(part, bytes) else b"" for part in parts] * count
    for place, part in enumerate(parts):
        if not isinstance(part, bytes):
            pieces[place::width] = part
    return b"".join(pieces)


def lengths_of(parts: Sequence[Part], count: int, more: int = 0) -> Iterable[int]:
    """Return the lengths of so many texts, with `more` added to each."""
    fixed = more + sum(len(part) for part in parts if isinstance(part, bytes))
    lengths: Iterable[int] = repeat(fixed, count)
    for part in parts:
        if not isinstance(part, bytes):
            lengths = map(add, lengths, map(len, part))
    return lengths


def texts_of(parts: Sequence[Part], count: int) -> list[bytes]:
    """Return so many texts."""
    rows = zip(*(repeat(part, count) if isinstance(part, bytes) else part for part in parts), strict=True)
    return list(map(b"".join, rows))
