"""Numbers, blanks and names, as the kernel reads them from text.

Text is `str` in latin-1: one character is one byte.  Sources: lib/kstrtox.c, lib/ctype.c and lib/argv_split.c as they
behave on the recorded kernels (fixtures/definitions).
"""

from __future__ import annotations

import errno
import re

from kprobe_sim.language.primitives.refusal import refuse

ULONG_MAX = (1 << 64) - 1
LONG_MAX = (1 << 63) - 1
UINT_MAX = (1 << 32) - 1

# isspace() of the kernel: the ASCII blanks and, as its table is latin-1, the no-break space.
_TOKEN = re.compile(r"[^\t\n\x0b\x0c\r \xa0]+")
# isalpha() of the kernel knows the latin-1 letters too, but not the multiplication and division signs among them.
_LETTER = r"A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\xff"
_NAME = re.compile(rf"[{_LETTER}_][{_LETTER}0-9_]*")
_SYSTEM = re.compile(rf"[{_LETTER}_\-][{_LETTER}0-9_\-]*")
_RADIX_DIGITS = {8: re.compile("[0-7]*"), 10: re.compile("[0-9]*"), 16: re.compile("[0-9A-Fa-f]*")}
_HEXADECIMAL = re.compile("0[xX][0-9A-Fa-f]")


def tokens(text: str) -> list[str]:
    """Split a line as argv_split() does."""
    return _TOKEN.findall(text)


def is_digit(text: str, position: int) -> bool:
    """Return True if an ASCII digit is at `position`."""
    return "0" <= text[position : position + 1] <= "9"


def is_name(text: str) -> bool:
    """Return True for a good event or argument name (is_good_name)."""
    return _NAME.fullmatch(text) is not None


def is_system(text: str) -> bool:
    """Return True for a good group name where hyphens are allowed (is_good_system_name)."""
    return _SYSTEM.fullmatch(text) is not None


def _digits(text: str, start: int, base: int) -> tuple[int, int, int]:
    """Return base, first and end position of the digits at `start`."""
    if base == 0:
        if text[start : start + 1] != "0":
            base = 10
        elif _HEXADECIMAL.match(text, start):
            base = 16
        else:
            base = 8
    if base == 16 and text[start : start + 2] in ("0x", "0X"):
        start += 2
    match = _RADIX_DIGITS[base].match(text, start)
    return base, start, match.end() if match else start


def _unsigned(text: str, base: int) -> int:
    base, start, end = _digits(text, 0, base)
    value = int(text[start:end], base) if end > start else 0
    if value > ULONG_MAX:
        raise refuse(errno.ERANGE)  # whatever follows the digits
    if end == start or text[end:] not in ("", "\n"):
        raise refuse(errno.EINVAL)
    return value


def kstrtoul(text: str, base: int = 0) -> int:
    """Read a 64-bit unsigned number that fills the text, with an optional leading + and trailing newline.

    Raises OSError: EINVAL, or ERANGE on overflow.
    """
    return _unsigned(text[1:] if text.startswith("+") else text, base)


def kstrtol(text: str, base: int = 0) -> int:
    """Read a 64-bit signed number that fills the text.  Raises OSError: EINVAL or ERANGE."""
    if text.startswith("-"):
        value = _unsigned(text[1:], base)
        if value > LONG_MAX + 1:
            raise refuse(errno.ERANGE)
        return -value
    value = kstrtoul(text, base)
    if value > LONG_MAX:
        raise refuse(errno.ERANGE)
    return value


def read_ulong(text: str, size: int) -> int:
    """Read an unsigned long of `size` bytes, 4 or 8; the sign bit of one of 4 is extended to 64 bits, as in symbols.

    Raises OSError: EINVAL or ERANGE.
    """
    if size == 8:
        return kstrtoul(text)
    value = kstrtouint(text)
    return value | (ULONG_MAX ^ UINT_MAX) if value >> 31 else value


def read_long(text: str, size: int) -> int:
    """Read a signed long of `size` bytes, 4 or 8.  Raises OSError: EINVAL or ERANGE."""
    value = kstrtol(text)
    if size == 4 and not -1 << 31 <= value < 1 << 31:
        raise refuse(errno.ERANGE)
    return value


def kstrtouint(text: str, base: int = 0) -> int:
    """Read a 32-bit unsigned number that fills the text.  Raises OSError: EINVAL or ERANGE."""
    value = kstrtoul(text, base)
    if value > UINT_MAX:
        raise refuse(errno.ERANGE)
    return value


def simple_strtoul(text: str, start: int) -> tuple[int, int]:
    """Read the digits at `start`, base 0, and return the number (modulo 2**64) and where they end."""
    base, first, end = _digits(text, start, 0)
    return (int(text[first:end], base) & ULONG_MAX, end) if end > first else (0, start)
