"""The result of compiling a C expression: a function that reads a value from a record's bytes."""

from __future__ import annotations

from collections.abc import Callable

CValue = int | bytes
Compiled = Callable[[bytes], CValue]


class _ValueReader:
    """A function that reads a value from a record's bytes, with attributes that describe the value."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[bytes], CValue]) -> None:
        self._read = read

    def __call__(self, record: bytes, /) -> CValue:
        return self._read(record)


class Array(_ValueReader):
    """A reader of an array's bytes; `width` and `signed` describe its elements."""

    __slots__ = ("signed", "width")

    def __init__(self, read: Callable[[bytes], bytes], width: int, signed: bool) -> None:
        super().__init__(read)
        self.width = width
        self.signed = signed


class PagePointer(_ValueReader):
    """A reader of a pointer to struct page: adding to it counts pages."""

    __slots__ = ()
