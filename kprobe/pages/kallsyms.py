"""Addresses -> places in code, from the text of /proc/kallsyms."""

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from kprobe.text.records import CodeAddress

_LINE: Final = re.compile(rb"^([0-9a-f]{1,16}) \S (\S+)(?:[ \t]+\[([^\]\n]+)\])?", re.M)
_FARTHEST: Final = 1 << 16  # bytes from the last symbol of a module on, whose end nobody says
_KNOWN: Final = 1 << 16  # places that are kept


class Kallsyms(dict[int, CodeAddress]):
    """Places by address; the text is asked for with the first address, and read once.

    An address without a symbol is a place whose text is the address, as is all where the text can't be had or has only
    zeros (kernel.kptr_restrict).  A symbol's size is the distance to the next one, as the kernel reckons it.
    """

    def __init__(self, text: Callable[[], bytes] | None, *, long: int = 8) -> None:
        super().__init__()
        self._text = text
        self._lowest = 1 << (8 * long - 1)  # the kernel's half; below it are programs
        self._starts: list[int] = []
        self._names: dict[int, tuple[bytes, bytes]] = {}

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
        # of several symbols at one address the kernel names the first
        found = {int(start, 16): (name, module) for start, name, module in reversed(_LINE.findall(text))}
        self._starts = sorted(start for start in found if start >= self._lowest)
        self._names = found

    def _find(self, address: int) -> CodeAddress:
        at = bisect_right(self._starts, address) - 1
        if at < 0 or address < self._lowest:
            return CodeAddress("", None, None, "", address, f"{address:#x}")
        start = self._starts[at]
        name, module = (part.decode("utf-8", "surrogateescape") for part in self._names[start])
        offset, tail = address - start, f" [{module}]" if module else ""
        after = self._starts[at + 1] if at + 1 < len(self._starts) else None
        if after is not None and self._names[after][1] == self._names[start][1]:
            size = after - start
            return CodeAddress(name, offset, size, module, address, f"{name}+{offset:#x}/{size:#x}{tail}")
        if offset >= _FARTHEST:
            return CodeAddress("", None, None, "", address, f"{address:#x}")
        return CodeAddress(name, offset, None, module, address, f"{name}+{offset:#x}{tail}")
