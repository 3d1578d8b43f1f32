"""The truth about a trace: each record that the activity left, as an object of the records' schema.

It is made from what the tasks did and from the recorded values, never from text: readers of the text are tested with
it.  It lacks what the text can't show with the options that are set.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.event import StaticEvent
from kprobe_sim.events.instance import Instance
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.language.fetch.argument import FetchArg
from kprobe_sim.machine.clock import ns2usecs
from kprobe_sim.machine.symbol_text import symbol_text
from kprobe_sim.probes.probe_event import Probe, ProbeEvent
from kprobe_sim.records.entry_type import TRACE_PRINT, TRACE_STACK
from kprobe_sim.records.field import Field
from kprobe_sim.records.ring import RingEntry
from kprobe_sim.text.render import flag_letters

_HEADER = struct.Struct("<HBBi")
_CODED = ("raw", "hex", "bin")
_TEXT: Mapping[str, Any] = {"type": "unparsed", "ambiguous": ["type"]}  # a bare mark may look like anything
_LATENCY_COMM = 8  # bytes of comm that latency-format shows
_ULONG_MAX = 2**64 - 1
# how lines of the kernel begin, in any layout: a mark with such a line in it may as well be two records
_BEGINS = re.compile(rb"\n(?:# tracer: |##### CPU \d|CPU:\d+ \[|[^\n]*-\d+ [^\n]*: |[^\n:]*: \()")
# the same for lines without context, which have only words and numbers
_BEGINS_BARE = re.compile(
    rb"\n(?:sys_\w+(?:\(| -> 0x)|<(?:user )?stack trace>|tracing_mark_write\b|\w+: (?:\w+=|NR -?\d)"
    rb"|(?:\d+ \d+ \d+ )?(?:# [0-9a-f]|type: \d)|[0-9a-f]{8} [0-9a-f]{8} [0-9a-f]{16} type: |UNKNOWN TYPE)"
)
# NAME=%d in a `print fmt` whose argument is the field of that name
_SHOWN = re.compile(r"\b(\w++)=(?:0x)?%[-0-9]*+(?:hh|h|ll|l|L)?([dusxi])")


SYSTEMS = ("syscalls", "raw_syscalls")
_FIRST = 16  # offset of the arguments, or of the result
_NUMBER = 8
_ACCMODE, _MAKES = 0o3, 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE


def call_values(event: StaticEvent, data: bytes, gates: Gates, *, verbose: bool) -> dict[str, Any]:
    """Return the values of a system call's event that its text shows."""
    if event.system == "raw_syscalls":
        (number,) = struct.unpack_from("<q", data, _NUMBER)
        if event.name == "sys_exit":
            return {"id": number, "ret": struct.unpack_from("<q", data, _FIRST)[0]}
        return {"id": number, "args": list(struct.unpack_from("<6Q", data, _FIRST))}
    if event.name.startswith("sys_exit_"):
        return {"ret": struct.unpack_from("<q", data, _FIRST)[0]}
    by_name = event.name == "sys_enter_openat" and gates.syscalls_show_user_memory and not verbose
    found: dict[str, Any] = {}
    form = event.format().decode("latin-1")
    for field in event.filter_fields():
        number = int.from_bytes(data[field.offset : field.offset + field.size], "little")
        if field.type.startswith("__data_loc"):
            held = data[number & 0xFFFF :][: number >> 16]
            is_buffer = f"__print_dynamic_array({field.name}" in form
            found[field.name] = list(held) if is_buffer else _text(held)
        elif field.name != "__syscall_nr":
            found[field.name] = number
    if by_name:
        flags = found["flags"] & 0xFFFFFFFF
        if not flags & _MAKES:
            del found["mode"]
        found["flags"] = _flags(form, flags)
    return found


def _flags(form: str, value: int) -> str:
    """Return flags by the names in the print fmt, and those without a name in hexadecimal."""
    names = [] if value & _ACCMODE else ["O_RDONLY"]
    for part in form.partition("__print_flags(")[2].partition(") :")[0].split("{ ")[1:]:
        mask, _, name = part.partition(", ")
        if int(mask, 16) & value == int(mask, 16):
            names.append(name.split('"')[1])
            value &= ~int(mask, 16)
    return "|".join([*names, f"0x{value:x}"] if value else names)


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")


class Truth:
    """States what is true of an instance's entries, with the options that it has."""

    def __init__(self, kernel: SimulatedKernel, instance: Instance, probes: Sequence[Probe]) -> None:
        self._machine = kernel.machine
        self._instance = instance
        self._options = instance.options
        self._events = kernel.events
        gates, user_stack = kernel.gates, instance.tracing.user_stack_type
        self._builtin = (TRACE_PRINT, TRACE_STACK, gates.raw_data_type, user_stack)
        self._arguments: dict[int, Sequence[FetchArg]] = {probe.event.id: probe.arguments for probe in probes}

    def records(self, entries: Sequence[RingEntry], *, of_pipe: bool) -> list[dict[str, Any]]:
        """Return what is true of each line, including annotations about the buffers."""
        records: list[dict[str, Any]] = []
        started: set[int] = set()
        overrun = (
            not of_pipe and self._options.annotates and any(cpu.overrun for cpu in self._instance.buffer.cpus.values())
        )
        for number, entry in enumerate(entries):
            if overrun and entry.cpu not in started:
                started.add(entry.cpu)
                if number > 1:
                    records.append({"type": "started", "cpu": entry.cpu})
            if entry.lost:
                records.append({"type": "lost", "cpu": entry.cpu, "count": entry.lost})
            records.append(self._record(entry))
        return self._doubted(records)

    def _doubted(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Mark records as ambiguous, from the one before the first bare mark on: each may be part of a mark."""
        marks = [number for number, record in enumerate(records) if record == _TEXT]
        if not marks:
            return records
        first = max(0, marks[0] - 1)
        return records[:first] + [
            {**record, "ambiguous": ["type", *(name for name in record.get("ambiguous", ()) if name != "type")]}
            for record in records[first:]
        ]

    def _record(self, entry: RingEntry) -> dict[str, Any]:
        data, options = entry.data, self._options
        kind, flags, depth, pid = _HEADER.unpack_from(data)
        if kind == TRACE_PRINT and options["trace_printk"] and options["printk-msg-only"]:
            return dict(_TEXT)
        if any(options[name] for name in _CODED):
            return self._coded(entry, kind, pid)
        context = self._context(entry, flags, depth, pid) if options["context-info"] else {}
        if options["fields"] and kind in self._builtin:
            return {"type": "unparsed"}  # UNKNOWN TYPE and a number
        if kind == TRACE_PRINT:
            mark = _mark(data)
            doubt = {"ambiguous": ["text"]} if self._begins(mark) else {}
            return {"type": "marker", "text": decoded(mark), **context, **doubt}
        if kind == self._machine.gates.raw_data_type:
            (number,) = struct.unpack_from("<I", data, 8)
            return {"type": "rawmarker", "identifier": number, "data": data[12:].hex(), **context}
        if kind == TRACE_STACK:
            addresses = [address for (address,) in struct.iter_unpack("<Q", data[16 : len(data) & ~7])]
            frames = self._frames(_until(addresses, _ULONG_MAX), user=False)
            return {"type": "stack", "frames": frames, "user": False, **context}
        if kind == self._instance.tracing.user_stack_type:
            addresses = [address for (address,) in struct.iter_unpack("<Q", data[16:80])]
            frames = self._frames(_until(addresses, 0), user=True)
            return {"type": "stack", "frames": frames, "user": True, **context}
        return self._event(kind, data, context)

    def _begins(self, mark: bytes) -> bool:
        """Return whether a mark contains what looks like the beginning of a line of the kernel."""
        is_bare = not self._options["context-info"] or any(self._options[name] for name in _CODED)
        return _BEGINS.search(mark) is not None or (is_bare and _BEGINS_BARE.search(mark) is not None)

    def _frames(self, addresses: Sequence[int], *, user: bool) -> list[str]:
        offset = self._options["sym-offset"]
        return [f"<{address:016x}>" if user else self._location(address, offset) for address in addresses]

    def _coded(self, entry: RingEntry, kind: int, pid: int) -> dict[str, Any]:
        context = {"pid": pid, "cpu": entry.cpu, "timestamp": entry.stamp} if self._options["context-info"] else {}
        if self._options["raw"] and kind in (TRACE_PRINT, self._machine.gates.raw_data_type):
            # the text of a mark, after numbers
            return dict(_TEXT) if kind == TRACE_PRINT and self._begins(_mark(entry.data)) else {"type": "unparsed"}
        return {"type": "coded", **context, "event_id": kind}

    def _context(self, entry: RingEntry, flags: int, depth: int, pid: int) -> dict[str, Any]:
        options, cmdlines = self._options, self._instance.cmdlines
        in_ns = self._instance.clock.in_ns
        comm, letters = cmdlines.find(pid), flag_letters(flags, depth, self._machine.gates).decode()
        stamp = ns2usecs(entry.stamp) * 1000 if in_ns else entry.stamp
        context: dict[str, Any] = {"task": decoded(comm).lstrip(" "), "pid": pid, "cpu": entry.cpu}
        if options["latency-format"] and options["verbose"]:
            return {
                **context,
                "flags": f"{flags} {depth & 0xF:08x}",
                "timestamp": stamp,
                "clock": "time" if in_ns else "count",
            }
        if options["latency-format"]:
            elapsed = entry.stamp - self._instance.started
            return {
                **context,
                "task": decoded(comm[:_LATENCY_COMM]).lstrip(" "),
                "flags": letters,
                "timestamp": ns2usecs(elapsed) * 1000 if in_ns else elapsed,
                "clock": "elapsed" if in_ns else "elapsed count",
            }
        if options["irq-info"]:
            context["flags"] = letters
        context |= {"timestamp": stamp, "clock": "time" if in_ns else "count"}
        if options["record-tgid"] and (tgid := cmdlines.tgid(pid)):
            context["tgid"] = tgid
        return context

    def _event(self, kind: int, data: bytes, context: dict[str, Any]) -> dict[str, Any]:
        event = self._events.by_id(kind)
        assert event is not None
        record: dict[str, Any] = {"type": "event", "name": event.name, **context}
        if isinstance(event, ProbeEvent):
            if not self._options["fields"]:
                record |= self._locations(event, data)
            record["fields"] = self._values(event, self._arguments.get(kind, ()), data)
            ambiguous = _ambiguous(record["fields"])
            if ambiguous:
                # the option fields doesn't quote strings, so a record may seem to follow a newline
                is_open = self._options["fields"] and any("\n" in str(value) for value in _flat(record["fields"]))
                record["ambiguous"] = ["type", *ambiguous] if is_open else ambiguous
        elif isinstance(event, StaticEvent) and not self._options["fields"]:
            record["fields"] = self._static(event, data)
            if event.system in SYSTEMS and (ambiguous := _ambiguous(record["fields"])):
                record["ambiguous"] = ambiguous
        return record

    def _static(self, event: StaticEvent, data: bytes) -> dict[str, Any]:
        if event.system in SYSTEMS:
            return call_values(event, data, self._machine.gates, verbose=self._options["verbose"])
        return dict(_static_values(event, data))

    def _locations(self, event: ProbeEvent, data: bytes) -> dict[str, str]:
        addresses = [address for (address,) in struct.iter_unpack("<Q", data[8 : event.start])]
        if len(addresses) == 2:
            return {"address": self._location(addresses[0], False), "caller": self._location(addresses[1], True)}
        return {"address": self._location(addresses[0], True)} if addresses else {}

    def _values(self, event: ProbeEvent, arguments: Sequence[FetchArg], data: bytes) -> dict[str, Any]:
        by_fields = self._options["fields"]
        fields: dict[str, Any] = {}
        for argument in arguments:
            start = event.start + argument.offset
            size = argument.type.size
            values = [
                self._value(argument, data, data[offset : offset + size])
                for offset in range(start, start + size * (argument.length or 1), size)
            ]
            if by_fields and (argument.length or argument.type.name in ("symbol", "char") or values[0] is None):
                continue  # the kernel shows these in a special form
            fields[argument.name] = values if argument.length else values[0]
        return fields

    def _value(self, argument: FetchArg, data: bytes, content: bytes) -> int | str | None:
        kind = argument.type
        number = int.from_bytes(content, "little", signed=kind.signed and not kind.is_string)
        if kind.is_string:
            return decoded(data[number & 0xFFFF :].partition(b"\0")[0]) if number >> 16 else None
        if kind.name == "symbol":
            return symbol_text(symbols, number) if (symbols := self._machine.symbols).containing(number) else number
        return decoded(content) if kind.name == "char" else number

    def _location(self, address: int, offset: bool) -> str:
        """Return a location in code as the kernel prints it (seq_print_ip_sym)."""
        if not address:
            return "0"
        machine = self._machine
        named = not machine.is_trampoline(address) or (offset and machine.gates.trampoline_by_name)
        text = machine.symbol_text(address, offset).decode() if named else "[unknown/kretprobe'd]"
        return f"{text} <{address:016x}>" if self._options["sym-addr"] else text


def _static_values(event: StaticEvent, data: bytes) -> Iterator[tuple[str, int | str]]:
    """Yield the values of a static event that its text shows unchanged: ` name=%d` for the field of that name."""
    fields = {field.name: field for field in event.filter_fields()}
    shown, _, given = event.format().decode("latin-1").partition("print fmt: ")[2].rpartition('", ')
    names = re.findall(r"REC->(\w+)(?=,|\Z|\n)", given)
    for name, conversion in _SHOWN.findall(shown):
        if name in fields and name in names and (conversion != "s" or fields[name].is_string):
            value = _static_value(fields[name], data)
            if value is not None:
                yield name, value


def _static_value(field: Field, data: bytes) -> int | str | None:
    content = data[field.offset : field.offset + field.size]
    if field.type.startswith("char["):
        return decoded(content.partition(b"\0")[0])
    if field.size in (1, 2, 4, 8) and "[" not in field.type:
        return int.from_bytes(content, "little", signed=field.signed)
    return None


def _flat(fields: dict[str, Any]) -> Iterator[Any]:
    for value in fields.values():
        yield from value if isinstance(value, list) else [value]


def _ambiguous(fields: dict[str, Any]) -> list[str]:
    """Return the names of values that need a schema: from the first string with a quote or newline on."""
    names = list(fields)
    for position, value in enumerate(fields.values()):
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and ('"' in text or "\n" in text) for text in texts):
            return names[position:]
    return []


def _mark(data: bytes) -> bytes:
    """Return the text of a mark, without the last newline."""
    return data[16:].split(b"\0", 1)[0].removesuffix(b"\n")


def _until(addresses: list[int], end: int) -> list[int]:
    return addresses[: addresses.index(end)] if end in addresses else addresses


def decoded(text: bytes) -> str:
    """Return a text of the kernel, decoded so that it can be encoded back to the same bytes."""
    return text.decode("utf-8", "surrogateescape")
