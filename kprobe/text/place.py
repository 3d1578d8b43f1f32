"""Places in code as the kernel prints them."""

import re

from kprobe.text.records import CodeAddress

# seq_print_ip_sym() and %pS: symbol+0xOFFSET/0xSIZE [module] <address>, each part but the first optional.
_PLACE = re.compile(
    r"(?P<symbol>[^\s()<>\[\]]+?|\[unknown/kretprobe'd\])"
    r"(?:\+0x(?P<offset>[0-9a-f]+)/0x(?P<size>[0-9a-f]+))?"
    r"(?: \[(?P<module>[^\s\[\]]+)\])?"
    r"(?: <(?P<address>[0-9a-f]+)>)?"
)
_ADDRESS = re.compile(r"(?:0x([0-9a-f]+)| ?<([0-9a-f]+)>)")
# Digits alone: no symbol begins with one, and none is made of 8 or 16 hexadecimal digits with a number among them.
_DIGITS = re.compile(r"[0-9][0-9a-f]{0,15}|(?=[a-f]*[0-9])(?:[0-9a-f]{16}|[0-9a-f]{8})")


def find_place(text: str) -> CodeAddress | None:
    """Read a place; None if the text isn't one."""
    if (number := _ADDRESS.fullmatch(text)) is not None:
        return CodeAddress("", None, None, "", int(number[1] or number[2], 16), text)
    if _DIGITS.fullmatch(text) is not None:
        return CodeAddress("", None, None, "", int(text, 16), text)
    parts = _PLACE.fullmatch(text)
    if parts is None:
        return None
    offset, size, address = parts["offset"], parts["size"], parts["address"]
    return CodeAddress(
        parts["symbol"],
        int(offset, 16) if offset else None,
        int(size, 16) if size else None,
        parts["module"] or "",
        int(address, 16) if address else None,
        text,
    )


def frame(text: str) -> CodeAddress:
    """Read a line of a stack; of what isn't a place only the text is known."""
    return find_place(text) or CodeAddress("", None, None, "", None, text)
