"""Texts of many records at once: the parts common to all of them, and a column for each part that varies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import repeat
from operator import add
from typing import TypeVar

from kprobe_sim.named_tuple import NamedTuple

Part = bytes | Sequence[bytes]  # a part of many texts: the same in all, or one for each
Given = TypeVar("Given", bound=Hashable)


class Rows:
    """Records by their fixed parts: where these repeat, the text of each is made once.

    `fixed` gives the fixed part of a record, None: all of it.  `rows` are the fixed parts to make texts of; `spread`
    turns values of the rows into a column of all records.
    """

    __slots__ = ("_keys", "records", "rows")

    def __init__(self, records: Sequence[bytes], fixed: Callable[[bytes], bytes] | None) -> None:
        self.records = records
        self._keys = records if fixed is None else list(map(fixed, records))
        different = set(self._keys)
        self.rows = self._keys if 2 * len(different) > len(records) else list(different)

    def spread(self, values: Sequence[Given]) -> Sequence[Given]:
        """Return the value of each record, given the values of the rows."""
        if self.rows is self._keys:
            return values
        by_key = dict(zip(self.rows, values, strict=True))
        return [by_key[key] for key in self._keys]

    def texts(self, parts: Sequence[Part]) -> Sequence[Part]:
        """Return the parts of the rows' texts as parts of the records' texts."""
        parts = merged(parts)
        if self.rows is self._keys or not any(isinstance(part, list) for part in parts):
            return parts
        return (self.spread(texts_of(parts, len(self.rows))),)


class Shown(NamedTuple):
    """What makes the text of one record, and the texts of many, from left to right.

    A text among many that has a NUL in it is wrong, and must be made alone.  `fixed` gives the fixed part of a record.
    """

    one: Callable[[bytes], bytes]
    many: Callable[[Rows], Sequence[Part]]
    fixed: Callable[[bytes], bytes] | None = None

    def rows(self, records: Sequence[bytes]) -> Rows:
        """Return records by their fixed parts."""
        return Rows(records, self.fixed)


def column(values: Sequence[Given], make: Callable[[Given], bytes]) -> Part:
    """Return the texts of values; where values repeat, each text is made once."""
    different = set(values)
    if len(different) == 1:
        return make(values[0])
    if 2 * len(different) > len(values):
        return list(map(make, values))
    texts = {value: make(value) for value in different}
    return [texts[value] for value in values]


def merged(parts: Sequence[Part]) -> list[Part]:
    """Return the parts, with neighbours that are the same in all texts joined."""
    found: list[Part] = []
    for part in parts:
        if found and isinstance(part, bytes) and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part)
    return found


def text_of(parts: Sequence[Part], count: int) -> bytes:
    """Return a number of texts, one after the other."""
    width = len(parts)
    pieces = [part if isinstance(part, bytes) else b"" for part in parts] * count
    for position, part in enumerate(parts):
        if not isinstance(part, bytes):
            pieces[position::width] = part
    return b"".join(pieces)


def lengths_of(parts: Sequence[Part], count: int, more: int = 0) -> Iterable[int]:
    """Return the lengths of a number of texts, with `more` added to each."""
    fixed = more + sum(len(part) for part in parts if isinstance(part, bytes))
    lengths: Iterable[int] = repeat(fixed, count)
    for part in parts:
        if not isinstance(part, bytes):
            lengths = map(add, lengths, map(len, part))
    return lengths


def texts_of(parts: Sequence[Part], count: int) -> list[bytes]:
    """Return a number of texts."""
    rows = zip(*(repeat(part, count) if isinstance(part, bytes) else part for part in parts), strict=True)
    return list(map(b"".join, rows))
