"""Reading numbers and strings from the bytes of a file in sequence."""

import struct
from typing import Final, Literal

_LONGEST_STRING: Final = 4096


class NotTraceDat(ValueError):
    """A file that isn't a whole trace.dat, or can't be read here; the text says why, and at which byte."""


class Cursor:
    """A place in bytes, which moves on with each read; ``name`` is what they are, for errors.

    Every method raises NotTraceDat where the bytes end too soon.
    """

    def __init__(self, data: "bytes | memoryview", order: Literal["little", "big"], name: str, at: int = 0) -> None:
        self._data = data
        self.order: Final = order
        self._name = name
        self._mark = "<" if order == "little" else ">"
        self.at = at

    @property
    def left(self) -> int:
        """The number of bytes that follow."""
        return len(self._data) - self.at

    def at_byte(self, at: int, what: str) -> "Cursor":
        """Return another cursor on the same bytes; raise NotTraceDat if there is no such byte."""
        if at >= len(self._data):
            words = f"{what} should be at byte {at}, and the file has only {len(self._data)} bytes: it was cut off"
            raise NotTraceDat(f"{self._name}: {words}")
        return Cursor(self._data, self.order, self._name, at)

    def take(self, size: int, what: str) -> bytes:
        """Return the next bytes."""
        if size > self.left:
            raise self.broken(f"{what} would have {size} bytes, of which {max(self.left, 0)} are there")
        self.at += size
        return bytes(self._data[self.at - size : self.at])

    def number(self, size: int, what: str) -> int:
        """Return the next number, unsigned, of 1, 2, 4 or 8 bytes."""
        found: int = struct.unpack(self._mark + {1: "B", 2: "H", 4: "I", 8: "Q"}[size], self.take(size, what))[0]
        return found

    def string(self, what: str) -> str:
        """Return the text up to the next NUL, which is passed."""
        part = bytes(self._data[self.at : self.at + _LONGEST_STRING])
        end = part.find(b"\0")
        if end < 0:
            raise self.broken(f"{what} has no end")
        self.at += end + 1
        return part[:end].decode("utf-8", "surrogateescape")

    def expect(self, mark: bytes, what: str) -> None:
        """Pass bytes that must be there."""
        found = self.take(len(mark), what)
        if found != mark:
            self.at -= len(mark)
            raise self.broken(f"{what} should be {mark!r}, and is {found!r}")

    def broken(self, words: str) -> NotTraceDat:
        """Return the error that says what is wrong here."""
        return NotTraceDat(f"{self._name}, byte {self.at}: {words}")
