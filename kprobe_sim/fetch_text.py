"""The arguments of a record as the trace shows them: b' dfd=-100 s="x"'.

The layout is compiled once per event into a struct and a %-template.  Sources: trace_probe.c and trace_probe_tmpl.h of
6.1; recorded traces.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from kprobe_sim.fetch import FetchArg
from kprobe_sim.symbol_text import Covering, symbol_text

_FAULT = b"(fault)"
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
    return b'"' + (record[start:] if end < 0 else record[start:end]) + b'"'


def _character(_: bytes, value: int) -> bytes:
    """Return a character as printk's %c does in a text that ends at a NUL."""
    return b"'%c'" % value


def _symbol(symbols: Covering) -> Conversion:
    return lambda record, value: symbol_text(symbols, value).encode("latin-1")


def compile_text(arguments: Sequence[FetchArg], start: int, symbols: Covering) -> Callable[[bytes], bytes]:
    """Compile what turns a record, whose arguments begin at byte `start`, into the text behind the probe's place."""
    codes = ["<"]
    template = b""
    conversions: list[tuple[int, Conversion]] = []
    count = 0
    for argument in arguments:
        kind = argument.type
        length = argument.length or 1
        piece = _TEMPLATES.get(kind.text, b"%b")
        joined = b",".join([piece] * length)
        template += b" " + argument.name.encode("latin-1") + b"=" + (b"{%b}" % joined if argument.length else joined)
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
    if not conversions:
        return lambda record: template % unpack(record, start)

    def text(record: bytes) -> bytes:
        values = list(unpack(record, start))
        for place, convert in conversions:
            values[place] = convert(record, values[place])
        return template % tuple(values)

    return text
