"""Records shown field by field, as the option `fields` shows them (print_event_fields)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kprobe_sim.records.field import Field
from kprobe_sim.records.ring_page import event_length

_MAX_SMALL = 112


def compile_fields(
    name: bytes,
    fields: Sequence[Field],
    symbol: Callable[[int], bytes] | None,
    *,
    strict: bool,
    pointed: Callable[[int], bytes | None] = lambda address: None,
) -> Callable[[bytes], bytes]:
    """Return the function that shows the records of an event.

    `symbol` prints an address as %pS does, for kernels that show 64-bit numbers that way.  `strict` kernels also show
    strings with unprintable bytes as hex digits.  `pointed` returns the string in the kernel's memory that a
    char pointer points to, None if it can't be read.  Source: trace_output.c 6.12.117 and 7.2, print_fields(); guests
    that played kprobe_sim/scenarios/shipped/static_beside.toml.
    """

    def shown(data: bytes) -> bytes:
        room = event_length(len(data)) - (8 if len(data) > _MAX_SMALL else 4)  # the length that the ring buffer reports
        padded = data.ljust(room, b"\0")
        values = [
            b" %b=%b" % (field.name.encode("latin-1"), _value(field, padded, symbol, pointed, strict=strict))
            for field in fields
        ]
        return name + b":" + (b"".join(values) if values else b"No fields found\n") + b"\n"

    return shown


def _value(
    field: Field,
    data: bytes,
    symbol: Callable[[int], bytes] | None,
    pointed: Callable[[int], bytes | None],
    *,
    strict: bool,
) -> bytes:
    if field.offset + field.size > len(data):
        return b"<OVERFLOW>"
    content = data[field.offset : field.offset + field.size]
    kind = field.type
    if "__data_loc" in kind and "char" in kind:
        return _string(data, content[:4], strict=strict)
    if "__data_loc" in kind and "cpumask_t" in kind:
        return b"<INVALID-TYPE>"
    if "[" in kind and "char" in kind:
        return content.partition(b"\0")[0]
    if field.size == 4 and "__data_loc" in kind:
        return _array(data, content)
    if kind in ("char *", "const char *"):
        address = int.from_bytes(content, "little")
        text = pointed(address)
        return b"(0x%016x)" % address if text is None else b"(0x%016x:%b)" % (address, text)
    return _number(content, symbol)


def _number(content: bytes, symbol: Callable[[int], bytes] | None) -> bytes:
    number = int.from_bytes(content, "little")
    match len(content):
        case 1:
            return (b"'%b'" % content if _is_printable(number) else b"") + b"(%d)" % number
        case 2:
            return b"0x%x (%d)" % (number, number)
        case 4:
            return b"0x%x (%d)" % (number, _signed(number, 32))
        case 8 if symbol is not None:
            return b"%b (%d)" % (symbol(number), _signed(number, 64))
        case 8:
            return b"0x%x (%d)" % (number, _signed(number, 64))
    return b"<INVALID-SIZE>"


def _location(word_bytes: bytes) -> tuple[int, int]:
    word = int.from_bytes(word_bytes, "little")
    return word & 0xFFFF, word >> 16


def _string(data: bytes, location: bytes, *, strict: bool) -> bytes:
    offset, length = _location(location)
    if offset + length > len(data):
        return b"<OVERFLOW>"
    text = data[offset : offset + length]
    if strict and any(byte and not 0x20 <= byte < 0x7F for byte in text):
        readable = bytes(byte if 0x20 <= byte < 0x7F else ord(".") for byte in text)
        return readable + b" (" + text.hex(":").encode() + b")"
    return text.partition(b"\0")[0]


def _array(data: bytes, location: bytes) -> bytes:
    offset, length = _location(location)
    if offset + length > len(data):
        return b"<OVERFLOW>"
    return b",".join(b"%02x" % byte for byte in data[offset : offset + length])


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def _is_printable(byte: int) -> bool:
    return 0x20 <= byte < 0x7F or byte >= 0xA0  # the kernel's isprint()
