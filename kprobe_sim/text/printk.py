"""The kernel's printf: a format and its arguments -> bytes (what `print fmt` of events uses of lib/vsprintf.c).

An argument is an int, or bytes: a string for %s, the data that a pointer points to for %pI4, %phD and the like.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence

from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.text.c_expression import NotEvaluable, number
from kprobe_sim.text.c_value import CValue

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*+)(?P<width>\*|[0-9]++)?(?:\.(?P<precision>\*|-?[0-9]*+))?(?P<length>hh|h|ll|l|L|z|Z|t|j)?"
    r"(?P<kind>p(?:I[46][a-zA-Z]*|IS[pfschnbl]*|i[46]|U[bBlL]?|M[FR]?|h[CDN]?|b[l]?|[SsBxe]|K|)|[diuoxXcs%])"
)
_BITS = {"hh": 8, "h": 16, None: 32, "l": 64, "ll": 64, "L": 64, "z": 64, "Z": 64, "t": 64, "j": 64}
_AF_INET, _AF_INET6 = 2, 10
_ERRORS = 2**64 - 4095  # a pointer from here on is an error


class Pointers(NamedTuple):
    """How a kernel shows an address: the text of %ps and %pS (offset or not), and the number of %p."""

    symbol: Callable[[int, bool], bytes]
    hashed: Callable[[int], int]
    string: Callable[[int], bytes | None]  # the bytes at an address up to the NUL; None if unknown


class _Piece(NamedTuple):
    flags: str
    width: str
    precision: str | None
    bits: int
    kind: str


Printf = Callable[[Iterator[CValue]], bytes]


def compile_format(text: str, pointers: Pointers) -> Printf:
    """Return the function that fills a format with arguments.  Raises NotEvaluable for an unknown conversion."""
    pieces: list[bytes | _Piece] = []
    position = 0
    while (start := text.find("%", position)) >= 0:
        match = _CONVERSION.match(text, start)
        if match is None:
            raise NotEvaluable(f"conversion {text[start : start + 8]!r}")
        pieces.append(text[position:start].encode("latin-1"))
        if match["kind"] == "%":
            pieces.append(b"%")
        else:
            bits = _BITS[match["length"]]
            pieces.append(_Piece(match["flags"], match["width"] or "", match["precision"], bits, match["kind"]))
        position = match.end()
    pieces.append(text[position:].encode("latin-1"))

    def fill(arguments: Iterator[CValue]) -> bytes:
        return b"".join(piece if isinstance(piece, bytes) else _convert(piece, arguments, pointers) for piece in pieces)

    return fill


def _convert(piece: _Piece, arguments: Iterator[CValue], pointers: Pointers) -> bytes:
    flags = piece.flags
    width = number(next(arguments)) if piece.width == "*" else int(piece.width or "0")
    if width >= 1 << 31:
        width -= 1 << 32
    if width < 0:
        flags, width = flags + "-", -width
    precision: int | None = None
    if piece.precision is not None:
        precision = number(next(arguments)) if piece.precision == "*" else max(int(piece.precision or "0"), 0)
    value = next(arguments)
    kind = piece.kind
    if kind == "s":
        return _padded(_text(value, pointers)[:precision], flags, width)
    if kind == "c":
        return _padded(bytes([number(value) & 0xFF]), flags, width)
    if kind[0] == "p":
        return _pointer(kind[1:], value, flags, width, pointers)
    return _integer(number(value), kind, flags, width, precision, piece.bits)


def _text(value: CValue, pointers: Pointers) -> bytes:
    if isinstance(value, bytes):
        return value.split(b"\0", 1)[0]
    if not value:
        return b"(null)"
    text = pointers.string(value & (2**64 - 1))
    # the string of a recorded pointer may be gone: trace_check_vprintf() shows the address
    return b"(0x%x:)" % (value & (2**64 - 1)) if text is None else text


def _padded(text: bytes, flags: str, width: int) -> bytes:
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _integer(value: int, kind: str, flags: str, width: int, precision: int | None, bits: int) -> bytes:
    value &= (1 << bits) - 1
    sign = ""
    if kind in "di":
        if value >> (bits - 1):
            value, sign = (1 << bits) - value, "-"
        elif "+" in flags or " " in flags:
            sign = "+" if "+" in flags else " "
    digits = format(value, "d" if kind in "diu" else kind)
    if "#" in flags:
        # unlike in C, zero has the prefix too
        sign += {"x": "0x", "X": "0X"}.get(kind, "")
        if kind == "o" and value:
            digits = "0" + digits
    digits = digits.rjust(precision or 0, "0")
    if "0" in flags and "-" not in flags and precision is None:
        digits = digits.rjust(width - len(sign), "0")
    return _padded((sign + digits).encode(), flags, width)


def _pointer(kind: str, value: CValue, flags: str, width: int, pointers: Pointers) -> bytes:
    if kind in ("", "K", "x", "e"):
        address = number(value) & (2**64 - 1)
        if kind in ("", "K") and 0 < address < _ERRORS:
            address = pointers.hashed(address)
        return _padded(b"%016x" % address, flags, width)
    if kind[0] in "SsB":
        return _padded(pointers.symbol(number(value) & (2**64 - 1), kind[0] != "s"), flags, width)
    if isinstance(value, int):
        raise NotEvaluable(f"%p{kind} of a pointer")
    if kind[0] == "h":
        separator = {"hC": ":", "hD": "-", "hN": ""}.get(kind, " ")
        return separator.join(f"{byte:02x}" for byte in value[: min(width or 1, 64)]).encode()
    if kind[0] == "b":
        bits = range(width or 8 * len(value))
        chosen = [bit for bit in bits if value[bit // 8] >> bit % 8 & 1]
        return _ranges(chosen) if kind == "bl" else b"%x" % sum(1 << bit for bit in chosen)
    return _padded(_address(kind, value), flags, width)


def _address(kind: str, value: bytes) -> bytes:
    if kind[0] == "M":
        return b":".join(b"%02x" % byte for byte in value[:6])
    if kind[0] == "U":
        import uuid  # imported late: few events show one, and the import costs as much as ten of our modules

        text = str(uuid.UUID(bytes=value[:16]) if kind not in ("Ul", "UL") else uuid.UUID(bytes_le=value[:16]))
        return (text.upper() if kind in ("UB", "UL") else text).encode()
    if kind in ("I4", "i4"):
        joined = ".".join(f"{byte:03d}" if kind == "i4" else str(byte) for byte in value[:4])
        return joined.encode()
    if kind in ("I6", "i6"):
        return (":" if kind == "I6" else "").join(value[i : i + 2].hex() for i in range(0, 16, 2)).encode()
    if kind == "I6c":
        return _compressed(value[:16]).encode()
    if kind.startswith("IS"):
        return _socket(kind[2:], value)
    raise NotEvaluable(f"%p{kind}")


def _socket(options: str, value: bytes) -> bytes:
    import ipaddress

    family, port = struct.unpack_from("<H", value)[0], struct.unpack_from(">H", value, 2)[0]
    if family == _AF_INET:
        text = str(ipaddress.IPv4Address(value[4:8]))
    elif family == _AF_INET6:
        text = _compressed(value[8:24])
        if "p" in options:
            text = f"[{text}]"
    else:
        return b"(einval)"
    return f"{text}:{port}".encode() if "p" in options else text.encode()


def _compressed(value: bytes) -> str:
    import ipaddress  # imported late: few events show one

    address = ipaddress.IPv6Address(value)
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)


def _ranges(chosen: Sequence[int]) -> bytes:
    parts: list[str] = []
    start = 0
    for index, bit in enumerate(chosen):
        if index + 1 < len(chosen) and chosen[index + 1] == bit + 1:
            continue
        first = chosen[start]
        parts.append(str(first) if first == bit else f"{first}-{bit}")
        start = index + 1
    return ",".join(parts).encode()
