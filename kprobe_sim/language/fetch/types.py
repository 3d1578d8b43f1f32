"""The types that a fetch argument may have.

Source: the recorded `format` files and definitions of each kernel (fixtures/definitions); docs/kernel/types.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from kprobe_sim.builds.gates import Gates
from kprobe_sim.language.primitives.kstrto import kstrtoul
from kprobe_sim.named_tuple import NamedTuple


class FetchType(NamedTuple):
    """A fetch type: `name` as written, `field` as the format file names it, `size` in bytes, `text` for print fmt."""

    name: str
    field: str
    size: int
    signed: bool
    text: str
    is_string: bool = False


_STRING_FIELD = "__data_loc char[]"
_STRING_TEXT = '\\"%s\\"'
_STRINGS = {
    name: FetchType(name, _STRING_FIELD, 4, True, _STRING_TEXT, True) for name in ("string", "ustring", "symstr")
}
_UNSIGNED = {f"u{bits}": FetchType(f"u{bits}", f"u{bits}", bits // 8, False, "%u") for bits in (8, 16, 32)}
_SIGNED = {f"s{bits}": FetchType(f"s{bits}", f"s{bits}", bits // 8, True, "%d") for bits in (8, 16, 32)}
_HEXADECIMAL = {f"x{bits}": FetchType(f"x{bits}", f"u{bits}", bits // 8, False, "0x%x") for bits in (8, 16, 32)}
_WIDE = {
    "u64": FetchType("u64", "u64", 8, False, "%Lu"),
    "s64": FetchType("s64", "s64", 8, True, "%Ld"),
    "x64": FetchType("x64", "u64", 8, False, "0x%Lx"),
    "symbol": FetchType("symbol", "u64", 8, False, "%pS"),
}
_CHAR = FetchType("char", "u8", 1, False, "'%c'")
_TYPES = {**_STRINGS, **_UNSIGNED, **_SIGNED, **_HEXADECIMAL, **_WIDE, "char": _CHAR}
DEFAULT_TYPE = _TYPES["x64"]
STRING_TYPE = _TYPES["string"]


def _bitfield_base(text: str) -> FetchType | None:
    _, slash, bits = text.partition("/")
    if not slash:
        return None
    try:
        number = kstrtoul(bits)
    except OSError:
        return None
    return _TYPES[f"u{number}"] if number in (8, 16, 32, 64) else None


_PRINTED: Mapping[str, Mapping[str, tuple[str, ...]]] = {  # print fmt of 8, 16, 32 and 64 bits
    "bare": {"u": ("%x", "%x", "%lx", "%llx"), "s": ("%d", "%d", "%ld", "%lld")},
    "prefixed": {"u": ("0x%x", "0x%x", "0x%x", "0x%Lx"), "s": ("%d", "%d", "%d", "%Ld")},
    "decimal": {"u": ("%u", "%u", "%u", "%Lu"), "s": ("%d", "%d", "%d", "%Ld"), "x": ("0x%x", "0x%x", "0x%x", "0x%Lx")},
}
_WORD = FetchType("u64", "unsigned long", 8, False, "%lx")  # of all arguments before 2.6.35
_EARLY: Mapping[str, Mapping[str, FetchType]] = {
    how: {
        f"{letter}{8 << place}": FetchType(
            f"{letter}{8 << place}", f"{'s' if letter == 's' else 'u'}{8 << place}", 1 << place, letter == "s", text
        )
        for letter, texts in letters.items()
        for place, text in enumerate(texts)
    }
    for how, letters in _PRINTED.items()
}


def early_type(text: str | None, gates: Gates) -> FetchType | None:
    """Return the type written as `text` (None for no type) on a kernel before 4.20, None if it doesn't exist."""
    if gates.number_texts == "untyped":
        return None if text is not None else _WORD
    known = _EARLY[gates.number_texts]
    if text is None:
        size = 8 * gates.word_size
        text = f"x{size}" if "x64" in known else f"u{size}"
    elif text.startswith("b"):
        if not gates.bitfields:
            return None
        _, slash, bits = text.partition("/")
        try:
            text = f"u{kstrtoul(bits)}" if slash else ""
        except OSError:
            return None
    return STRING_TYPE if text == "string" and gates.strings else known.get(text)


def find_type(text: str | None, gates: Gates) -> FetchType | None:
    """Return the type written as `text` (without an array suffix; None for no type), None if it doesn't exist."""
    if text is None:
        return DEFAULT_TYPE
    if text.startswith("b"):
        return _bitfield_base(text)
    if (text == "symstr" and not gates.symstr) or (text == "char" and not gates.char):
        return None
    return _TYPES.get(text)
