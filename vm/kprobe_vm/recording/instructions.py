"""The starts of instructions in a kernel's text, and which of them can't take a kprobe.

The bytes are those of the running kernel (read from /proc/kcore), after it has patched its alternatives, paravirt
calls, retpolines and returns: those are what the kernel itself decodes when a probe is placed.  Only `kprobe-vm record`
uses this module: capstone comes with the extra `[record]` and is imported here only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from struct import iter_unpack
from typing import Any


class Kind(IntEnum):
    """Why an instruction takes no probe; the numbers are those of the recorded symbol table."""

    RESERVED = 1  # jump label, static call, BUG
    INT3 = 2
    NOT_COPIED = 3  # exception masking (mov/pop to ss), forced-emulation prefix
    UNSUPPORTED = 4  # prepare_emulation() of arch/x86/kernel/kprobes/core.c refuses it


@dataclass(slots=True)
class Special:
    """A range of text that takes no probe."""

    start: int
    length: int
    kind: Kind


@dataclass(slots=True)
class Text:
    """One range of text: its bytes, the starts of instructions, the special ranges."""

    start: int
    code: bytes
    bits: bytearray = field(default_factory=bytearray)
    special: list[Special] = field(default_factory=list)
    undecoded: list[int] = field(default_factory=list)  # where decoding stopped before the next symbol


PREFIXES = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")
_UD1 = b"\x0f\xb9"


def opcode_kind(code: bytes) -> Kind | None:
    """Return the kind of an instruction by its first bytes; None for one that can be probed."""
    at = 0
    address_size = False
    while at < len(code) and code[at] in PREFIXES:
        address_size |= code[at] == 0x67
        at += 1
    if at < len(code) and code[at] & 0xF0 == 0x40:
        at += 1
    rest = code[at:]
    if not rest:
        return None
    opcode = rest[0]
    kind = None
    if opcode == 0xCC:
        kind = Kind.INT3
    elif opcode in (0x17, 0x8E) and (opcode == 0x17 or (len(rest) > 1 and rest[1] >> 3 & 7 == 2)):
        kind = Kind.NOT_COPIED
    elif opcode in (0x9A, 0xEA, 0xCF):
        kind = Kind.UNSUPPORTED
    elif opcode == 0x0F and len(rest) > 2 and rest[1] == 0x01 and rest[2] >> 6 == 3 and not rest[2] >> 3 & 7:
        kind = Kind.UNSUPPORTED  # VM extensions
    elif opcode == 0xFF and len(rest) > 1 and rest[1] >> 3 & 7 in (2, 3, 4, 5):
        far = rest[1] >> 3 & 1
        if far or address_size or rest[1] >> 6 != 3:
            kind = Kind.UNSUPPORTED  # far, or through memory
    return kind


def decode(start: int, code: bytes, starts: Iterable[int]) -> Text:
    """Decode the text from each symbol's start to the next, as can_probe() does; return what was found.

    `starts` are addresses; those outside the text are left out.
    """
    import capstone  # imported only here: an extra of the recorder

    text = Text(start, code, bytearray((len(code) + 7) // 8))
    machine: Any = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    end = start + len(code)
    places = sorted({address for address in starts if start <= address < end} | {start})
    places.append(end)
    for first, following in pairwise(places):
        address = first
        while address < following:
            # one call per run: capstone stops where it can't decode
            for at, size, _, _ in machine.disasm_lite(code[address - start : following - start + 15], address):
                if at >= following:
                    break
                if code.endswith(_UD1, at - start, at - start + size) and _without_prefixes(
                    code[at - start : at - start + size]
                ).startswith(_UD1):
                    break  # capstone leaves its operand out
                _mark(text, at, size)
                address = at + size
            if address < following:
                length = _undecodable_length(code[address - start : address - start + 15])
                if not length:
                    _mark(text, address, 1)  # its own start is reached; nothing after it
                    text.undecoded.append(address)
                    break
                _mark(text, address, length)
                address += length
    return text


def _mark(text: Text, address: int, size: int) -> None:
    bit = address - text.start
    text.bits[bit >> 3] |= 1 << (bit & 7)
    kind = opcode_kind(text.code[bit : bit + size])
    if kind is None:
        return
    last = text.special[-1] if text.special else None
    if last and kind is Kind.INT3 and last.kind is kind and last.start + last.length == address and last.length < 255:
        last.length += 1
    else:
        text.special.append(Special(address, 1 if kind is not Kind.INT3 else size, kind))


def _without_prefixes(code: bytes) -> bytes:
    """Return an instruction's bytes from the opcode on: no legacy prefix, no REX."""
    rest = code.lstrip(bytes(PREFIXES))
    return rest[1:] if rest and rest[0] & 0xF0 == 0x40 else rest


def _undecodable_length(code: bytes) -> int:
    """Return the length of what the kernel's decoder takes and capstone doesn't; 0 where neither does.

    UD0, UD1 with its operand, the register forms of 0F 01 (SERIALIZE, PVALIDATE and such), tile instructions.
    """
    at = len(code) - len(code.lstrip(bytes(PREFIXES)))
    if code[at : at + 1] == b"\xc4" and code[at + 4 : at + 5] >= b"\xc0":
        return at + 5
    at = len(code) - len(_without_prefixes(code))
    if len(code) < at + 3 or code[at] != 0x0F or code[at + 1] not in (0x01, 0xB9, 0xFF):
        return 0
    if code[at + 1] == 0xFF:
        return at + 2  # the kernel's table knows no operand of UD0
    mode, memory = code[at + 2] >> 6, code[at + 2] & 7
    length = at + 3
    if mode == 3:
        return length
    if memory == 4:
        length += 1
        if mode == 0 and code[at + 3] & 7 == 5:
            length += 4
    elif mode == 0 and memory == 5:
        length += 4
    return length + {0: 0, 1: 1, 2: 4}[mode]


ReadMemory = Callable[[int, int], bytes]


def jump_labels(read: ReadMemory, first: int, last: int, text: Text) -> list[Special]:
    """Return the ranges of the jump labels in a text; `first` and `last` bound the table `__jump_table`.

    An entry is s32 code, s32 target, s64 key, each relative to itself (include/linux/jump_label.h, since 5.0); before
    that it is three addresses.  Both are tried, and the one with more entries in the text counts.
    """
    table = read(first, last - first)
    relative = iter_unpack("<iiq", table[: len(table) // 16 * 16])
    absolute = iter_unpack("<QQQ", table[: len(table) // 24 * 24])
    ways = [first + 16 * index + entry[0] for index, entry in enumerate(relative)], [entry[0] for entry in absolute]
    most = max(([address for address in way if 0 <= address - text.start < len(text.code)] for way in ways), key=len)
    ranges = []
    for address in most:
        offset = address - text.start
        if 0 <= offset < len(text.code):
            # arch_jump_entry_size(): a short jump or a two-byte nop, else the long form
            short = text.code[offset] == 0xEB or text.code[offset : offset + 2] == b"\x66\x90"
            ranges.append(Special(address, 2 if short else 5, Kind.RESERVED))
    return ranges


def static_calls(read: ReadMemory, first: int, last: int, text: Text) -> list[Special]:
    """Return the ranges of the static calls in a text; an entry is s32 address, s32 key, relative to itself."""
    ranges = []
    for index, (address, _) in enumerate(iter_unpack("<ii", read(first, (last - first) // 8 * 8))):
        address += first + 8 * index
        if 0 <= address - text.start < len(text.code):
            ranges.append(Special(address, 5, Kind.RESERVED))
    return ranges


def bugs(read: ReadMemory, first: int, last: int, text: Text) -> list[Special]:
    """Return the addresses of BUG and WARN instructions in a text.

    An entry starts with the s32 distance to the instruction; its size differs between kernels and configurations, so
    the one counts with which most entries point at UD1 or UD2.  Since 6.19 a warning that takes arguments is a call:
    its entry points at the instruction after what loads them, which takes no probe either.
    """
    table = read(first, last - first)
    best: list[int] = []
    most = seen = 0
    for size in (12, 16, 8, 20, 24):
        starts = range(0, len(table) - size + 1, size)
        addresses = [first + at + int.from_bytes(table[at : at + 4], "little", signed=True) for at in starts]
        inside = [address for address in addresses if 0 <= address - text.start < len(text.code)]
        undefined = sum(_is_undefined(text.code[a - text.start : a - text.start + 5]) for a in inside)
        seen += len(inside)
        if undefined > most:
            best, most = inside, undefined
    if seen and 2 * most <= len(best):
        raise ValueError("no entry size fits the table of BUG instructions")
    return [Special(address, 1, Kind.RESERVED) for address in best]


def _is_undefined(code: bytes) -> bool:
    return b"\x0f\x0b" in code[:3] or b"\x0f\xb9" in code or code[:2] == b"\x0f\xff"  # UD0: warnings of 4.11 to 4.14


def merge(special: Sequence[Special]) -> list[Special]:
    """Return the ranges sorted and without overlaps: where two kinds meet, the reserved one stays.

    A static call that returns is patched to `ret` and four `int3`, so its breakpoints are reserved first of all.
    """
    merged: list[Special] = []
    reserved_until = 0
    for entry in sorted(special, key=lambda item: (item.start, item.kind)):
        start, end = max(entry.start, reserved_until), entry.start + entry.length
        if start >= end:
            continue
        if entry.kind is Kind.RESERVED:
            reserved_until = end
            if merged and merged[-1].start + merged[-1].length > start:
                merged[-1].length = start - merged[-1].start
        merged.append(Special(start, end - start, entry.kind))
    return merged
