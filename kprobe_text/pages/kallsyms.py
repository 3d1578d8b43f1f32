"""Addresses -> code addresses with symbols, from the text of /proc/kallsyms."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from kprobe_text.text.records import CodeAddress

# a symbol has 511 bytes at most, a module's name 55 (KSYM_NAME_LEN, MODULE_NAME_LEN)
_LINE: Final = re.compile(rb"^([0-9a-f]{1,16}) \S (\S{1,511})(?!\S)(?:[ \t]{1,9}\[([^\]\n]{1,55})\])?", re.M)
_FARTHEST: Final = 1 << 16  # assumed size of a module's last symbol, whose end is unknown
_KNOWN: Final = 1 << 15  # addresses that are cached


class Kallsyms(dict[int, CodeAddress]):
    """Code addresses by number; the text is asked for with the first address, and read once.

    Without a symbol the text is the address; so for all addresses if kallsyms can't be read or has only zeros
    (kernel.kptr_restrict).  A symbol's size is the distance to the next one, as the kernel reckons it.
    """

    def __init__(self, text: Callable[[], bytes] | None, *, long: int = 8) -> None:
        super().__init__()
        self._text = text
        self._lowest = 1 << (8 * long - 1)  # the kernel's half; below it are programs
        self._starts = array("Q")
        self._lines = array("Q")  # the position of each in the text
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
        """Return the code address if it has a symbol, else the number."""
        place = self[address]
        return place if place.symbol else address

    def _read(self, text: bytes) -> None:
        # both in one number: pairs would take longer to sort, and more memory
        found = [int(line[1], 16) << 40 | line.start() for line in _LINE.finditer(text)]
        found.sort()
        last = self._lowest - 1
        for number in found:
            start = number >> 40
            if start > last:  # of several symbols at one address the kernel prints the first
                self._starts.append(start)
                self._lines.append(number & (1 << 40) - 1)
                last = start
        self._read_of = text

    def _named(self, which: int) -> tuple[str, str]:
        """Return a symbol and its module; repeated calls for one symbol return the same strings."""
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
