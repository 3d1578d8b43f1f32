"""Records of `kprobe_text.text` as tables, one for each event and one for each other kind of record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from kprobe_text.columns import column_types
from kprobe_text.columns.column_types import ARGUMENT, EVENT, array, escaped, plain
from kprobe_text.text import (
    FAULT,
    Bare,
    BufferStarted,
    CodeAddress,
    Event,
    Lost,
    Marker,
    RawMarker,
    Record,
    StackTrace,
    Unparsed,
)

Types: TypeAlias = Callable[[str], Mapping[str, pa.DataType]]

# A hostile trace can give each event another name and each record other arguments: beyond these limits an event gets no
# table, and an argument no column.
EVENTS: Final = 256
ARGUMENTS: Final = 256

_SPECIAL: Final = {
    "_stacks": column_types.STACK,
    "_markers": column_types.MARKER,
    "_lost": column_types.LOST,
    "_unparsed": column_types.UNPARSED,
    "_others": column_types.OTHER,
}
_UNSAFE = re.compile(rb"[^A-Za-z0-9._-]|\A[._]")
_LONGEST: Final = 200
_LARGEST: Final = 1 << 63


def stem(name: str) -> str:
    """Return the name of an event's file and table; characters with a meaning in paths become ``%XX``."""
    shown = _UNSAFE.sub(lambda found: b"%%%02X" % found[0][0], name.encode("utf-8", "surrogateescape")).decode()
    return shown or "_nameless"


class Rows:
    """Gathers records, and gives them as tables.

    `types` returns the types of an event's arguments by its format; `is_text` says that records were read from text.
    """

    def __init__(self, file: str, types: Types, *, is_text: bool = True) -> None:
        self.file = escaped(file)
        self._types = types
        self._is_text = is_text
        self._found: dict[str, list[tuple[int, Any]]] = {}
        self._arguments: dict[str, dict[str, None]] = {}

    def begin(self, known: Mapping[str, Iterable[str]]) -> None:
        """Start with these events and their arguments, and no others."""
        self._arguments = {name: dict.fromkeys(arguments) for name, arguments in known.items()}

    @property
    def known(self) -> dict[str, tuple[str, ...]]:
        """The events seen so far, with their arguments."""
        return {name: tuple(arguments) for name, arguments in self._arguments.items()}

    def knows(self, name: str, fields: Mapping[str, Any]) -> bool:
        """Return whether there is room for an event and all of its arguments."""
        known = self._arguments.get(name)
        if known is None:
            if len(self._arguments) >= EVENTS or len(stem(name)) > _LONGEST:
                return False
            known = self._arguments[name] = {}
        if len(known) + len(fields) > ARGUMENTS and len(known.keys() | fields.keys()) > ARGUMENTS:
            return False
        known.update(dict.fromkeys(fields))
        return True

    def add(self, offset: int, record: Record) -> None:
        """Take a record that begins at a byte of the text."""
        self._found.setdefault(self._key(record), []).append((offset, record))

    def _key(self, record: Record) -> str:
        if isinstance(record, (Event, Bare)):
            numbers = (record.pid, record.timestamp, getattr(record, "tgid", 0), record.cpu)
            if any(number is not None and number >= _LARGEST for number in numbers):
                return "_others"
            if any(_is_large(value) for value in record.fields.values()):
                return "_others"
            return stem(record.name) if self.knows(record.name, record.fields) else "_others"
        if isinstance(record, (StackTrace, Marker, RawMarker)):
            large = max(record.pid, record.timestamp, record.tgid or 0) >= _LARGEST
            return "_others" if large else "_stacks" if isinstance(record, StackTrace) else "_markers"
        if isinstance(record, Lost):
            return "_lost" if (record.count or 0) < 2 * _LARGEST else "_others"
        if isinstance(record, BufferStarted):
            return "_lost"
        return "_unparsed" if isinstance(record, Unparsed) else "_others"

    def tables(self) -> dict[str, pa.Table]:
        """Return the gathered tables, and begin anew."""
        found, self._found = self._found, {}
        return {key: self._table(key, rows) for key, rows in found.items()}

    def _table(self, key: str, rows: list[tuple[int, Any]]) -> pa.Table:
        offsets = [offset for offset, _ in rows]
        records = [record for _, record in rows]
        schema = _SPECIAL.get(key, EVENT)
        columns = {"file": [self.file] * len(rows), "offset": offsets}
        columns |= (
            _described(records) if key == "_others" else _columns(schema.names[2:], records, is_text=self._is_text)
        )
        names, arrays = list(schema.names), []
        for field in schema:
            values = pa.array(columns[field.name], field.type if field.type != _LABEL else pa.string())
            arrays.append(values.dictionary_encode() if field.type == _LABEL else values)
        if schema is EVENT:
            declared = self._types(records[0].name)
            for name in dict.fromkeys(name for record in records for name in record.fields):
                values = [_value(record, name) for record in records]
                names.append(ARGUMENT + escaped(name))
                arrays.append(array(values, declared.get(name)))
        return pa.table(arrays, names=names)


_LABEL: Final = EVENT.field("task").type


def _described(records: list[Record]) -> dict[str, list[Any]]:
    kinds = [type(record).__name__.lower() for record in records]
    # what isn't UTF-8 is a lone surrogate, which JSON escapes
    return {"type": kinds, "json": [json.dumps(_json(record._asdict())) for record in records]}


def _json(value: Any) -> Any:
    if isinstance(value, CodeAddress):
        return value.text
    if isinstance(value, Mapping):
        return {name: _json(part) for name, part in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return [_json(part) for part in value]
    return None if value is FAULT else value


def _is_large(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_is_large(part) for part in value)
    return isinstance(value, int) and not -(10**37) < value < 10**37


def _value(record: Event | Bare, name: str) -> Any:
    value = record.fields.get(name)
    return value if type(value) is int or value is None else plain(value)


def _columns(names: list[str], records: list[Any], *, is_text: bool) -> dict[str, list[Any]]:
    columns = {name: [_cell(record, name) for record in records] for name in names if name != "raw"}
    if "raw" in names:
        is_escaped = _is_escaped if is_text else _has_escaped
        columns["raw"] = [
            record.raw if not getattr(record, "complete", False) or is_escaped(record) else None for record in records
        ]
    return columns


def _cell(record: Any, name: str) -> Any:
    if name == "type":
        return "lost" if isinstance(record, Lost) else "started"
    if name == "guessed":
        return sorted(record.guessed)
    if name == "frames":
        return [escaped(frame.text) for frame in record.frames]
    if name == "clock" and isinstance(record, Bare):
        return None if record.timestamp is None else "time"
    value = getattr(record, name, None)
    if name == "count":
        return None if isinstance(record, BufferStarted) else value
    if name in ("group", "instance"):
        return escaped(value) if value else None
    if name == "tgid" or value is None or isinstance(value, (int, bytes)):
        return value
    return escaped(value if isinstance(value, str) else value.text)


def _has_escaped(record: Any) -> bool:
    """Return whether a text among a record's values isn't UTF-8."""
    texts = [record.task or "", *(value for value in record.fields.values() if isinstance(value, str))]
    return any(escaped(text) != text for text in texts)


def _is_escaped(record: Any) -> bool:
    """Return whether a record has bytes that aren't UTF-8, which its columns show escaped."""
    if record.raw.isascii():
        return False
    try:
        record.raw.decode()
    except UnicodeDecodeError:
        return True
    return False
