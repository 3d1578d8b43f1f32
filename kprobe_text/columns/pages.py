"""Pages of the ring buffer -> tables, one for each event.

Compiled code reads plain pages, `kprobe_text.pages` all others, with the same values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kprobe_text.columns.column_types import ARGUMENT, EVENT, LABEL, array, escaped, integer_of
from kprobe_text.columns.column_types import plain as plain_value
from kprobe_text.columns.compiled_pass import bits, labelled
from kprobe_text.columns.compiled_pass import numbers as column_of
from kprobe_text.columns.merge import merged
from kprobe_text.columns.page_scan import coded, copied, frames, marks, numbers, sorted_by_event, texts, walk
from kprobe_text.columns.rows import Rows, stem
from kprobe_text.pages.bounds import FRAMES
from kprobe_text.pages.events import Known
from kprobe_text.pages.layout import FieldLayout
from kprobe_text.pages.page import Pages
from kprobe_text.text.records import Event, Header, Record

_SHORT: Final = 4 * 28  # bytes of an event whose header has one word
_ROWS: Final = 1 << 14  # of a column of one value, at least
_SMALLEST: Final = 12  # bytes of an event with its header
LARGEST: Final = 1 << 20  # bytes of a page that is read at once
_CONSTANTS: Final = 64  # columns of one value that are kept: each CPU has one
_STRINGS: Final = 16  # of an event: each may be as long as the record
_RECORDS: Final = 10_000  # that are held until they are a table
_NUMBER, _CPU, _TRUTH, _TEXTS, _BYTES = pa.int64(), pa.int32(), pa.bool_(), pa.list_(pa.string()), pa.binary()
_COMMON: Final = ("common_flags", "common_preempt_count", "common_pid")


class RawReading:
    """Reads the pages of one buffer, CPU by CPU; the rows of a CPU are in the order of time.

    `tasks` and `tgids` of the pages can be changed from call to call.
    """

    def __init__(self, pages: Pages, *, file: str = "") -> None:
        self.pages = pages
        self._header = pages.header
        self._events = pages.events
        self._places = pages.places
        self._flags = pages.flags
        self._clock = pages.clock
        self._instance = pages.instance
        self._rows = Rows(file, self._types, is_text=False)
        self._slots = np.full(1 << 16, -1, np.int64)
        self._known: list[Known] = []
        self._asked: set[int] = set()
        self._buffer = np.zeros(0, np.uint8)
        self._found = np.empty((0, 6), np.int64)
        self._walked = self._found
        self._ends: set[int] = set()
        self._constants: dict[tuple[Any, pa.DataType], Any] = {}

    def _types(self, name: str) -> Mapping[str, pa.DataType]:
        known = next((one for one in self._known if one.name == name), None)
        return {} if known is None else {field.name: _type(field) for field in known.reader.layout.fields}

    def tables(self, data: bytes, cpu: int, offset: int = 0) -> dict[str, pa.Table]:
        """Return whole pages of a CPU, from byte `offset` of their file on, as tables by name."""
        size = self._header.size
        count = len(data) // size
        is_plain = self._header.order == "little" and size <= LARGEST
        parts: dict[str, list[pa.Table]] = {}
        good = np.zeros(count, bool)
        if is_plain and count > 1 and not self._known:
            # the events of the first page are known when the others are read
            parts = {name: [table] for name, table in self.tables(data[:size], cpu, offset).items()}
            data, offset, count = data[size:], offset + size, count - 1
            good = good[1:]
        odd: list[list[int]] = []
        if is_plain and self._known and count:
            self._buffer = np.frombuffer(data + bytes(8), np.uint8)
            places, columns = self._walk(count, good)
            odd = [*columns[:, : places[0]].T.tolist(), *self._fillings(good)]
            for slot in np.flatnonzero(np.diff(places)).tolist():
                known, events = self._known[slot], columns[:, places[slot] : places[slot + 1]]
                if not known.special:
                    events, texts_of = self._texts(known, events, odd)
                    name, table = stem(known.name), self._table(known, events, texts_of, cpu, offset)
                else:
                    name, table = "_stacks", self._stacks(known, _short(known, events, odd), cpu, offset)
                if len(table):
                    parts.setdefault(name, []).append(table)
        odd += [[page * size] for page in np.flatnonzero(~good).tolist()]
        if count * size < len(data):
            odd.append([count * size])
        for tables in self.one_by_one(data, sorted(odd), cpu, offset):
            for name, table in tables.items():
                parts.setdefault(name, []).append(table)
        return {name: merged(tables) for name, tables in parts.items()}

    def one_by_one(self, data: bytes, odd: list[list[int]], cpu: int, offset: int) -> Iterator[dict[str, pa.Table]]:
        """Leave pages, given by their positions, and events to `kprobe_text.pages`; some rows at a time."""
        count = 0
        for row in odd:
            if len(row) > 1:
                if len(row) == 2:
                    self._rows.add(offset + row[0], Header(data[row[0] : row[1]]))
                else:
                    self._event(data, row, cpu, offset)
                count += 1
                continue
            at = offset + row[0]
            for part in self.pages.parts(data[row[0] : row[0] + self._header.size], cpu, offset=at, most=_RECORDS):
                for _, record in part:
                    self._rows.add(at, record)
                    at += len(record.raw)
                    self._learn(record)
                count += len(part)
                if count >= _RECORDS:
                    count = 0
                    yield self._rows.tables()
        yield self._rows.tables()

    def _event(self, data: bytes, row: list[int], cpu: int, offset: int) -> None:
        """Read an event that isn't plain, as the only one on a page."""
        first, begin, end, stamp = row
        header = self._header
        length = end - begin
        event = struct.pack("<I", length // 4) if 0 < length <= _SHORT else struct.pack("<II", 0, length + 4)
        event += data[begin:end]
        page = bytearray(header.data)
        page[header.stamp : header.stamp + 8] = stamp.to_bytes(8, "little")
        page[header.commit : header.commit + header.long] = len(event).to_bytes(header.long, "little")
        page += event
        stop = min(len(data), (first // header.size + 1) * header.size) if end in self._ends else end
        for _, record in self.pages.read(bytes(page), cpu, offset=offset + first):
            is_event = isinstance(record, Event)  # what fills the page belongs to it
            self._rows.add(offset + first, record._replace(raw=data[first : stop if is_event else end]))
            if stop > end and not is_event:
                self._rows.add(offset + end, Header(data[end:stop]))
            self._learn(record)

    def _learn(self, record: Record) -> None:
        """Learn the events that `kprobe_text.pages` has met: the plain ones are read here from now on."""
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

    def _walk(self, count: int, good: Any) -> tuple[Any, Any]:
        """Find the events; return where those of each kind end, odd ones first, and their columns."""
        header = self._header
        common = self._known[0].reader.layout.common
        type_at = next(field.offset for field in common if field.name == "common_type")
        layout = header.stamp, header.commit, header.long, header.data, header.size, type_at
        sizes = np.array([max(known.reader.layout.size, 8) for known in self._known], np.int64)
        most = count * (header.size // _SMALLEST)
        if len(self._found) < most:
            self._found = np.empty((most, 6), np.int64)  # kept, or the kernel would have to make room each time
        rows = walk(self._buffer, count, layout, (self._slots, sizes), good, self._found)
        if any(escaped(name) != name for name in self.pages.tasks.values()):
            good[:] = False
        self._walked = self._found[:rows]
        columns = np.empty((4, rows), np.int64)
        return sorted_by_event(self._found[:rows], good, len(self._known), columns), columns

    def _fillings(self, good: Any) -> list[list[int]]:
        """Return what fills good pages after a stack: from the end of the stack to the end of the page.

        `_ends` says where the other events end that have something after them on their page.
        """
        found, size = self._walked, self._header.size
        self._ends = set()
        if not len(found):
            return []
        last = found[np.append(np.diff(found[:, 1]) != 0, True)]  # of each page
        last = last[good[last[:, 1]] & (last[:, 4] < (last[:, 1] + 1) * size)]
        special = np.array([known.special != "" for known in self._known] + [False])[last[:, 0]]
        self._ends = set(last[~special, 4].tolist())
        return [[end, (page + 1) * size] for page, end in last[special][:, [1, 4]].tolist()]

    def _texts(self, known: Known, events: Any, odd: list[list[int]]) -> tuple[Any, dict[str, Any]]:
        """Return the columns of text; an event with one that isn't plain moves to the odd ones."""
        fields = [field for field in known.reader.layout.fields if field.kind == "string"]
        is_odd = np.zeros(events.shape[1], bool)
        columns = {field.name: self._text(events, field, known.reader.layout.is_probe, is_odd) for field in fields}
        if not is_odd.any():
            return events, columns
        odd += events[:, is_odd].T.tolist()
        return self._texts(known, np.ascontiguousarray(events[:, ~is_odd]), odd)

    def _text(self, events: Any, field: FieldLayout, is_probe: bool, is_odd: Any) -> Any:
        _, starts, ends, _ = events
        count = len(starts)
        offsets, present = np.empty(count + 1, np.int32), np.empty(count, bool)
        data = np.empty(int((ends - starts).sum()), np.uint8)
        used = texts(self._buffer, (starts, ends), (field.offset, is_probe), (offsets, present, data), is_odd)
        shown = None if present.all() else bits(present)
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data[:used]), shown)

    def _same(self, value: Any, kind: pa.DataType, count: int) -> Any:
        """Return a column of one value as a slice of a kept one: the library is slow to make a new one."""
        found = self._constants.get((value, id(kind)))
        if found is None or len(found) < count:
            if len(self._constants) >= _CONSTANTS:
                self._constants.clear()
            rows = max(1 << (count - 1).bit_length(), _ROWS)
            if kind == LABEL and value is not None:
                found = labelled(np.zeros(rows, np.int32), pa.array([value]))
            elif value == ():  # the library repeats a list slowly, item by item
                found = pa.ListArray.from_arrays(column_of(np.zeros(rows + 1, np.int32)), pa.array([], kind.value_type))
            else:
                found = pa.repeat(pa.scalar(value, kind), rows)
            self._constants[value, id(kind)] = found
        return found.slice(0, count)

    def _context(self, known: Known, events: Any, cpu: int, offset: int) -> dict[str, Any]:
        firsts, starts, _, stamps = events
        count = len(starts)
        common = {field.name: field for field in known.reader.layout.common}
        flags, depth, pid = (common[name] for name in _COMMON)
        pids, marked = self._numbers(starts, pid), np.empty(count, np.int64)
        marks(self._buffer, starts, flags.offset, depth.offset, marked)
        tgids = self.pages.tgids
        return {
            "file": self._same(self._rows.file, LABEL, count),
            "offset": column_of(firsts + offset),
            "task": self._labels(pids, lambda pid: escaped(self.pages.tasks[pid])),
            "pid": column_of(pids),
            "tgid": _mapped(pids, tgids.get, _NUMBER) if tgids else self._same(None, _NUMBER, count),
            "cpu": self._same(cpu, _CPU, count),
            "flags": self._labels(marked, self._flags.__getitem__),
            "timestamp": column_of(stamps.copy()),
            "clock": self._same(str(self._clock), LABEL, count),
        }

    def _table(self, known: Known, events: Any, texts_of: dict[str, Any], cpu: int, offset: int) -> pa.Table:
        layout = known.reader.layout
        starts = events[1]
        count = len(starts)
        columns = self._context(known, events, cpu, offset) | {
            "address": self._place(starts, layout.address),
            "caller": self._place(starts, layout.caller),
            "group": self._same(known.group or None, LABEL, count),
            "instance": self._same(self._instance or None, LABEL, count),
            "complete": self._same(True, _TRUTH, count),
            "guessed": self._same((), _TEXTS, count),
            "forgeable": self._same(False, _TRUTH, count),
            "raw": self._same(None, _BYTES, count),
        }
        assert list(columns) == EVENT.names
        for field in layout.fields:
            column = texts_of[field.name] if field.kind == "string" else self._field(starts, field)
            columns[ARGUMENT + escaped(field.name)] = column
        return pa.table(columns)

    def _stacks(self, known: Known, events: Any, cpu: int, offset: int) -> pa.Table:
        _, starts, ends, _ = events
        count = len(starts)
        fields = {field.name: field for field in known.reader.layout.fields}
        counts = self._numbers(starts, fields["size"]) if "size" in fields else np.full(count, -1)
        offsets, addresses = np.empty(count + 1, np.int32), np.empty(int((ends - starts).sum()) // 8, np.int64)
        used = frames(self._buffer, (starts, ends), fields["caller"].offset, counts, offsets, addresses)
        shown = self._labels(addresses[:used].view(np.uint64), lambda address: escaped(self._places[address].text))
        columns = self._context(known, events, cpu, offset) | {
            "user": self._same(known.special == "user_stack", _TRUTH, count),
            "frames": pa.ListArray.from_arrays(column_of(offsets), shown.cast(pa.string())),
            "forgeable": self._same(False, _TRUTH, count),
            "complete": self._same(True, _TRUTH, count),
        }
        return pa.table(columns)

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
            return self._same(None, LABEL, len(starts))
        values = self._numbers(starts, field).view(np.uint64)
        return self._labels(values, lambda value: escaped(self._places[value].text))

    def _field(self, starts: Any, field: FieldLayout) -> Any:
        kind = _type(field)
        if field.kind == "symbol":
            known, which = _different(self._numbers(starts, field))
            known = known.view(np.uint64)
            shown = array([plain_value(self._places.symbol(value)) for value in known.tolist()], kind)
            return shown.take(pa.array(which))
        width = field.elements or 1
        one = kind if field.elements is None else kind.value_type
        if one.bit_width == 8 * field.item:
            data = np.empty(len(starts) * width * field.item, np.uint8)
            copied(self._buffer, starts, field.offset, width * field.item, data)
            values = pa.Array.from_buffers(one, len(starts) * width, [None, pa.py_buffer(data)])
        else:
            each = [self._numbers(starts, field, i * field.item) for i in range(width)]
            values = column_of(np.column_stack(each).ravel())
        if field.elements is None:
            return values
        offsets = np.arange(0, (len(starts) + 1) * width, width, dtype=np.int32)
        return pa.ListArray.from_arrays(column_of(offsets), values)


def _is_stack(known: Known) -> bool:
    fields = {field.name: field for field in known.reader.layout.fields}
    caller = fields.get("caller")
    is_list = caller is not None and caller.where == "rest" and caller.kind == "int" and caller.item == 8
    return known.special in ("kernel_stack", "user_stack") and is_list and fields.keys() <= {"size", "caller", "tgid"}


def _short(known: Known, events: Any, odd: list[list[int]]) -> Any:
    """Return the possible stacks; those with too many frames move to the odd ones."""
    caller = next(field for field in known.reader.layout.fields if field.name == "caller")
    is_long = (events[2] - events[1] - caller.offset) // caller.item > FRAMES
    if not is_long.any():
        return events
    odd += events[:, is_long].T.tolist()
    return np.ascontiguousarray(events[:, ~is_long])


def _has_simple_fields(known: Known) -> bool:
    layout = known.reader.layout
    common = {field.name: field.item for field in layout.common}
    places = [field for field in (layout.address, layout.caller) if field is not None]
    has_context = {*_COMMON, "common_type"} <= common.keys() and all(common[name] == 1 for name in _COMMON[:2])
    few = sum(field.kind == "string" for field in layout.fields) <= _STRINGS
    return has_context and few and all(map(_is_simple, (*places, *layout.fields)))


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
    """Return the different values, and the index of each value among them."""
    values = values.view(np.int64)
    table, known, which = np.empty(4096, np.int64), np.empty(1024, np.int64), np.empty(len(values), np.int32)
    if (count := coded(values, table, known, which)) >= 0:
        return known[:count], which
    found, places = np.unique(values, return_inverse=True)
    return found, places.astype(np.int32)


def _mapped(values: Any, value: Callable[[int], int | None], kind: pa.DataType) -> Any:
    known, which = _different(values)
    return pa.array([value(one) for one in known.tolist()], kind).take(pa.array(which))
