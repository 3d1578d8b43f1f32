"""The arguments of a record as the trace shows them: b' dfd=-100 s="x"'.

The layout is compiled once per event into a struct and a %-template.  Sources: trace_probe.c and trace_probe_tmpl.h of
6.1; recorded traces.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

from kprobe_sim.language.fetch.argument import FetchArg
from kprobe_sim.language.fetch.types import FetchType
from kprobe_sim.machine.symbol_text import Covering, symbol_text
from kprobe_sim.records.columns import Part, Rows, column
from kprobe_sim.records.trace_seq import Put

HEAD = 8  # bytes of a record that all events have: type, flags, preemption depth and pid
_FAULT = Put(b"(fault)")
_SIGNED_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}
_UNSIGNED_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_TEMPLATES = {"%u": b"%d", "%Lu": b"%d", "%d": b"%d", "%Ld": b"%d", "0x%x": b"0x%x", "0x%Lx": b"0x%x"}
_TEMPLATES |= {"%x": b"%x", "%lx": b"%x", "%llx": b"%x", "%ld": b"%d", "%lld": b"%d"}  # of 3.2 and 3.13


def _string(record: bytes, location: int) -> bytes:
    """Return a string of a record in quotes; one of length 0 couldn't be read."""
    return b'"%b"' % record[location & 0xFFFF :].partition(b"\0")[0] if location >> 16 else _FAULT


def _strings(rows: Rows, locations: Sequence[int], *, is_only: bool) -> tuple[bytes, Part, bytes]:
    """Return the strings of records, by their locations in the rows, with what comes before and after each.

    `is_only`: there are no other strings in the records.
    """
    starts = {location & 0xFFFF for location in locations}
    if len(starts) > 1 or min(locations) >> 16 == 0:
        return b"", list(map(_string, rows.records, rows.spread(locations))), b""
    (start,) = starts
    if is_only:  # up to the end of the record, but for the NUL that ends it
        found = list(map(bytes.rstrip, map(itemgetter(slice(start, None)), rows.records), repeat(b"\0")))
    else:
        found = [record[start:].partition(b"\0")[0] for record in rows.records]
    return b'"', found, b'"'


def _conversion(kind: FetchType, symbols: Covering) -> Callable[[int], bytes] | None:
    """Return what makes the text of a number, None if a format does."""
    if kind.name == "symbol":
        return lambda address: symbol_text(symbols, address).encode("latin-1")
    # as printk's %c does in a text that ends at a NUL
    return b"'%c'".__mod__ if kind.name == "char" else None


def _filled(part: bytes, value: bytes | int) -> bytes:
    return value if isinstance(value, Put) else part % value


def _takes(part: bytes) -> bool:
    """Return whether a part of a line takes a value; a name, which begins with a blank, may have a % before 2.6.36."""
    return b"%" in part and part[:1] != b" "


class ArgumentsText:
    """Turns records into the texts after the probe's address; the arguments begin at byte `start`.

    It does so at once, by a %-template and the values of a record, the addresses before the arguments first; or for
    many records in parts, with the texts that `lead` makes of these addresses; or in the pieces that the kernel writes.
    """

    __slots__ = ("_conversions", "_joined", "_parts", "_strings", "_unpack", "fixed", "template")

    def __init__(self, arguments: Sequence[FetchArg], start: int, symbols: Covering, *, joined: bool = False) -> None:
        self._joined = joined  # a name and its value are one piece
        codes = [f"<{HEAD}x{start - HEAD}s"]
        parts: list[bytes] = []
        strings: set[int] = set()
        conversions: dict[int, Callable[[int], bytes]] = {}
        count = 1
        for argument in arguments:
            kind = argument.type
            length = argument.length or 1
            piece = _TEMPLATES.get(kind.text, b"%b")
            parts.append(b" %b=" % argument.name.encode("latin-1"))
            if argument.length:
                parts += [Put(b"{"), *[piece, Put(b",")] * (length - 1), piece, Put(b"}")]
            else:
                parts.append(piece)
            signed = kind.signed and not kind.is_string
            codes.append((_SIGNED_CODES if signed else _UNSIGNED_CODES)[kind.size] * length)
            conversion = _conversion(kind, symbols)
            if kind.is_string:
                strings.update(range(count, count + length))
            elif conversion is not None:
                conversions.update(dict.fromkeys(range(count, count + length), conversion))
            count += length
        layout = struct.Struct("".join(codes))
        self.template = b"".join([part if _takes(part) else part.replace(b"%", b"%%") for part in parts])
        self._parts = parts
        self._strings = strings  # indexes among the values
        self._conversions = conversions
        self._unpack, self.fixed = layout.unpack_from, itemgetter(slice(layout.size))

    def values(self, record: bytes) -> list[Any]:
        """Return the addresses of a record, as bytes, and the values for the template."""
        values = [*self._unpack(record)]
        for index in self._strings:
            values[index] = _string(record, values[index])
        for index, convert in self._conversions.items():
            values[index] = convert(values[index])
        return values

    def columns(self, rows: Rows, lead: Callable[[bytes], bytes]) -> list[Part]:
        """Return the texts of records in parts, after the texts that `lead` makes of their addresses."""
        addresses, *numbers = zip(*map(self._unpack, rows.rows), strict=True)
        parts: list[Part] = []
        run: list[Part] = [column(addresses, lead)]
        following = enumerate(numbers, 1)
        for part in self._parts:
            if not _takes(part):
                run.append(part)
                continue
            index, values = next(following)
            if index in self._strings:
                before, texts, after = _strings(rows, values, is_only=len(self._strings) == 1)
                parts += *rows.texts([*run, before]), texts
                run = [after]
            else:
                run.append(column(values, self._conversions.get(index, part.__mod__)))
        return [*parts, *rows.texts(run)]

    def pieces(self, record: bytes) -> list[bytes]:
        """Return the text of one record in the pieces that the kernel writes."""
        following = iter(self.values(record)[1:])
        found = [_filled(part, next(following)) if _takes(part) else part for part in self._parts]
        return [b"".join(pair) for pair in zip(found[::2], found[1::2], strict=True)] if self._joined else found
