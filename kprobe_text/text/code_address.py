"""Code addresses as the kernel, trace-cmd and perf print them."""

import re
from typing import Final

from kprobe_text.text.records import CodeAddress, Value

# seq_print_ip_sym() and %pS: symbol+0xOFFSET/0xSIZE [module] <address>, each part but the first optional.
_ADDRESS_OF_SYMBOL = re.compile(
    r"((?:\[unknown/kretprobe'd\]|)[^\s()<>\[\]]*+)(?: \[([^\s\[\]]++)\]|)(?: <([0-9a-f]{1,16}+)>|)"
)
# the form of most
_SYMBOL_AND_OFFSET = re.compile(r"([^\s()<>\[\]+]++)\+0x([0-9a-f]++)/0x([0-9a-f]++)")
_OFFSET = re.compile(r"0x([0-9a-f]++)/0x([0-9a-f]++)")
_LOST: Final = "[unknown/kretprobe'd]"
_ADDRESS = re.compile(r"(?:0x([0-9a-f]{1,16})| ?<([0-9a-f]{1,16})>)")
# Digits alone: no symbol begins with one, and none is made of 8 or 16 hexadecimal digits with a number among them.
_DIGITS = re.compile(r"[0-9][0-9a-f]{0,15}|(?=[a-f]*[0-9])(?:[0-9a-f]{16}|[0-9a-f]{8})")

# a frame of trace-cmd: symbol (address), with +0xOFFSET if it was asked for
_REPORTED = re.compile(r"(\S.*) \(([0-9a-f]{1,16})\)")
# One of perf script: symbol+0xOFFSET (file), where both may hold blanks and parentheses; inlined code has no offset.
_IN_FILE = re.compile(r"(?=.*\)\Z)(?:(.*?\+0x[0-9a-f]+|\[unknown\]) \(.*\)|(.*) \((?>(?:[^()]++|\([^()]*+\))*)\))")
_WITH_OFFSET = re.compile(r"(.+)\+0x([0-9a-f]{1,16})")


def code_address(text: str) -> CodeAddress | None:
    """Read a code address; None if the text isn't one."""
    if (usual := _SYMBOL_AND_OFFSET.fullmatch(text)) is not None:
        name, start, length = usual.groups()
        return CodeAddress(name, int(start, 16), int(length, 16), "", None, text)
    if "+" not in text:
        if (number := _ADDRESS.fullmatch(text)) is not None:
            return CodeAddress("", None, None, "", int(number[1] or number[2], 16), text)
        if _DIGITS.fullmatch(text) is not None:
            return CodeAddress("", None, None, "", int(text, 16), text)
    parts = _ADDRESS_OF_SYMBOL.fullmatch(text)
    if parts is None:
        return None
    shown, module, address = parts.groups()
    symbol, _, behind = shown.rpartition("+")
    found = _OFFSET.fullmatch(behind) if symbol else None
    offset = size = None
    if found is None:
        symbol = shown
    else:
        offset, size = int(found[1], 16), int(found[2], 16)
    if not symbol or (symbol[0] == "[" and symbol != _LOST):
        return None
    return CodeAddress(symbol, offset, size, module or "", int(address, 16) if address else None, text)


def frame(text: str) -> CodeAddress:
    """Read a line of a stack; where it isn't a code address, only its text is known."""
    return code_address(text) or CodeAddress("", None, None, "", None, text)


def reported_frame(text: str) -> CodeAddress:
    """Read a line of a stack as `trace-cmd report` prints it; its text is the whole line."""
    found = _REPORTED.fullmatch(text)
    return frame(text) if found is None else _unsized(found[1], int(found[2], 16), text)


def scripted_frame(address: str, text: str) -> CodeAddress:
    """Read a line of a stack as `perf script` prints it: an address, and a symbol with its file."""
    found = _IN_FILE.fullmatch(text)
    shown = text if found is None else found[1] or found[2]
    return _unsized(shown, int(address, 16), f"{shown} <{address}>")


def _unsized(shown: str, address: int, text: str) -> CodeAddress:
    if shown == "[unknown]":
        return CodeAddress("", None, None, "", address, text)
    found = _WITH_OFFSET.fullmatch(shown)
    symbol, offset = (shown, None) if found is None else (found[1], int(found[2], 16))
    return CodeAddress(symbol, offset, None, "", address, text)


def pop_code_address(fields: dict[str, Value], name: str) -> CodeAddress | None:
    """Take a code address out of the fields: a number, from 7.2 on with a symbol before it; anything else stays."""
    value = fields.get(name)
    shown = hex(value) if isinstance(value, int) else str(value or "").partition(" (")[0]
    found = code_address(shown)
    if found is not None:
        del fields[name]
    return found
