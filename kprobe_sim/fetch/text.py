"""The arguments of a record as the trace shows them: b' dfd=-100 s="x"'.

The layout is compiled once per event into a struct and a %-template.  Sources: trace_probe.c and trace_probe_tmpl.h of
6.1; recorded traces.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import repeat

from kprobe_sim.fetch.argument import FetchArg
from kprobe_sim.fetch.types import FetchType
from kprobe_sim.machine.symbol_text import Covering, symbol_text
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.records.trace_seq import Put

_FAULT = Put(b"(fault)")
_SIGNED_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}
_UNSIGNED_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_TEMPLATES = {"%u": b"%d", "%Lu": b"%d", "%d": b"%d", "%Ld": b"%d", "0x%x": b"0x%x", "0x%Lx": b"0x%x"}

# (records, values of the field in each) -> what the template takes
Conversion = Callable[[Sequence[bytes], Sequence[int]], Sequence[bytes]]


def _strings(records: Sequence[bytes], locations: Sequence[int]) -> Sequence[bytes]:
    """Return strings of the records in quotes; one of no length couldn't be read."""
    return [
        b'"%b"' % record[location & 0xFFFF :].partition(b"\0")[0] if location >> 16 else _FAULT
        for record, location in zip(records, locations, strict=True)
    ]


def _characters(_: Sequence[bytes], values: Sequence[int]) -> Sequence[bytes]:
    """Return characters as printk's %c does in a text that ends at a NUL."""
    return [b"'%c'" % value for value in values]


def _symbols(symbols: Covering) -> Conversion:
    def shown(_: Sequence[bytes], values: Sequence[int]) -> Sequence[bytes]:
        texts = {value: symbol_text(symbols, value).encode("latin-1") for value in set(values)}
        return [texts[value] for value in values]

    return shown


def _conversion(kind: FetchType, symbols: Covering) -> Conversion | None:
    if kind.is_string:
        return _strings
    if kind.name == "symbol":
        return _symbols(symbols)
    return _characters if kind.name == "char" else None


def _filled(part: bytes, value: bytes | int) -> bytes:
    return value if isinstance(value, Put) else part % value


class ArgumentsText(NamedTuple):
    """What turns records into the texts after the probe's place.

    Either at once, by a %-template and the values that it takes of a record, or of many records, a column for each; or
    in the pieces that the kernel writes.
    """

    template: bytes
    values: Callable[[bytes], Sequence[bytes | int]]
    columns: Callable[[Sequence[bytes]], Sequence[Sequence[bytes | int]]]
    pieces: Callable[[bytes], list[bytes]]

    def whole(self, record: bytes) -> bytes:
        """Return the text of one record at once."""
        return self.template % (*self.values(record),)


def compile_text(arguments: Sequence[FetchArg], start: int, symbols: Covering) -> ArgumentsText:
    """Compile the text of a record, whose arguments begin at byte `start`."""
    codes = ["<"]
    parts: list[bytes] = []
    conversions: list[tuple[int, Conversion]] = []
    count = 0
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
        if conversion is not None:
            conversions += [(place, conversion) for place in range(count, count + length)]
        count += length
    unpack = struct.Struct("".join(codes)).unpack_from

    def values(record: bytes) -> Sequence[bytes | int]:
        plain: Sequence[int] = unpack(record, start)
        if not conversions:
            return plain
        found: list[bytes | int] = [*plain]
        for place, convert in conversions:
            found[place] = convert((record,), (plain[place],))[0]
        return found

    def columns(records: Sequence[bytes]) -> Sequence[Sequence[bytes | int]]:
        plain: list[Sequence[int]] = list(zip(*map(unpack, records, repeat(start)), strict=True))
        found: list[Sequence[bytes | int]] = [*plain]
        for place, convert in conversions:
            found[place] = convert(records, plain[place])
        return found

    def pieces(record: bytes) -> list[bytes]:
        following = iter(values(record))
        return [_filled(part, next(following)) if b"%" in part else part for part in parts]

    return ArgumentsText(b"".join(parts), values, columns, pieces)
