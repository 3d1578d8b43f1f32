"""Pages of the ring buffer -> tables, one for each event.

Pages on which all is plain are read by compiled code, all others by `kprobe.pages`, with the same values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kprobe.bulk.columns import ARGUMENT, EVENT, LABEL, array, escaped
from kprobe.bulk.columns import plain as plain_value
from kprobe.bulk.merge import merged
from kprobe.bulk.plain import bits, labelled
from kprobe.bulk.plain import numbers as column_of
from kprobe.bulk.rows import Rows, stem
from kprobe.bulk.texts import gather
from kprobe.bulk.types import integer_of
from kprobe.bulk.walk import coded, numbers, texts, walk
from kprobe.pages.events import Events, Known
from kprobe.pages.flags import Flags
from kprobe.pages.header import PageHeader
from kprobe.pages.kallsyms import Kallsyms
from kprobe.pages.layout import FieldLayout
from kprobe.pages.page import Pages
from kprobe.pages.tasks import Tasks
from kprobe.text.records import Clock, Record

AT_ONCE: Final = 1 << 20  # bytes of pages that are read at once
_SHORT: Final = 4 * 28  # bytes of an event whose header has one word
_SMALLEST: Final = 12  # bytes of an event with its header
_STACK_ENDS: Final = (0, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
_COMMON: Final = ("common_flags", "common_preempt_count", "common_pid")


class RawReading:
    """Reads the pages of one buffer, CPU by CPU; the rows of a CPU are in the order of time.

    `tasks` and `tgids` can be changed from call to call.
    """

    def __init__(
        self,
        header: PageHeader,
        events: Events,
        kallsyms: Kallsyms,
        *,
        tasks: Tasks | None = None,
        tgids: dict[int, int] | None = None,
        clock: Clock = "time",
        has_migrate_disable: bool = True,
        instance: str = "",
        file: str = "",
    ) -> None:
        self.tasks = Tasks() if tasks is None else tasks
        self.tgids = {} if tgids is None else tgids
        self.pages = Pages(
            header, events, kallsyms, tasks=self.tasks, tgids=self.tgids, clock=clock,
            has_migrate_disable=has_migrate_disable, instance=instance,
        )  # fmt: skip
        self._header = header
        self._events = events
        self._places = kallsyms
        self._flags = Flags(has_migrate_disable=has_migrate_disable)
        self._clock = clock
        self._instance = instance
        self._rows = Rows(file, self._types, is_text=False)
        self._slots = np.full(1 << 16, -1, np.int64)
        self._known: list[Known] = []
        self._asked: set[int] = set()
        self._buffer = np.zeros(0, np.uint8)

    def _types(self, name: str) -> Mapping[str, pa.DataType]:
        known = next((one for one in self._known if one.name == name), None)
        return {} if known is None else {field.name: _type(field) for field in known.reader.layout.fields}

    def tables(self, data: bytes, cpu: int, offset: int = 0) -> dict[str, pa.Table]:
        """Give whole pages of a CPU, which begin at byte `offset` of their file, as tables by name."""
        size = self._header.size
        count = len(data) // size
        parts: dict[str, list[pa.Table]] = {}
        good = np.zeros(count, bool)
        found = np.zeros((0, 6), np.int64)
        if self._header.order == "little" and count > 1 and not self._known:
            # what the first page has is known when the others are read
            parts = {name: [table] for name, table in self.tables(data[:size], cpu, offset).items()}
            data, offset, count = data[size:], offset + size, count - 1
            good = good[1:]
        if self._header.order == "little" and self._known:
            self._buffer = np.frombuffer(data + bytes(8), np.uint8)
            found = self._walk(count, good)
            self._check_texts(found, good)
            found = found[good[found[:, 1]]]
            for row in found[found[:, 0] < 0].tolist():
                self._event(data, row, cpu, offset)
            for slot in range(len(self._known)):
                if not (found[:, 0] == slot).any():
                    continue
                known = self._known[slot]
                make = self._stacks if known.special else self._table
                name, table = make(known, found[found[:, 0] == slot], cpu, offset)
                parts.setdefault(name, []).append(table)
        for page in np.flatnonzero(~good).tolist():
            self._page(data[page * size : (page + 1) * size], cpu, offset + page * size)
        if rest := data[count * size :]:
            self._page(rest, cpu, offset + count * size)
        for name, table in self._rows.tables().items():
            parts.setdefault(name, []).append(table)
        return {name: merged(tables) for name, tables in parts.items()}

    def _page(self, data: bytes, cpu: int, offset: int) -> None:
        self.pages.tasks, self.pages.tgids = self.tasks, self.tgids
        at = offset
        for _, record in self.pages.read(data, cpu, offset=offset):
            self._rows.add(at, record)
            at += len(record.raw)
            self._learn(record)

    def _event(self, data: bytes, row: list[int], cpu: int, offset: int) -> None:
        """Read an event that isn't plain, on a page that has nothing else."""
        _, _, first, begin, end, stamp = row
        header = self._header
        length = end - begin
        event = struct.pack("<I", length // 4) if 0 < length <= _SHORT else struct.pack("<II", 0, length + 4)
        event += data[begin:end]
        page = bytearray(header.data)
        page[header.stamp : header.stamp + 8] = stamp.to_bytes(8, "little")
        page[header.commit : header.commit + header.long] = len(event).to_bytes(header.long, "little")
        page += event
        self.pages.tasks, self.pages.tgids = self.tasks, self.tgids
        for _, record in self.pages.read(bytes(page), cpu, offset=offset + first):
            self._rows.add(offset + first, record._replace(raw=data[first:end]))
            self._learn(record)

    def _learn(self, record: Record) -> None:
        """Look at the events that `kprobe.pages` has met: what is plain of them is read here from now on."""
        if len(self._asked) == len(self._events):
            return
        for number, known in list(self._events.items()):
            if number in self._asked or not 0 <= number < len(self._slots):
                continue
            self._asked.add(number)
            if known is not None and (_is_stack(known) if known.special else self._is_plain(known)):
                self._slots[number] = len(self._known)
                self._known.append(known)

    def _is_plain(self, known: Known) -> bool:
        return _has_simple_fields(known) and self._rows.knows(
            known.name, {field.name: None for field in known.reader.layout.fields}
        )

    def _walk(self, count: int, good: Any) -> Any:
        header = self._header
        common = self._known[0].reader.layout.common if self._known else ()
        type_at = next((field.offset for field in common if field.name == "common_type"), 0)
        layout = header.stamp, header.commit, header.long, header.data, header.size, type_at
        sizes = np.array([max(known.reader.layout.size, 8) for known in self._known] or [0], np.int64)
        found = np.zeros((count * (header.size // _SMALLEST), 6), np.int64)
        rows = walk(self._buffer, count, layout, self._slots, sizes, good, found)
        return found[:rows]

    def _check_texts(self, found: Any, good: Any) -> None:
        """Leave events with a text that isn't plain to `kprobe.pages`, and all where a task's name isn't."""
        if any(escaped(name) != name for name in self.tasks.values()):
            good[:] = False
        for slot, known in enumerate(self._known):
            layout = known.reader.layout
            fields = [field for field in layout.fields if field.kind == "string"]
            rows = found[found[:, 0] == slot] if fields else found[:0]
            places, lengths = np.empty(len(rows), np.int64), np.empty(len(rows), np.int32)
            for field in fields if len(rows) else ():
                texts(self._buffer, rows[:, 3], rows[:, 4], field.offset, layout.is_probe, places, lengths)
                found[np.flatnonzero(found[:, 0] == slot)[lengths == -2], 0] = -1
                rows = found[found[:, 0] == slot]
                places, lengths = places[: len(rows)], lengths[: len(rows)]

    def _context(self, known: Known, found: Any, cpu: int, offset: int) -> dict[str, Any]:
        count, starts = len(found), found[:, 3]
        common = {field.name: field for field in known.reader.layout.common}
        flags, depths, pids = (self._numbers(starts, common[name]) for name in _COMMON)
        constant = np.zeros(count, np.int32)
        return {
            "file": labelled(constant, pa.array([self._rows.file])),
            "offset": column_of(found[:, 2] + offset),
            "task": self._labels(pids, lambda pid: escaped(self.tasks[pid])),
            "pid": column_of(pids),
            "tgid": _mapped(pids, self.tgids.get, pa.int64()),
            "cpu": column_of(np.full(count, cpu, np.int32)),
            "flags": self._labels(flags << 8 | depths, self._flags.__getitem__),
            "timestamp": column_of(found[:, 5]),
            "clock": labelled(constant, pa.array([str(self._clock)])),
        }

    def _table(self, known: Known, found: Any, cpu: int, offset: int) -> tuple[str, pa.Table]:
        layout = known.reader.layout
        starts, ends, count = found[:, 3], found[:, 4], len(found)
        constant = np.zeros(count, np.int32)
        columns = self._context(known, found, cpu, offset) | {
            "address": self._place(starts, layout.address),
            "caller": self._place(starts, layout.caller),
            "group": labelled(constant, pa.array([known.group])) if known.group else pa.nulls(count, LABEL),
            "instance": labelled(constant, pa.array([self._instance])) if self._instance else pa.nulls(count, LABEL),
            "complete": pa.nulls(count, pa.bool_()).fill_null(True),
            "guessed": pa.ListArray.from_arrays(column_of(np.zeros(count + 1, np.int32)), pa.array([], pa.string())),
            "raw": pa.nulls(count, pa.binary()),
        }
        assert list(columns) == EVENT.names
        for field in layout.fields:
            columns[ARGUMENT + field.name] = self._field(starts, ends, field, layout.is_probe)
        return stem(known.name), pa.table(columns)

    def _stacks(self, known: Known, found: Any, cpu: int, offset: int) -> tuple[str, pa.Table]:
        fields = {field.name: field for field in known.reader.layout.fields}
        at = fields["caller"].offset
        sizes = self._numbers(found[:, 3], fields["size"]) if "size" in fields else np.full(len(found), -1)
        frames: list[str] = []
        offsets = [0]
        for begin, end, size in zip(found[:, 3].tolist(), found[:, 4].tolist(), sizes.tolist(), strict=True):
            addresses = self._buffer[begin + at : begin + at + (end - begin - at) // 8 * 8].view("<u8").tolist()
            for address in addresses[:size] if size >= 0 else addresses:
                if address in _STACK_ENDS:
                    break
                frames.append(self._places[address].text)
            offsets.append(len(frames))
        texts_of = pa.array([escaped(frame) for frame in frames], pa.string())
        columns = self._context(known, found, cpu, offset) | {
            "user": pa.nulls(len(found), pa.bool_()).fill_null(known.special == "user_stack"),
            "frames": pa.ListArray.from_arrays(column_of(np.array(offsets, np.int32)), texts_of),
        }
        return "_stacks", pa.table(columns)

    def _numbers(self, starts: Any, field: FieldLayout, at: int = 0) -> Any:
        out = np.empty(len(starts), np.int64)
        numbers(self._buffer, starts, field.offset + at, field.item, field.signed, out)
        return out

    def _labels(self, values: Any, text: Callable[[int], str]) -> Any:
        known, which = _different(values)
        known = known.view(values.dtype)
        return labelled(which, pa.array([text(value) for value in known.tolist()], pa.string()))

    def _place(self, starts: Any, field: FieldLayout | None) -> Any:
        if field is None:
            return pa.nulls(len(starts), LABEL)
        values = self._numbers(starts, field).view(np.uint64)
        return self._labels(values, lambda value: escaped(self._places[value].text))

    def _field(self, starts: Any, ends: Any, field: FieldLayout, is_probe: bool) -> Any:
        kind = _type(field)
        if field.kind == "string":
            return self._texts(starts, ends, field, is_probe)
        if field.kind == "symbol":
            known, which = _different(self._numbers(starts, field))
            known = known.view(np.uint64)
            shown = array([plain_value(self._places.symbol(value)) for value in known.tolist()], kind)
            return shown.take(pa.array(which))
        if field.elements is None:
            return column_of(self._numbers(starts, field).astype(kind.to_pandas_dtype()))
        width = field.elements
        each = np.column_stack([self._numbers(starts, field, i * field.item) for i in range(width)])
        offsets = np.arange(len(starts) + 1, dtype=np.int32) * width
        values = each.ravel().astype(kind.value_type.to_pandas_dtype())
        return pa.ListArray.from_arrays(column_of(offsets.astype(np.int32)), column_of(values))

    def _texts(self, starts: Any, ends: Any, field: FieldLayout, is_probe: bool) -> Any:
        places, lengths = np.empty(len(starts), np.int64), np.empty(len(starts), np.int32)
        texts(self._buffer, starts, ends, field.offset, is_probe, places, lengths)
        missing = lengths < 0
        lengths = np.maximum(lengths, 0)
        offsets, data = np.zeros(len(starts) + 1, np.int32), np.zeros(int(lengths.sum()), np.uint8)
        gather(self._buffer, places, lengths, offsets, data)
        present = bits(~missing) if missing.any() else None
        return pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(data), present)


def _is_stack(known: Known) -> bool:
    fields = {field.name: field for field in known.reader.layout.fields}
    caller = fields.get("caller")
    is_list = caller is not None and caller.where == "rest" and caller.kind == "int" and caller.item == 8
    return known.special in ("kernel_stack", "user_stack") and is_list and fields.keys() <= {"size", "caller", "tgid"}


def _has_simple_fields(known: Known) -> bool:
    layout = known.reader.layout
    common = {field.name for field in layout.common}
    places = [field for field in (layout.address, layout.caller) if field is not None]
    return {*_COMMON, "common_type"} <= common and all(map(_is_simple, (*places, *layout.fields)))


def _is_simple(field: FieldLayout) -> bool:
    if field.kind == "string":
        return field.where == "data_loc" and field.elements is None
    if field.where != "inline":
        return False
    return field.kind == "int" or (field.kind == "symbol" and field.elements is None)


def _type(field: FieldLayout) -> pa.DataType:
    if field.kind != "int":
        return pa.string() if field.elements is None else pa.list_(pa.string())
    kind = integer_of(field.item, field.signed)
    return kind if field.elements is None else pa.list_(kind)


def _different(values: Any) -> tuple[Any, Any]:
    """Give the different values, and for each which it is."""
    values = values.view(np.int64)
    table, known, which = np.empty(4096, np.int64), np.empty(1024, np.int64), np.empty(len(values), np.int32)
    if (count := coded(values, table, known, which)) >= 0:
        return known[:count], which
    found, places = np.unique(values, return_inverse=True)
    return found, places.astype(np.int32)


def _mapped(values: Any, value: Callable[[int], int | None], kind: pa.DataType) -> Any:
    known, which = _different(values)
    return pa.array([value(one) for one in known.tolist()], kind).take(pa.array(which))
