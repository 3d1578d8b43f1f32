"""The result of compiling a C expression: something that reads a value from a record's bytes."""

from __future__ import annotations

from collections.abc import Callable

CValue = int | bytes
Compiled = Callable[[bytes], CValue]


class _Reads:
    """What reads a value from a record's bytes, and says something of it."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[bytes], CValue]) -> None:
        self._read = read

    def __call__(self, record: bytes, /) -> CValue:
        return self._read(record)


class Array(_Reads):
    """What reads the bytes of an array, and how its elements lie in them."""

    __slots__ = ("signed", "width")

    def __init__(self, read: Callable[[bytes], bytes], width: int, signed: bool) -> None:
        super().__init__(read)
        self.width = width
        self.signed = signed


class PagePointer(_Reads):
    """A pointer to struct page: what is added to it counts pages."""

    __slots__ = ()
