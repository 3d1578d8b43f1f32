"""Tables -> files in a directory, one for each event, which grow as the text is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from kprobe_text.columns.column_types import EVENT, LABEL, as_type, has_negative
from kprobe_text.columns.merge import conformed, unified

FORMATS: Final = ("parquet", "arrow")
HELD: Final = 1 << 25  # bytes of tables that wait to be written, for all files
_GROUP: Final = 1 << 18  # most rows of a file that are written together
_BATCH: Final = 1 << 13  # values that are encoded together
_CONTEXT: Final = frozenset(EVENT.names)
_COUNTED: Final = frozenset({"offset", "timestamp"})
_WIDTH: Final = sum(field.type.index_type.bit_width if field.type == LABEL else 64 for field in EVENT) // 8


class NotEmpty(Exception):
    """The directory isn't empty; the text says what to do."""


class Store:
    """Writes tables into a directory that is empty or new; raise `NotEmpty` and `OSError`.

    Until a file is complete its name begins with a dot.  If the type of a column changes after rows were written, the
    file is written anew with a type that holds both.  `held` bytes of tables wait to be written.
    """

    def __init__(self, directory: str, form: str, held: int | None = None) -> None:
        os.makedirs(directory, exist_ok=True)
        if there := sorted(os.listdir(directory)):
            raise NotEmpty(f"{directory} isn't empty ({there[0]}): name another directory, or empty it")
        self._directory = directory
        self._form = form
        self._held = HELD if held is None else held
        self._files: dict[str, _File] = {}
        self.rows = 0

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Take tables by name, each with the rows that follow the earlier ones."""
        for name, table in tables.items():
            file = self._files.get(name)
            if file is None:
                file = self._files[name] = _File(os.path.join(self._directory, name), self._form)
            file.add(table)
            self.rows += len(table)
        held = sum(file.held for file in self._files.values())
        for file in sorted(self._files.values(), key=lambda file: -file.held):
            if held <= self._held and file.rows < _GROUP:
                continue
            held -= file.held
            file.flush()

    def close(self) -> list[str]:
        """Write what is left, and return the names of the files."""
        return sorted(file.close() for file in self._files.values())

    def abandon(self) -> None:
        """Remove the incomplete files after an error."""
        for file in self._files.values():
            file.abandon()


class _File:
    """One file."""

    def __init__(self, path: str, form: str) -> None:
        self._form = form
        directory, name = os.path.split(path)
        self._path = f"{path}.{form}"
        self._parts = [os.path.join(directory, f".{name}.{part}") for part in (0, 1)]
        self._writer: Any = None
        self._schema = pa.schema([])
        self._negative: set[str] = set()
        self._tables: list[pa.Table] = []
        self.rows = 0
        self.held = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self.rows += len(table)
        # measuring all columns is slow, and those of the context have about the same bytes in each row
        self.held += len(table) * _WIDTH
        self.held += sum(table.column(at).nbytes for at, name in enumerate(table.schema.names) if name not in _CONTEXT)

    def flush(self) -> None:
        if not self._tables:
            return
        schema = self._unified()
        if self._writer is not None and schema != self._schema:
            self._rewrite(schema)
        self._schema = schema
        if self._writer is None:
            self._writer = self._open(self._parts[0])
        self._write(pa.concat_tables([conformed(table, schema) for table in self._tables]))
        self._tables, self.rows, self.held = [], 0, 0

    def _unified(self) -> pa.Schema:
        fields = {field.name: field.type for field in self._schema}
        known_schema = self._schema
        for table in self._tables:
            negative = len(self._negative)
            for name in set(table.schema.names) - self._negative - _CONTEXT:
                if has_negative(table[name]):
                    self._negative.add(name)
            if table.schema == known_schema and len(self._negative) == negative:
                continue
            known_schema = table.schema
            for field in table.schema:
                known = fields.get(field.name, field.type)
                fields[field.name] = unified(known, field.type, negative=field.name in self._negative)
        return pa.schema(list(fields.items()))

    def _open(self, path: str) -> Any:
        if self._form == "arrow":
            return pa.ipc.new_file(path, _unlabelled(self._schema))
        from pyarrow import parquet

        return parquet.ParquetWriter(
            path,
            self._schema,
            # the encoding already packs numbers and repeated values
            compression={_path(field): _codec(field) for field in self._schema},
            compression_level={_path(field): 1 for field in self._schema if _codec(field) == "zstd"},
            # repeated values are stored once, increasing ones as differences
            use_dictionary=[_path(field) for field in self._schema if _repeats(field)],
            column_encoding={name: "DELTA_BINARY_PACKED" for name in self._schema.names if name in _COUNTED},
            # least and greatest values of numbers, for queries: those of texts would cost a third of the writing
            write_statistics=[field.name for field in self._schema if pa.types.is_integer(field.type)],
            write_batch_size=_BATCH,
            store_schema=False,  # or readers in Python would turn texts into categories
        )

    def _write(self, table: pa.Table) -> None:
        if self._form == "arrow":
            schema = _unlabelled(table.schema)
            columns = [_cast(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
            self._writer.write_table(pa.table(columns, schema=schema), _GROUP)
            return
        self._writer.write_table(table.unify_dictionaries(), row_group_size=_GROUP)

    def _rewrite(self, schema: pa.Schema) -> None:
        """Copy the written rows into a file of another schema, a group at a time."""
        self._writer.close()
        self._schema = schema
        old = self._parts[0]
        self._parts.reverse()
        self._writer = self._open(self._parts[0])
        for table in _groups(old, self._form):
            self._write(conformed(table, schema))
        os.remove(old)

    def close(self) -> str:
        self.flush()
        self._writer.close()
        os.rename(self._parts[0], self._path)
        return os.path.basename(self._path)

    def abandon(self) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
        except (OSError, pa.ArrowException):
            pass  # the cause of the failed write stops this too
        for path in self._parts:
            if os.path.exists(path):
                os.remove(path)


def _cast(column: Any, kind: pa.DataType) -> Any:
    """Cast a column of chunks to another type."""
    return pa.chunked_array([as_type(chunk, kind) for chunk in column.chunks], kind)


def _codec(field: pa.Field) -> str:
    """Choose a column's codec: the fastest, unless its result would be half as large again."""
    if field.name in _COUNTED:
        return "none"
    return "snappy" if field.name in _CONTEXT and field.name != "raw" else "zstd"


def _repeats(field: pa.Field) -> bool:
    """Return whether a column holds few different values: numbers of arguments pack better one by one."""
    kind = field.type.value_type if pa.types.is_list(field.type) else field.type
    return field.name not in _COUNTED and (field.name in _CONTEXT or not pa.types.is_integer(kind))


def _path(field: pa.Field) -> str:
    """Return the name of a column in a Parquet file."""
    return f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name


def _unlabelled(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, pa.string() if field.type == LABEL else field.type) for field in schema])


def _groups(path: str, form: str) -> Any:
    if form == "arrow":
        with pa.OSFile(path) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(number)])
        return
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number)
