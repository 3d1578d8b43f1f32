"""A field of a record as an event probe fetches it: its value, or the address of its contents (trace_eprobe.c)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from kprobe_sim.language.primitives.kstrto import ULONG_MAX
from kprobe_sim.records.field import Field

RECORD = 0xFFFF_8880_0560_0000  # where a record lies while its event fires: as good as any other address
_LONG = 8


class _Take(IntEnum):
    VALUE = 0
    SIGNED = 1
    ADDRESS = 2  # the address of the field
    DATA = 3  # the address of the text that it locates
    RELATIVE = 4  # the same, counted from the end of the field


def packed(field: Field, *, arrays_are_addresses: bool) -> int:
    """Pack what `compile_field` needs to know of a field into one number."""
    take = _Take.SIGNED if field.signed else _Take.VALUE
    if field.type.startswith("__data_loc char[]"):
        take = _Take.DATA
    elif field.type.startswith("__rel_loc char[]"):
        take = _Take.RELATIVE
    elif field.is_string or (arrays_are_addresses and field.size not in (1, 2, 4, _LONG)):
        take = _Take.ADDRESS
    return take << 32 | min(field.size, _LONG) << 16 | field.offset


def compile_field(number: int) -> Callable[[bytes], int]:
    """Compile the fetch of a packed field from a record that lies at `RECORD`."""
    take, size, start = number >> 32, number >> 16 & 0xFFFF, number & 0xFFFF
    if take == _Take.ADDRESS:
        return lambda record: RECORD + start
    if take in (_Take.DATA, _Take.RELATIVE):
        base = RECORD + (start if take == _Take.RELATIVE else 0)
        return lambda record: base + int.from_bytes(record[start : start + 2], "little")
    signed = take == _Take.SIGNED
    return lambda record: int.from_bytes(record[start : start + size], "little", signed=signed) & ULONG_MAX
