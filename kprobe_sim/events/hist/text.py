"""Histograms as the files `trigger` and `hist` show them.

Sources: event_hist_trigger_print(), hist_trigger_show() and what they call in kernel/trace/trace_events_hist.c of 6.1;
fixtures/histograms.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from kprobe_sim.events.hist.data import HistData
from kprobe_sim.events.hist.field import (
    BUCKETS,
    EXECNAME,
    EXPRESSION,
    GRAPH,
    HEX,
    LOG2,
    PERCENT,
    STACKTRACE,
    STRING,
    SYM,
    SYM_OFFSET,
    SYSCALL,
    HistField,
)
from kprobe_sim.events.hist.map import Element
from kprobe_sim.events.static.syscall_numbers import syscall_name

_PARTS = 10_000  # a percentage is shown with two decimals
_BAR = 20
_U64_MAX = (1 << 64) - 1
_FRAME = struct.Struct("<Q")


def trigger_line(data: HistData, filter_text: str, *, paused: bool) -> str:
    """Return the trigger as its file lists it, without newline."""
    parts = ["hist"]
    if data.attributes.name:
        parts.append(f"name={data.attributes.name}")
    parts.append("keys=" + ",".join(_key_name(data, key) for key in data.keys))
    values = [] if data.attributes.no_hitcount else ["hitcount"]
    parts.append("vals=" + ",".join([*values, *(value.text() for value in data.values[1:])]))
    if data.variables:
        parts.append(",".join(variable.text() for variable in data.variables))
    parts.append(
        "sort=" + ",".join(_sort_text(data, key.position) + ".descending" * key.descending for key in data.sort)
    )
    parts.append(f"size={1 << data.attributes.bits}")
    if data.has_time:
        parts.append(f"clock={data.attributes.clock}")
    if data.attributes.no_hitcount:
        parts.append("nohitcount")
    text = ":".join(parts) + "".join(action.spec() for action in data.actions)
    if filter_text:
        text += f" if {filter_text}"
    return text + (" [paused]" if paused else " [active]")


def _key_name(data: HistData, key: HistField) -> str:
    if not key.flags & STACKTRACE:
        return key.text()
    return data.stack_name if key.field is None else f"{key.field.name}.stacktrace"


def _sort_text(data: HistData, position: int) -> str:
    if not position:
        return "hitcount"
    return [*data.values, *data.keys][position].text()


def histogram_text(data: HistData, line: str) -> str:
    """Return one histogram as the hist file shows it; `line` is that of its trigger."""
    entries = data.entries()
    text = f"# event histogram\n#\n# trigger info: {line}\n#\n\n"
    totals = [sum(entry.sums[index] for entry in entries) for index in range(len(data.values))]
    greatest = [max((entry.sums[index] for entry in entries), default=0) for index in range(len(data.values))]
    for entry in entries:
        text += key_text(data, entry) + (f" hitcount: {entry.sums[0]:10}" if not data.attributes.no_hitcount else "")
        for index, value in enumerate(data.values):
            if index and not value.flags & EXPRESSION:
                text += " " + _value_text(value, entry.sums[index], totals[index], greatest[index])
        text += "".join(action.details(entry) for action in data.actions) + "\n"
    text += "".join(action.summary() for action in data.actions)
    counts = data.map
    return text + f"\nTotals:\n    Hits: {counts.hits}\n    Entries: {len(entries)}\n    Dropped: {counts.drops}\n"


def _value_text(field: HistField, number: int, total: int, greatest: int) -> str:
    name = field.label()
    if field.flags & PERCENT:
        part = _parts(number, total)
        return f" {name} (%):[ERROR]" if part is None else f" {name} (%): {part // 100:3}.{part % 100:02}"
    if field.flags & GRAPH:
        part = _parts(number, greatest)
        bar = "[ERROR]" if part is None else "#" * min(part * _BAR // _PARTS, _BAR)
        return f" {name}: " + (bar.rjust(_BAR) if part is None else bar.ljust(_BAR))
    return f" {name}: {number:10x}" if field.flags & HEX else f" {name}: {number:10}"


def _parts(number: int, total: int) -> int | None:
    """Return a number as parts of ten thousand of a total (__get_percentage)."""
    if total and number < _U64_MAX // _PARTS:
        return number * _PARTS // total & 0xFFFFFFFF
    total //= _PARTS
    if not total:
        return None if number else 0
    return number // total & 0xFFFFFFFF


def key_text(data: HistData, entry: Element) -> str:
    """Return the key of an entry: { NAME: VALUE, ... }."""
    parts = []
    multiline = False
    for field in data.keys:
        stored = entry.key[field.offset : field.offset + field.size]
        if field.flags & STACKTRACE:
            parts.append(_key_name(data, field) + ":\n" * (field.field is None) + _stack_text(data, stored))
            multiline = True
            continue
        parts.append(f"{field.label()}: {_stored_text(data, field, stored, entry)}")
    return "{ " + ", ".join(parts) + ("}" if multiline else " }")


def _stack_text(data: HistData, stored: bytes) -> str:
    text = ""
    for (address,) in _FRAME.iter_unpack(stored):
        if not address:
            break
        text += f"{'':9}{_symbol(data, address, offset=True)}\n"
    return text


def _stored_text(data: HistData, field: HistField, stored: bytes, entry: Element) -> str:
    flags = field.flags
    number = int.from_bytes(stored[:8], "little")
    shown: Sequence[tuple[int, Callable[[], str]]] = (
        (HEX, lambda: f"{number:x}"),
        (SYM, lambda: f"[{number:x}] {_symbol(data, number, offset=False):<45}"),
        (SYM_OFFSET, lambda: f"[{number:x}] {_symbol(data, number, offset=True):<55}"),
        (EXECNAME, lambda: f"{entry.comm.decode('latin-1'):<16}[{number:10}]"),
        (SYSCALL, lambda: f"{_syscall(number):<30}[{number:3}]"),
        (LOG2, lambda: f"~ 2^{number:<2}"),
        (BUCKETS, lambda: f"~ {number}-{number + field.buckets - 1 & _U64_MAX}"),
        (STRING, lambda: stored.partition(b"\0")[0].decode("latin-1").ljust(50)),
    )
    return next((text() for flag, text in shown if flags & flag), f"{number:10}")


def _syscall(number: int) -> str:
    name = syscall_name(number & 0xFFFF_FFFF)  # get_syscall_name() takes an int
    return "unknown_syscall" if name is None else f"sys_{name}"


def _symbol(data: HistData, address: int, *, offset: bool) -> str:
    machine = data.file.instance.machine
    is_known = machine.symbols.containing(address) is not None
    return machine.symbol_text(address, offset).decode() if is_known else f"0x{address:x}"
