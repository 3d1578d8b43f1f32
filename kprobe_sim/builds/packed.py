"""Sequences of numbers in compressed chunks, as in a profile's files: a chunk is unpacked when it is needed.

A section: u32 count, u32 number of chunks k, u32[k+1] where each chunk begins after these heads, u32[k] the first
value of each chunk, the chunks (zlib).  A chunk holds 1024 u32 values by planes: all low bytes first, then the next
ones.  In an ascending sequence the values of a chunk are distances to the one before, the first of a chunk 0.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

CHUNK = 1024


class Numbers:
    """A packed sequence of u32."""

    __slots__ = ("_at", "_chunks", "_count", "_data", "_heads")

    def __init__(self, section: memoryview) -> None:
        words = section[: len(section) & ~3].cast("I")
        self._count, chunks = words[0], words[1]
        self._at = words[2 : 3 + chunks]
        self._heads = words[3 + chunks : 3 + 2 * chunks]
        self._data = section[12 + 8 * chunks :]
        self._chunks: dict[int, array[int]] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        if index >= self._count:
            raise IndexError(index)
        number = index // CHUNK
        chunk = self._chunks.get(number)
        return (self._unpack(number) if chunk is None else chunk)[index % CHUNK]

    def __iter__(self) -> Iterator[int]:
        for number in range(len(self._heads)):
            yield from self._chunk(number)

    def unpacked(self) -> array[int]:
        """Return all numbers, for callers that need most of them."""
        values = array("I")
        for number in range(len(self._heads)):
            values.extend(self._chunk(number))
        return values

    def _chunk(self, number: int) -> array[int]:
        chunk = self._chunks.get(number)
        return self._unpack(number) if chunk is None else chunk

    def _unpack(self, number: int) -> array[int]:
        planes = zlib.decompress(self._data[self._at[number] : self._at[number + 1]])
        size = len(planes) // 4
        mixed = bytearray(len(planes))
        for plane in range(4):
            mixed[plane::4] = planes[plane * size : (plane + 1) * size]
        chunk = self._chunks[number] = self._read(array("I", bytes(mixed)), number)
        return chunk

    def _read(self, values: array[int], number: int) -> array[int]:
        return values


class Ascending(Numbers):
    """A packed sequence of u32 that never falls."""

    __slots__ = ()

    def _read(self, values: array[int], number: int) -> array[int]:
        values[0] = self._heads[number]
        return array("I", accumulate(values))

    def left(self, value: int) -> int:
        """Return the first index whose number isn't less than `value`."""
        number = max(bisect_left(self._heads, value) - 1, 0)
        return number * CHUNK + bisect_left(self._chunk(number), value) if self._count else 0

    def right(self, value: int) -> int:
        """Return the first index whose number is greater than `value`."""
        number = bisect_right(self._heads, value) - 1
        return number * CHUNK + bisect_right(self._chunk(number), value) if number >= 0 else 0


class Texts:
    """Chunks of bytes that are unpacked one by one: u32 count k, u32[k+1] where each begins, the chunks (zlib)."""

    __slots__ = ("_at", "_chunks", "_data")

    def __init__(self, section: memoryview) -> None:
        words = section[: len(section) & ~3].cast("I")
        self._at = words[1 : 2 + words[0]]
        self._data = section[8 + 4 * words[0] :]
        self._chunks: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._at) - 1

    def __getitem__(self, number: int) -> bytes:
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = zlib.decompress(self._data[self._at[number] : self._at[number + 1]])
        return chunk


class NamedTexts:
    """Texts by name, each unpacked when it is asked for: as `Texts`, the first of them the names, one to a line."""

    __slots__ = ("_numbers", "_texts")

    def __init__(self, section: memoryview) -> None:
        self._texts = Texts(section)
        self._numbers: dict[str, int] = {}

    def __getitem__(self, name: str) -> bytes:
        return self._texts[self._index()[name]]

    def __contains__(self, name: str) -> bool:
        return name in self._index()

    def __iter__(self) -> Iterator[str]:
        return iter(self._index())

    def _index(self) -> dict[str, int]:
        if not self._numbers:
            text = self._texts[0].decode()
            names = text.split("\n") if text else []
            self._numbers = dict(zip(names, range(1, len(names) + 1), strict=True))
        return self._numbers


def open_sections(path: Path, magic: bytes) -> dict[str, memoryview]:
    """Map a file of sections; return them by name.  Raises ValueError for a file that isn't one, or truncated."""
    with path.open("rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if len(view) < 16 or view[:8] != magic:
        raise ValueError(f"{path} isn't a recorded {magic.decode()} file")
    (count,) = struct.unpack_from("<I", view, 8)
    sections = {}
    for index in range(count):
        if len(view) < 32 + 16 * index:
            raise ValueError(f"{path} is truncated")
        tag, start, length = struct.unpack_from("<8sII", view, 16 + 16 * index)
        if len(view) < start + length:
            raise ValueError(f"{path} is truncated")
        sections[tag.rstrip(b"\0").decode()] = view[start : start + length]
    return sections
