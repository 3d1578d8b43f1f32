"""Addresses as the kernel's %pS prints them, and a cache of texts by the bytes that they are made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from kprobe_sim.builds.symbol import Symbol, with_module

MadeOf = TypeVar("MadeOf")
Kept = TypeVar("Kept")


class Covering(Protocol):
    """A table that knows which symbol covers an address."""

    def containing(self, address: int) -> Symbol | None: ...


def symbol_text(symbols: Covering, address: int) -> str:
    """Return NAME+0xOFFSET/0xSIZE, with " [MODULE]" for a module's symbol, or 0xADDRESS where no symbol is."""
    symbol = symbols.containing(address)
    if symbol is None:
        return f"0x{address:x}"
    text = f"{symbol.name}+0x{address - symbol.address:x}/0x{symbol.size:x}"
    return with_module(text, symbol.module)


class TextCache(dict[MadeOf, Kept]):
    """Texts by what they are made from, each made once; at most `limit` of them, 0 for any.

    That is the bytes of a record, or the number of a CPU.
    """

    __slots__ = ("_limit", "_make")

    def __init__(self, make: Callable[[MadeOf], Kept], limit: int = 0) -> None:
        super().__init__()
        self._make = make
        self._limit = limit

    def __missing__(self, key: MadeOf) -> Kept:
        if self._limit and len(self) >= self._limit:
            self.clear()
        text = self[key] = self._make(key)
        return text
