"""Tables of one event merged into one, whatever the types of their columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kprobe_text.columns.column_types import as_type, has_negative, joined


def unified(first: pa.DataType, second: pa.DataType, *, negative: bool) -> pa.DataType:
    """Return the type for the values of two columns; `negative` if either has a number below zero."""
    if not negative and pa.uint64() in (first, second) and pa.types.is_integer(first) and pa.types.is_integer(second):
        return pa.uint64()
    return joined(first, second)


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with a schema that has all of its columns; missing columns are null."""
    if table.schema == schema:
        return table
    columns = []
    for field in schema:
        at = table.schema.get_field_index(field.name)
        if at < 0:
            columns.append(pa.nulls(len(table), field.type))
            continue
        column = table.column(at)
        if column.type != field.type:
            column = pa.chunked_array([as_type(chunk, field.type) for chunk in column.chunks], field.type)
        columns.append(column)
    return pa.table(columns, schema=schema)


def schema_of(tables: Sequence[pa.Table]) -> pa.Schema:
    """Return the schema that holds all columns of some tables."""
    fields: dict[str, pa.DataType] = {}
    negative: set[str] = set()
    for table in tables:
        for field, column in zip(table.schema, table.columns, strict=True):
            if has_negative(column):
                negative.add(field.name)
            known = fields.get(field.name, field.type)
            fields[field.name] = unified(known, field.type, negative=field.name in negative)
    return pa.schema(list(fields.items()))


def merged(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of some tables, in the order of the text."""
    if len(tables) == 1:
        return tables[0]
    schema = tables[0].schema
    if any(table.schema != schema for table in tables):
        schema = schema_of(tables)
    table = pa.concat_tables([conformed(table, schema) for table in tables]).unify_dictionaries()
    offsets = table["offset"].to_numpy()
    # usually they are in order
    return table if (offsets[1:] >= offsets[:-1]).all() else table.take(pc.sort_indices(table["offset"]))


def forgeable_before(table: pa.Table, reach: int) -> pa.Table:
    """Return a table with the records before a byte of the file marked as forgeable."""
    at = table.schema.get_field_index("forgeable")
    if at < 0 or not len(table) or table["offset"][0].as_py() >= reach:
        return table
    return table.set_column(at, "forgeable", pc.or_(table["forgeable"], pc.less(table["offset"], reach)))


def as_bytes(table: pa.Table) -> pa.Buffer:
    """Return a table as bytes to send to another process."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def from_bytes(body: pa.Buffer) -> pa.Table:
    """Return the table that another process sent."""
    with pa.ipc.open_stream(body) as stream:
        return stream.read_all()
