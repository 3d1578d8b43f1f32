"""Reading numbers and strings from the bytes of a file in sequence."""

import os
import struct
from typing import Final, Literal, TypeAlias

_LONGEST_STRING: Final = 4096


class NotTraceDat(ValueError):
    """A file that isn't a whole trace.dat, or can't be read here; the text says why, and at which byte."""


class FileBytes:
    """The bytes of an open file, read on demand: a large file takes no memory.

    If the file shrinks meanwhile there are fewer bytes, where a mapped file would end the process.
    """

    def __init__(self, descriptor: int, packed: int | None = None) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self.given = self._size if packed is None else packed  # the bytes that it was made from

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        at, end, _ = part.indices(self._size)
        found = b""
        while at < end and (more := os.pread(self._descriptor, end - at, at)):
            found = found + more if found else more  # all at once, but for parts of 2 GiB
            at += len(more)
        return found


Data: TypeAlias = "bytes | memoryview | FileBytes"


class Cursor:
    """A position in bytes, which moves on with each read; ``name`` describes them in errors.

    ``end`` is where they end.  Every method raises NotTraceDat where the bytes end too soon.
    """

    def __init__(
        self, data: Data, order: Literal["little", "big"], name: str, position: int = 0, end: int | None = None
    ) -> None:
        self._data = data
        self.order: Final = order
        self._name = name
        self._mark = "<" if order == "little" else ">"
        self._end = len(data) if end is None else end
        self.position = position

    @property
    def left(self) -> int:
        """The number of bytes that follow."""
        return self._end - self.position

    def at_byte(self, position: int, what: str) -> "Cursor":
        """Return another cursor on the same bytes; raise NotTraceDat if there is no such byte."""
        if position >= self._end:
            words = f"{what} should be at byte {position}, and the file has only {self._end} bytes: it was cut off"
            raise NotTraceDat(f"{self._name}: {words}")
        return Cursor(self._data, self.order, self._name, position)

    def take(self, size: int, what: str, most: int | None = None) -> bytes:
        """Return the next bytes; raise NotTraceDat if they are more than `most`."""
        if most is not None and size > most:
            raise self.broken(f"{what} would have {size} bytes, more than {most}")
        found = bytes(self._data[self.position : self.position + size]) if size <= self.left else b""
        if len(found) < size:
            raise self.broken(f"{what} would have {size} bytes, of which {max(self.left, 0)} are there")
        self.position += size
        return found

    def take_if(self, size: int, what: str, most: int, notes: list[str]) -> bytes:
        """Pass the next bytes and return them; if they are too many, return b"" and add a sentence to `notes`."""
        if most < size <= self.left:
            self.position += size
            notes.append(f"{what} has {size} bytes, more than {most}: it is left out")
            return b""
        return self.take(size, what)

    def number(self, size: int, what: str) -> int:
        """Return the next unsigned number of 1, 2, 4 or 8 bytes."""
        found: int = struct.unpack(self._mark + {1: "B", 2: "H", 4: "I", 8: "Q"}[size], self.take(size, what))[0]
        return found

    def count(self, size: int, what: str, most: int) -> int:
        """Return the next number, which may be at most `most`."""
        found = self.number(size, what)
        if found > most:
            raise self.broken(f"{what} is {found}, more than {most}")
        return found

    def string(self, what: str) -> str:
        """Return the text up to the next NUL, and pass that."""
        part = bytes(self._data[self.position : min(self.position + _LONGEST_STRING, self._end)])
        end = part.find(b"\0")
        if end < 0:
            raise self.broken(f"{what} has no end")
        self.position += end + 1
        return part[:end].decode("utf-8", "surrogateescape")

    def expect(self, mark: bytes, what: str) -> None:
        """Pass expected bytes; raise NotTraceDat for others."""
        found = self.take(len(mark), what)
        if found != mark:
            self.position -= len(mark)
            raise self.broken(f"{what} should be {mark!r}, and is {found!r}")

    def broken(self, words: str) -> NotTraceDat:
        """Return the error for what is wrong at this position."""
        return NotTraceDat(f"{self._name}, byte {self.position}: {words}")
