"""Synthetic events as they are emitted: values become a record, and the record a line of the trace.

Sources: trace_event_raw_event_synth(), trace_string() and print_synth_event() in kernel/trace/trace_events_synth.c of
6.1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from kprobe_sim.events.dyn_event import Symbolized
from kprobe_sim.probes.synthetic_field import SyntheticField

SyntheticValue = int | bytes  # of a field

_HEAD = 8
_WORD = 8
_STACK_DEPTH = 16  # HIST_STACKTRACE_DEPTH


def packed(fields: Sequence[SyntheticField], values: Sequence[SyntheticValue]) -> bytes:
    """Return a record without its common fields: a word for each value, static strings at full length."""
    fixed = b""
    data = b""
    start = _HEAD + sum(field.room for field in fields)
    for field, value in zip(fields, values, strict=True):
        text = value if isinstance(value, bytes) else b""
        if field.is_string and field.is_dynamic:
            text = text[: field.longest - 1] + b"\0"
            fixed += struct.pack("<II", len(text) << 16 | start + len(data), 0)
            data += text
        elif field.is_string:
            fixed += text[: field.longest - 1].ljust(field.longest, b"\0")
        elif field.is_stack:
            words = value[: _WORD * _STACK_DEPTH] if isinstance(value, bytes) else b""
            fixed += struct.pack("<II", len(words) << 16 | start + len(data), 0)
            data += words
        else:
            number = value if isinstance(value, int) else 0
            fixed += (number & (1 << 8 * field.size) - 1).to_bytes(_WORD, "little")
    return fixed + data


def text_of(name: str, fields: Sequence[SyntheticField], symbol: Symbolized) -> Callable[[bytes], bytes]:
    """Return what makes the line of a record, from the event's name on."""

    def shown(record: bytes) -> bytes:
        text = f"{name}: "
        offset = _HEAD
        for field in fields:
            gap = "" if field is fields[-1] else " "
            location, size = struct.unpack_from("<HH", record, offset)
            if field.is_string:
                start = location if field.is_dynamic else offset
                value = record[start : start + field.longest].partition(b"\0")[0].decode("latin-1")
            elif field.is_stack:
                addresses = struct.iter_unpack("<Q", record[location + _WORD : location + size])  # after their number
                value = "STACK:\n" + "".join(f"=> {symbol(address, True).decode()}\n" for (address,) in addresses)
                gap = ""
            else:
                value = _number(field, int.from_bytes(record[offset : offset + field.size], "little"))
            text += f"{field.name}={value}{gap}"
            offset += field.room
        return f"{text}\n".encode("latin-1")

    return shown


def _number(field: SyntheticField, number: int) -> str:
    """Show a number; one smaller than an int loses its sign (print_synth_event_num_val)."""
    if field.format == "%x":
        return f"{number:x} (0x{number:x})"
    if field.size >= 4 and field.format in ("%d", "%ld", "%lld") and number >> 8 * field.size - 1:
        number -= 1 << 8 * field.size
    return str(number)
