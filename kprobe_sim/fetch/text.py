"""The arguments of a record as the trace shows them: b' dfd=-100 s="x"'.

The layout is compiled once per event into a struct and a %-template.  Sources: trace_probe.c and trace_probe_tmpl.h of
6.1; recorded traces.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from kprobe_sim.fetch.argument import FetchArg
from kprobe_sim.machine.symbol_text import Covering, symbol_text
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.records.trace_seq import Put

_FAULT = Put(b"(fault)")
_SIGNED_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}
_UNSIGNED_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_TEMPLATES = {"%u": b"%d", "%Lu": b"%d", "%d": b"%d", "%Ld": b"%d", "0x%x": b"0x%x", "0x%Lx": b"0x%x"}

Conversion = Callable[[bytes, int], bytes | int]  # (record, value of the field) -> what the template takes


def _string(record: bytes, location: int) -> bytes:
    """Return a string of the record in quotes; one of no length couldn't be read."""
    if not location >> 16:
        return _FAULT
    start = location & 0xFFFF
    end = record.find(b"\0", start)
    return b'"%b"' % (record[start:] if end < 0 else record[start:end])


def _character(_: bytes, value: int) -> bytes:
    """Return a character as printk's %c does in a text that ends at a NUL."""
    return b"'%c'" % value


def _symbol(symbols: Covering) -> Conversion:
    return lambda record, value: symbol_text(symbols, value).encode("latin-1")


def _filled(part: bytes, value: bytes | int) -> bytes:
    return value if isinstance(value, Put) else part % value


class ArgumentsText(NamedTuple):
    """What turns a record into the text after the probe's place.

    Either at once, by a %-template and the values that it takes, or in the pieces that the kernel writes.
    """

    template: bytes
    values: Callable[[bytes], Sequence[bytes | int]]
    pieces: Callable[[bytes], list[bytes]]

    def whole(self, record: bytes) -> bytes:
        """Return the text at once."""
        return self.template % tuple(self.values(record))


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
        if kind.is_string:
            conversions += [(place, _string) for place in range(count, count + length)]
        elif kind.name == "symbol":
            conversions += [(place, _symbol(symbols)) for place in range(count, count + length)]
        elif kind.name == "char":
            conversions += [(place, _character) for place in range(count, count + length)]
        count += length
    unpack = struct.Struct("".join(codes)).unpack_from

    def converted(record: bytes) -> Sequence[bytes | int]:
        found = list(unpack(record, start))
        for place, convert in conversions:
            found[place] = convert(record, found[place])
        return found

    values = converted if conversions else lambda record: unpack(record, start)

    def pieces(record: bytes) -> list[bytes]:
        following = iter(values(record))
        return [_filled(part, next(following)) if b"%" in part else part for part in parts]

    return ArgumentsText(b"".join(parts), values, pieces)
