"""The bodies of trace lines, which follow the time, for each kind of entry (trace_output.c)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from functools import partial

from kprobe_sim.events.instance import Instance
from kprobe_sim.records.columns import Part, Rows, Shown, texts_of
from kprobe_sim.records.entry_type import TRACE_FN, TRACE_PRINT, TRACE_STACK
from kprobe_sim.text.field_values import compile_fields
from kprobe_sim.text.static_text import kernel_string, pointer_symbol, static_text

_KEPT = 1024  # records whose bodies are kept
_ULONG_MAX = 2**64 - 1
_ADDRESSES = struct.Struct("<QQ")


def print_text(data: bytes) -> bytes:
    """Return the text of a mark."""
    return data[16:].split(b"\0", 1)[0]


def raw_data(data: bytes) -> bytes:
    """Return a raw mark as numbers."""
    (number,) = struct.unpack_from("<I", data, 8)
    return b"# %x buf:" % number + b"".join(b" %02x" % byte for byte in data[12:]) + b"\n"


class Bodies:
    """The bodies of an instance's entries, with the options, events and symbols as of the last `refresh`.

    `is_lasting` turns False when a body shows the machine's memory, which may change at any time; the caller sets it
    back to True.  `has_fields`: the option `fields` applies.
    """

    def __init__(self, instance: Instance, *, has_fields: bool = True) -> None:
        self._instance = instance
        self._has_fields = has_fields
        self._builtin: dict[int, Callable[[bytes, bool], bytes]] = {
            TRACE_FN: self._function,
            TRACE_STACK: self._stack,
            instance.tracing.user_stack_type: self._user_stack,
            TRACE_PRINT: self._print,
            instance.machine.gates.raw_data_type: lambda data, _: raw_data(data),
        }
        self._state: tuple[object, ...] = ()
        self.is_lasting = True
        self.refresh()

    def refresh(self) -> None:
        """Read options, events and symbols again if any of them has changed."""
        instance = self._instance
        state = (instance.options.version, instance.tracing.events.version, instance.machine.symbols.version)
        if state == self._state:
            return
        self._state = state
        self._kinds: dict[bytes, Shown] = {}
        self._known: dict[bytes, bytes] = {}

    def is_builtin(self, kind: int) -> bool:
        """Return True for an entry that belongs to the tracer itself, not to an event."""
        return kind in self._builtin

    def body(self, data: bytes) -> bytes:
        """Return the body of a record."""
        return self._kind(data[:2]).one(data)

    def rows(self, records: Sequence[bytes]) -> Rows:
        """Group records by their fixed parts, as records of the first one's kind."""
        return self._kind(records[0][:2]).rows(records)

    def parts(self, rows: Rows, heads: Collection[bytes]) -> Sequence[Part]:
        """Return the bodies of records in parts; `heads` are the beginnings of the rows."""
        kinds = {head[:2] for head in heads}
        if len(kinds) == 1:
            return self._kind(*kinds).many(rows)
        records = rows.records
        bodies = [b""] * len(records)
        indexes: dict[bytes, list[int]] = {kind: [] for kind in kinds}
        for index, record in enumerate(records):
            indexes[record[:2]].append(index)
        for kind, some in indexes.items():
            shown = self._kind(kind)
            parts = shown.many(shown.rows([records[index] for index in some]))
            for index, body in zip(some, texts_of(parts, len(some)), strict=True):
                bodies[index] = body
        return (bodies,)

    def _kind(self, key: bytes) -> Shown:
        """Return the renderer of one kind of entries, by the two bytes of its id."""
        return self._kinds.get(key) or self._kinds.setdefault(key, self._compiled(int.from_bytes(key, "little")))

    def _compiled(self, kind: int) -> Shown:
        options = self._instance.options
        event = self._instance.tracing.events.dynamic(kind)
        by_fields = options["fields"] and self._has_fields
        if event is not None and not by_fields:
            return event.body(self.symbol)
        builtin = self._builtin.get(kind)
        if by_fields:
            body = self._fields_body(kind)
        elif builtin is not None:
            body = partial(_with, builtin, options["sym-offset"])
        else:
            body = self._static_body(kind)
        return Shown(body, partial(self._kept, body))

    def _kept(self, body: Callable[[bytes], bytes], rows: Rows) -> Sequence[Part]:
        """Return bodies of records of one kind; known ones aren't made again."""
        known = self._known
        missing = [record for record in dict.fromkeys(rows.rows) if record not in known]
        if missing:
            if len(known) + len(missing) > _KEPT:
                known.clear()
                missing = list(dict.fromkeys(rows.rows))
            before, self.is_lasting = self.is_lasting, True
            made = {record: body(record) for record in missing}
            if self.is_lasting:
                known.update(made)
            else:
                known = {**known, **made}
            self.is_lasting = self.is_lasting and before
        return (rows.spread([known[record] for record in rows.rows]),)

    def _fields_body(self, kind: int) -> Callable[[bytes], bytes]:
        machine, events = self._instance.machine, self._instance.tracing.events
        event = events.by_id(kind)
        if kind in self._builtin:  # the kernel's search for the event ends at the first list, which has none of these
            return lambda data: b"UNKNOWN TYPE %d\n" % kind
        if event is None:
            return lambda data: b"Unknown type %d\n" % kind
        gates, name = machine.gates, event.name.encode("latin-1")
        symbol = partial(pointer_symbol, machine, offset=True) if gates.fields_as_symbols else None
        return compile_fields(
            name,
            tuple(event.filter_fields()),
            symbol,
            strict=gates.fields_strings_in_hex,
            pointed=lambda address: kernel_string(machine, address, self._read_memory),
        )

    def _static_body(self, kind: int) -> Callable[[bytes], bytes]:
        options = self._instance.options
        event = self._instance.tracing.events.static.by_id(kind)
        if event is None:
            return lambda data: b"Unknown type %d\n" % kind
        return static_text(
            self._instance.machine, event, self._read_memory, hashed=options["hash-ptr"], verbose=options["verbose"]
        )

    def _read_memory(self) -> None:
        self.is_lasting = False

    def symbol(self, address: int, offset: bool) -> bytes:
        """Return an address as seq_print_ip_sym() shows it, with the options sym-offset and sym-addr."""
        if not address:
            return b"0"
        machine = self._instance.machine
        named = not machine.is_trampoline(address) or (offset and machine.gates.trampoline_by_name)
        text = machine.symbol_text(address, offset) if named else b"[unknown/kretprobe'd]"
        if self._instance.options["sym-addr"]:
            text += b" <%016x>" % address
        return text

    def _function(self, data: bytes, offset: bool) -> bytes:
        ip, parent = _ADDRESSES.unpack_from(data, 8)
        text = self.symbol(ip, offset)
        if self._instance.options["print-parent"] and parent:
            text += b" <-" + self.symbol(parent, offset)
        return text + b"\n"

    def _stack(self, data: bytes, offset: bool) -> bytes:
        text = b"<stack trace>\n"
        for (address,) in struct.iter_unpack("<Q", data[16 : len(data) & ~7]):
            if address == _ULONG_MAX:
                break
            text += b" => " + self.symbol(address, offset) + b"\n"
        return text

    def _user_stack(self, data: bytes, offset: bool) -> bytes:
        text = b"<user stack trace>\n"
        for (address,) in struct.iter_unpack("<Q", data[16:80]):
            if not address or address == _ULONG_MAX:
                break
            text += b" =>  <%016x>\n" % address
        return text

    def _print(self, data: bytes, offset: bool) -> bytes:
        (ip,) = struct.unpack_from("<Q", data, 8)
        return self.symbol(ip, offset) + b": " + print_text(data)


def _with(body: Callable[[bytes, bool], bytes], offset: bool, data: bytes) -> bytes:
    return body(data, offset)
