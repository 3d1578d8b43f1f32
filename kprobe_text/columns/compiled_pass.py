"""The lines that `text_scan` has read -> tables."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from kprobe_text.columns import text_scan
from kprobe_text.columns.column_types import ARGUMENT, EVENT, LABEL, STACK, array, as_type, escaped
from kprobe_text.columns.compiled_texts import gather
from kprobe_text.columns.probe_tables import Plan, ProbeTables
from kprobe_text.columns.rows import Rows, Types, stem

_COMMS: Final = 4096
_FLAGS: Final = 512
_LINE: Final = 24  # average bytes of a line, below which a text is read in several passes
_ROOM: Final = 4096
_KEPT: Final = 256
_COLON, _BLANK, _OPENING, _PLACE = *b": (", 4096
_SCALARS: Final = frozenset({text_scan.POSITIVE, text_scan.NEGATIVE, text_scan.BIG, text_scan.FAULT})
_ARRAYS: Final = frozenset({text_scan.POSITIVES, text_scan.NEGATIVES, text_scan.BIGS, text_scan.FAULT})
_TEXTS: Final = (frozenset({text_scan.TEXT, text_scan.FAULT}), frozenset({text_scan.PLACE, text_scan.FAULT}))
_NO_LIST: Final = pa.array([], pa.string())


class CompiledPass:
    """The compiled pass, with the tables that it fills."""

    def __init__(self, probes: ProbeTables, types: Types, size: int) -> None:
        self._probes = probes
        self._types = types
        lines = size // _LINE + _ROOM
        self._lines = np.zeros((lines, 6), np.int64)
        self._forgeable = np.zeros(lines, bool)
        self._head = np.zeros((6, lines), np.int64)
        self._cells = np.zeros((size // 4 + _ROOM, 2), np.int32)
        self._values = np.zeros(size // 4 + _ROOM, np.int64)
        self._elements = np.zeros(size // 8 + _ROOM, np.int64)
        self._interned = np.zeros((2 * _COMMS, 3), np.uint64), np.zeros((2 * _FLAGS, 3), np.uint64)
        self._counts = np.zeros(2, np.int64)
        self._output = text_scan.ScanTables(
            *self._interned, self._counts, self._lines, self._head, self._cells, self._values, self._elements
        )
        self._buffer = np.zeros(0, np.uint8)
        self._names: dict[tuple[Any, ...], Any] = {}  # texts as a column: making one costs as much as a hundred rows

    def load(self, text: bytes) -> None:
        """Take a text, and forget the last one."""
        self._buffer = np.frombuffer(text + bytes(64), np.uint8)

    def scan(self, start: int, limit: int, is_decimal: bool) -> tuple[Any, Any, int]:
        """Read lines; return where each begins, which are complete and precede a record, and where reading stopped."""
        for table, count in zip(self._interned, self._counts, strict=True):
            if count * 4 > len(table):
                table[:] = 0
                self._counts[:] = 0
        if not self._counts.any():
            for table in self._interned:
                table[:] = 0
        count, reached = text_scan.scan(self._buffer, start, limit, is_decimal, self._probes.tables, self._output)
        kinds = self._lines[:count, 1]
        good = kinds >= text_scan.EVENT
        # a stack ends before a line that isn't a frame, all else where a record begins
        good[:-1] &= (kinds[1:] != text_scan.OTHER) | (kinds[:-1] == text_scan.STACK)
        good[-1:] = False
        if (self._probes.seals[:, 0] >= 0).any():
            good &= self._are_sealed(count)
        return self._lines[:count, 0], good, reached

    def _are_sealed(self, count: int) -> Any:
        """Return for each line whether it has its definition's seal, if any, and doesn't look like two records."""
        lines = self._lines[:count]
        seals = np.where(
            (lines[:, 1] == text_scan.EVENT)[:, None], self._probes.seals[lines[:, 2] % len(self._probes.seals)], -1
        )
        cells = np.where(seals[:, 0] >= 0, lines[:, 3] + seals[:, 0], 0)
        found = self._values[cells]
        start, end = int(lines[0, 0]) if count else 0, int(lines[-1, 0]) if count else 0
        text = self._buffer[start : end + _PLACE]
        places = np.flatnonzero((text[:-2] == _COLON) & (text[1:-1] == _BLANK) & (text[2:] == _OPENING)) + start
        held = np.diff(np.searchsorted(places, lines[:, 0]), append=len(places))
        return (seals[:, 0] < 0) | (((found == seals[:, 1]) | (found == seals[:, 2])) & (held == 1))

    def forge(self, first: int, end: int, reach: int, longest: int) -> int:
        """Mark the lines, by number, that begin where an earlier string may continue: so far up to `reach`.

        Return how far strings of these lines may continue: `longest` bytes after a line with a string.
        """
        starts, ends = self._lines[first:end, 0], self._lines[first + 1 : end + 1, 0]
        opening = self._probes.opening[self._lines[first:end, 2]]
        opening &= (self._lines[first:end, 1] == text_scan.EVENT) & (self._lines[first:end, 5] > 0)
        reaches = np.maximum.accumulate(np.where(opening, ends + longest, reach))
        self._forgeable[first:end] = starts < reaches
        return max(reach, int(reaches[-1])) if len(reaches) else reach

    def tables(self, taken: Any, base: int, rows: Rows) -> list[tuple[str, pa.Table]]:
        """Return lines, by number, as a table for each plan; the text begins at byte `base` of the file."""
        labels = _labels(self._interned[0], 16), _labels(self._interned[1], 8)
        found = []
        is_event = self._lines[taken, 1] == text_scan.EVENT
        if not is_event.all():
            found.append(("_stacks", self._stacks(taken[~is_event], base, rows, labels)))
            taken = taken[is_event]
        plans = self._lines[taken, 4]  # the probe point may have another plan by now
        for number in np.unique(plans):
            plan = self._probes.plans[number]
            found.append((stem(plan.event), self._table(plan, taken[plans == number], base, rows, labels)))
        return found

    def _context(self, taken: Any, base: int, rows: Rows, labels: tuple[Any, Any]) -> list[Any]:
        zeros = np.zeros(len(taken), np.int32)
        comms, pids, tgids, cpus, flags, stamps = self._head[:, taken]
        return [
            labelled(zeros, self._column((rows.file,))),
            numbers(self._lines[taken, 0] + base),
            labelled(comms.astype(np.int32), labels[0]),
            numbers(pids),
            numbers(tgids, tgids < 0),
            numbers(cpus.astype(np.int32)),
            labelled(flags.astype(np.int32), labels[1]),
            numbers(stamps),
            labelled(zeros, self._column(("time",))),
        ]

    def _stacks(self, taken: Any, base: int, rows: Rows, labels: tuple[Any, Any]) -> pa.Table:
        shown, first = self._lines[taken, 2], self._lines[taken, 3]
        counts = shown >> 1
        offsets = np.zeros(len(taken) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        cells = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], counts)
        frames = self._text(self._values[cells], self._cells[cells, 1], None)
        columns = [
            *self._context(taken, base, rows, labels),
            pa.array((shown & 1).astype(bool)),
            pa.ListArray.from_arrays(numbers(offsets), frames),
            pa.array(self._forgeable[taken]),
            pa.array(np.ones(len(taken), bool)),
        ]
        return pa.table(columns, schema=STACK)

    def _table(self, plan: Plan, taken: Any, base: int, rows: Rows, labels: tuple[Any, Any]) -> pa.Table:
        count = len(taken)
        none = pa.nulls(count, LABEL)
        addresses, callers = self._places(self._lines[taken, 2])
        columns = [
            *self._context(taken, base, rows, labels),
            addresses,
            callers,
            none,
            none,
            pa.nulls(count, pa.bool_()).fill_null(True),
            pa.ListArray.from_arrays(numbers(np.zeros(count + 1, np.int32)), _NO_LIST),
            pa.array(self._forgeable[taken]),
            pa.nulls(count, pa.binary()),
        ]
        declared = self._types(plan.event)
        first = self._lines[taken, 3]
        for i, name in enumerate(plan.names):
            columns.append(self._argument(first + i, declared.get(name)))
        return pa.table(columns, names=[*EVENT.names, *(ARGUMENT + escaped(name) for name in plan.names)])

    def _places(self, sites: Any) -> tuple[Any, Any]:
        known, which = np.unique(sites, return_inverse=True)
        which = which.astype(np.int32)
        addresses = [self._probes.addresses[site] for site in known]
        callers = [self._probes.callers[site] for site in known]
        return self._distinct(which, addresses), self._distinct(which, callers)

    def _distinct(self, which: Any, names: list[Any]) -> Any:
        known = tuple(dict.fromkeys(name for name in names if name is not None))
        if not known:
            return pa.nulls(len(which), LABEL)
        rows = {name: i for i, name in enumerate(known)}
        places = np.array([-1 if name is None else rows[name] for name in names], np.int32)[which]
        missing = places < 0
        return labelled(np.maximum(places, 0), self._column(known), missing if missing.any() else None)

    def _column(self, texts: tuple[str, ...]) -> Any:
        if (known := self._names.get(texts)) is None:
            if len(self._names) >= _KEPT:
                self._names.clear()
            known = self._names[texts] = pa.array(texts)
        return known

    def _argument(self, cells: Any, declared: pa.DataType | None) -> Any:
        kinds, lengths = self._cells[cells].T
        values = self._values[cells]
        present = frozenset(np.flatnonzero(np.bincount(kinds)).tolist())
        missing = kinds == text_scan.FAULT if text_scan.FAULT in present else None
        if present in ({text_scan.FAULT}, set()):
            return pa.nulls(len(cells), declared or pa.null())
        if any(present <= texts for texts in _TEXTS):
            return _typed(self._text(values, lengths, missing), declared)
        signs = present - {text_scan.FAULT}
        if present <= _SCALARS and not {text_scan.NEGATIVE, text_scan.BIG} <= signs:
            return _typed(numbers(values.view(np.uint64) if text_scan.BIG in signs else values, missing), declared)
        if present <= _ARRAYS and not {text_scan.NEGATIVES, text_scan.BIGS} <= signs and missing is None:
            return _typed(self._lists(values, lengths, text_scan.BIGS in signs), declared)
        return array([self._value(*cell) for cell in zip(kinds, lengths, values, strict=True)], declared)

    def _text(self, starts: Any, lengths: Any, missing: Any) -> Any:
        offsets = np.zeros(len(starts) + 1, np.int32)
        data = np.zeros(int(lengths.sum()), np.uint8)
        gather(self._buffer, starts, lengths, offsets, data)
        present = None if missing is None else bits(~missing)
        return pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(data), present)

    def _lists(self, starts: Any, lengths: Any, are_big: bool) -> Any:
        offsets = np.zeros(len(starts) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        found = self._elements[np.repeat(starts, lengths) + within]
        return pa.ListArray.from_arrays(numbers(offsets), numbers(found.view(np.uint64) if are_big else found))

    def _value(self, kind: int, length: int, value: int) -> Any:
        """Return the value of one argument of a column with values of several kinds."""
        if kind in (text_scan.TEXT, text_scan.PLACE):
            return self._buffer[value : value + length].tobytes().decode()
        if kind >= text_scan.POSITIVES:
            found = self._elements[value : value + length]
            return (found.view(np.uint64) if kind == text_scan.BIGS else found).tolist()
        if kind == text_scan.FAULT:
            return None
        return int(value) % (1 << 64) if kind == text_scan.BIG else int(value)


def numbers(values: Any, missing: Any = None) -> Any:
    """Return numbers as a column, null where missing, in a fraction of the library's time."""
    values = np.ascontiguousarray(values)
    present = None if missing is None else bits(~missing)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [present, pa.py_buffer(values)])


def bits(present: Any) -> Any:
    """Return the validity bits of a column."""
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def labelled(indices: Any, names: Any, missing: Any = None) -> Any:
    """Return a column of texts from their numbers, none of which may be missing."""
    return pa.DictionaryArray.from_arrays(numbers(indices, missing), names, safe=False)


def _labels(table: Any, width: int) -> Any:
    """Return the texts of an interned table, by number."""
    used = table[table[:, 2] > 0]
    texts = [b""] * len(used)
    for low, high, number in used.tolist():
        text = low.to_bytes(8, "little") + high.to_bytes(8, "little")
        # a comm is padded with blanks in front, flags are not padded
        texts[number - 1] = text.lstrip(b" ") if width == 16 else text.rstrip(b"\0")
    return pa.array([text.decode() for text in texts], pa.string())


def _typed(column: Any, declared: pa.DataType | None) -> Any:
    """Cast a column to its declared type, if that holds its values."""
    if declared is None or column.type == declared:
        return column
    if pa.types.is_string(declared) or pa.types.is_string(column.type):
        return as_type(column, pa.string()) if pa.types.is_string(column.type) else array(column.to_pylist(), declared)
    try:
        return column.cast(declared)
    except pa.ArrowInvalid:
        return column
