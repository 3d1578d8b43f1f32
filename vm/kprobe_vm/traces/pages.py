"""Raw pages of a ring buffer, decoded: headers, times, and fields by the events' format files.

It shares no code with kprobe_text, whose reader it checks, on purpose.  It reads only what our own recordings hold: no
records that were overwritten while they were read.  Source: events/header_page, events/header_event of the kernels of
the lock.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import NamedTuple

PAGE = 4096
_HEADER = struct.Struct("<QQ")
_COMMIT = 0xFFFFF  # the bits above say that events were missed
_PADDING, _EXTEND, _STAMP = 29, 30, 31
_FIELD = re.compile(r"\tfield:([^;\t]*?) ?\b(\w++)(\[[^\[\]\t]*\])?;\toffset:(\d+);\tsize:(\d+);\tsigned:(\d);")
_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}

Value = int | str | None | list[int] | list[str]


class Field(NamedTuple):
    """A field of an event's record."""

    type: str
    name: str
    is_array: bool
    offset: int
    size: int
    signed: bool

    def value(self, data: bytes) -> Value:
        """Return its value in a record; None for a string that couldn't be read, whose length is 0."""
        raw = data[self.offset : self.offset + self.size]
        if self.type.startswith("__data_loc"):
            location = int.from_bytes(raw, "little")
            length, start = location >> 16, location & 0xFFFF
            return _text(data[start : start + length]) if length else None
        if self.type.endswith("char") and self.is_array:
            return _text(raw) if not self.type.startswith("char") or self.name.endswith("comm") else _letters(raw)
        if self.is_array:
            width = self._width()
            return [self._number(raw[at : at + width]) for at in range(0, len(raw), width)]
        return _letters(raw)[0] if self.type == "char" else self._number(raw)

    def _width(self) -> int:
        digits = re.search(r"(8|16|32|64)$", self.type)
        return _SIZES[digits[1]] if digits else 8

    def _number(self, raw: bytes) -> int:
        return int.from_bytes(raw, "little", signed=self.signed and not self.type.startswith(("u", "x")))


class Event(NamedTuple):
    """An event as its format file has it."""

    group: str
    name: str
    ident: int
    fields: tuple[Field, ...]
    shown: str  # its print fmt


class RawRecord(NamedTuple):
    """A record as it lies in the buffer."""

    cpu: int
    timestamp: int
    data: bytes

    @property
    def ident(self) -> int:
        return int.from_bytes(self.data[:2], "little")

    @property
    def flags(self) -> int:
        return self.data[2]

    @property
    def preempt_count(self) -> int:
        return self.data[3]

    @property
    def pid(self) -> int:
        return int.from_bytes(self.data[4:8], "little", signed=True)


def events(formats: Mapping[str, str]) -> dict[int, Event]:
    """Return events by their numbers, from the texts of format files by path."""
    events_by_number = {}
    for path, text in formats.items():
        ident = re.search(r"^ID: (\d+)$", text, re.M)
        assert ident is not None
        fields = tuple(
            Field(kind, name, bool(array), int(offset), int(size), signed == "1")
            for kind, name, array, offset, size, signed in _FIELD.findall(text)
        )
        group, name = path.split("/")[-3:-1]
        events_by_number[int(ident[1])] = Event(
            group, name, int(ident[1]), fields, text.partition("print fmt: ")[2].rstrip("\n")
        )
    return events_by_number


def records(pages: bytes, cpu: int) -> list[RawRecord]:
    """Return the records of a CPU's pages in their order."""
    decoded: list[RawRecord] = []
    for start in range(0, len(pages), PAGE):
        decoded += _of_page(pages[start : start + PAGE], cpu)
    return decoded


def _of_page(page: bytes, cpu: int) -> list[RawRecord]:
    now, commit = _HEADER.unpack_from(page)
    records: list[RawRecord] = []
    at, end = _HEADER.size, _HEADER.size + (commit & _COMMIT)
    while at < end:
        word = int.from_bytes(page[at : at + 4], "little")
        kind, delta = word & 31, word >> 5
        follows = int.from_bytes(page[at + 4 : at + 8], "little")
        if kind == _PADDING:
            if not delta:
                break
            now, at = now + delta, at + 4 + follows
        elif kind == _EXTEND:
            now, at = now + delta + (follows << 27), at + 8
        elif kind == _STAMP:
            now, at = (now & ~((1 << 59) - 1)) | (delta + (follows << 27)), at + 8
        else:
            now += delta
            begin, length = (at + 4, kind * 4) if kind else (at + 8, follows - 4)
            records.append(RawRecord(cpu, now, page[begin : begin + length]))
            at = begin + length + (-length & 3)
    return records


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _letters(data: bytes) -> list[str]:
    return [bytes([byte]).decode("utf-8", "surrogateescape") for byte in data]
