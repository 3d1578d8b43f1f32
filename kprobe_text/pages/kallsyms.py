"""Addresses -> places in code, from the text of /proc/kallsyms."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from kprobe_text.text.records import CodeAddress

# a symbol has 511 bytes at most, a module's name 55 (KSYM_NAME_LEN, MODULE_NAME_LEN)
_LINE: Final = re.compile(rb"^([0-9a-f]{1,16}) \S (\S{1,511})(?!\S)(?:[ \t]{1,9}\[([^\]\n]{1,55})\])?", re.M)
_FARTHEST: Final = 1 << 16  # bytes from the last symbol of a module on, whose end nobody says
_KNOWN: Final = 1 << 15  # places that are kept


class Kallsyms(dict[int, CodeAddress]):
    """Places by address; the text is asked for with the first address, and read once.

    An address without a symbol is a place whose text is the address, as is all where the text can't be had or has only
    zeros (kernel.kptr_restrict).  A symbol's size is the distance to the next one, as the kernel reckons it.
    """

    def __init__(self, text: Callable[[], bytes] | None, *, long: int = 8) -> None:
        super().__init__()
        self._text = text
        self._lowest = 1 << (8 * long - 1)  # the kernel's half; below it are programs
        self._starts = array("Q")
        self._lines = array("Q")  # where each is in the text
        self._read_of = b""
        self._last: tuple[int, tuple[str, str]] = (-1, ("", ""))

    def __missing__(self, address: int) -> CodeAddress:
        if self._text is not None:
            text, self._text = self._text, None
            self._read(text())
        if len(self) >= _KNOWN:
            self.clear()
        self[address] = found = self._find(address)
        return found

    def symbol(self, address: int) -> CodeAddress | int:
        """Return the place if it has a symbol, else the address."""
        place = self[address]
        return place if place.symbol else address

    def _read(self, text: bytes) -> None:
        # both in one number, as so many pairs would take long to sort, and much room
        found = [int(line[1], 16) << 40 | line.start() for line in _LINE.finditer(text)]
        found.sort()
        last = self._lowest - 1
        for number in found:
            start = number >> 40
            if start > last:  # of several symbols at one address the kernel names the first
                self._starts.append(start)
                self._lines.append(number & (1 << 40) - 1)
                last = start
        self._read_of = text

    def _named(self, which: int) -> tuple[str, str]:
        """Return a symbol and its module; one after the other for the same symbol gives the same texts."""
        if self._last[0] == which:
            return self._last[1]
        line = _LINE.match(self._read_of, self._lines[which])
        assert line is not None
        name, module = (part.decode("utf-8", "surrogateescape") for part in (line[2], line[3] or b""))
        return name, module

    def _find(self, address: int) -> CodeAddress:
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address < self._lowest:
            return CodeAddress("", None, None, "", address, f"{address:#x}")
        start = self._starts[at]
        name, module = named = self._named(at)
        offset, tail = address - start, f" [{module}]" if module else ""
        self._last = at, named
        if at + 1 < len(self._starts) and self._named(at + 1)[1] == module:
            size = self._starts[at + 1] - start
            return CodeAddress(name, offset, size, module, address, f"{name}+{offset:#x}/{size:#x}{tail}")
        if offset >= _FARTHEST:
            return CodeAddress("", None, None, "", address, f"{address:#x}")
        return CodeAddress(name, offset, None, module, address, f"{name}+{offset:#x}{tail}")
