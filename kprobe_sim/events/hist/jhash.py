"""The hash by which histograms find their entries: lookup3 by Bob Jenkins, public domain (jhash() of the kernel)."""

from __future__ import annotations

_MASK = 0xFFFF_FFFF
_START = 0xDEAD_BEEF
_BLOCK = 12


def jhash(key: bytes) -> int:
    """Return the 32-bit hash of a key."""
    a = b = c = _START + len(key) & _MASK
    if not key:
        return c
    last = (len(key) - 1) // _BLOCK * _BLOCK
    for start in range(0, last, _BLOCK):
        a, b, c = _added(key[start : start + _BLOCK], a, b, c)
        a, c = _step(a, c, 4), c + b & _MASK
        b, a = _step(b, a, 6), a + c & _MASK
        c, b = _step(c, b, 8), b + a & _MASK
        a, c = _step(a, c, 16), c + b & _MASK
        b, a = _step(b, a, 19), a + c & _MASK
        c, b = _step(c, b, 4), b + a & _MASK
    a, b, c = _added(key[last:], a, b, c)
    c = _closed(c, b, 14)
    a = _closed(a, c, 11)
    b = _closed(b, a, 25)
    c = _closed(c, b, 16)
    a = _closed(a, c, 4)
    b = _closed(b, a, 14)
    return _closed(c, b, 24)


def _added(block: bytes, a: int, b: int, c: int) -> tuple[int, int, int]:
    words = block.ljust(_BLOCK, b"\0")
    first, second, third = (int.from_bytes(words[start : start + 4], "little") for start in (0, 4, 8))
    return a + first & _MASK, b + second & _MASK, c + third & _MASK


def _turned(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK


def _step(number: int, other: int, bits: int) -> int:
    return (number - other ^ _turned(other, bits)) & _MASK


def _closed(number: int, other: int, bits: int) -> int:
    return (number ^ other) - _turned(other, bits) & _MASK
