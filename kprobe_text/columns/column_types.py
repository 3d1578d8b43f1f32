"""The types of columns, and what happens where one type can't hold all values.

A number is int64, or uint64 from 2^63 on, or decimal where a column has both negative and such large numbers; with the
event's format it has the type that the format says.  A column that holds numbers and texts, or some arrays, is text:
numbers in decimal, arrays as JSON.  Text is UTF-8; a byte that isn't is ``\\xNN`` (the row's ``raw`` then holds the
bytes).  null: the kernel couldn't read the value, or the record doesn't have the argument.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kprobe_text.text import FAULT, CodeAddress, Value, parse_format
from kprobe_text.text.arguments import arguments_of
from kprobe_text.text.descriptions import Formats, format_text

ARGUMENT: Final = "arg_"
"""The prefix of an argument's column, so that an argument called ``pid`` doesn't clash with the pid's column."""

LABEL: Final = pa.dictionary(pa.int32(), pa.string())  # a text that few values repeat
CONTEXT: Final = (
    ("file", LABEL),
    ("offset", pa.int64()),
    ("task", LABEL),
    ("pid", pa.int64()),
    ("tgid", pa.int64()),
    ("cpu", pa.int32()),
    ("flags", LABEL),
    ("timestamp", pa.int64()),
    ("clock", LABEL),
)
EVENT: Final = pa.schema(
    [
        *CONTEXT, ("address", LABEL), ("caller", LABEL), ("group", LABEL), ("instance", LABEL),
        ("complete", pa.bool_()), ("guessed", pa.list_(pa.string())), ("forgeable", pa.bool_()),
        ("raw", pa.binary()),
    ]
)  # fmt: skip
STACK: Final = pa.schema(
    [
        *CONTEXT, ("user", pa.bool_()), ("frames", pa.list_(pa.string())), ("forgeable", pa.bool_()),
        ("complete", pa.bool_()),
    ]
)  # fmt: skip
MARKER: Final = pa.schema(
    [
        *CONTEXT, ("text", pa.string()), ("identifier", pa.int64()), ("data", pa.binary()), ("forgeable", pa.bool_()),
        ("complete", pa.bool_()),
    ]
)  # fmt: skip
LOST: Final = pa.schema(
    [
        ("file", LABEL), ("offset", pa.int64()), ("type", LABEL), ("cpu", pa.int64()), ("count", pa.uint64()),
        ("forgeable", pa.bool_()),
    ]
)  # fmt: skip
UNPARSED: Final = pa.schema([("file", LABEL), ("offset", pa.int64()), ("raw", pa.binary())])
OTHER: Final = pa.schema([("file", LABEL), ("offset", pa.int64()), ("type", LABEL), ("json", pa.string())])

_DECIMAL: Final = pa.decimal128(38, 0)


def escaped(text: str) -> str:
    """Return a text of the kernel as UTF-8: a byte that isn't UTF-8 becomes ``\\xNN``."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text


def plain(value: Value | None) -> Any:
    """Return a value as a column holds it: a code address as text, None for what the kernel couldn't read."""
    if isinstance(value, CodeAddress):
        return escaped(value.text)
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    return None if value is FAULT else value


def natural(values: Iterable[Any]) -> pa.DataType:
    """Return the type that holds all of some plain values."""
    found = pa.null()
    numbers: list[int] = []
    for value in values:
        if value is None:
            continue
        if isinstance(value, list):
            inner = natural(value)
            kind = pa.string() if isinstance(inner, pa.ListType) else pa.list_(inner)
        elif isinstance(value, int):
            numbers.append(value)
            kind = pa.int64()
        else:
            kind = pa.string()
        if found != kind:
            found = joined(found, kind)
    return integer(min(numbers), max(numbers)) if numbers and found == pa.int64() else found


def integer(low: int, high: int) -> pa.DataType:
    """Return the type of numbers within two bounds."""
    if high < 1 << 63:
        return pa.int64() if low >= -(1 << 63) else _DECIMAL
    return pa.uint64() if low >= 0 and high < 1 << 64 else _DECIMAL


def joined(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return the type for values of any two types."""
    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if _is_number(first) and _is_number(second):
        if pa.types.is_integer(first) and pa.types.is_integer(second):
            signed = [kind for kind in (first, second) if pa.types.is_signed_integer(kind)]
            unsigned = [kind for kind in (first, second) if pa.types.is_unsigned_integer(kind)]
            if not unsigned or not signed:
                return max(first, second, key=lambda kind: kind.bit_width)
            return pa.int64() if unsigned[0].bit_width < 64 else _DECIMAL
        return _DECIMAL
    if pa.types.is_list(first) and pa.types.is_list(second):
        return pa.list_(joined(first.value_type, second.value_type))
    return pa.string()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def as_type(column: Any, kind: pa.DataType) -> Any:
    """Cast a column to a type that `joined` returned."""
    if column.type == kind:
        return column
    if pa.types.is_dictionary(kind):
        return pa.nulls(len(column), kind) if pa.types.is_null(column.type) else column.dictionary_encode()
    if pa.types.is_list(column.type) and pa.types.is_string(kind):
        texts = [None if value is None else json.dumps(value, default=int) for value in column.to_pylist()]
        return pa.array(texts, kind)
    if pa.types.is_list(column.type) and _texts(kind) and not _texts(column.type):
        values = [None if value is None else [_text(part) for part in value] for value in column.to_pylist()]
        return pa.array(values, kind)
    if pa.types.is_decimal(kind) and column.type == pa.uint64():
        return pa.array(column.to_pylist(), kind)  # the library's own cast refuses the largest
    if pa.types.is_decimal(column.type) and pa.types.is_string(kind):
        return pa.array([_text(value) for value in column.to_pylist()], kind)
    return column.cast(kind)


def _texts(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_string(kind.value_type))


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else str(int(value))


def array(values: Sequence[Any], declared: pa.DataType | None = None) -> Any:
    """Return plain values as a column: of the declared type if it holds them, else of one that does."""
    if declared is not None:
        try:
            return pa.array(values, declared)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass  # the format's type isn't the printed one
    if declared is not None and pa.types.is_string(declared):
        # a code address without a symbol is a number
        return pa.array([hex(value) if isinstance(value, int) else _flat(value) for value in values], declared)
    kind = natural(values)
    if _texts(kind):
        return pa.array([value if value is None else [_text(part) for part in value] for value in values], kind)
    return pa.array([_flat(value) for value in values] if pa.types.is_string(kind) else values, kind)


def _flat(value: Any) -> Any:
    """Give a value of a column that is text."""
    return json.dumps(value) if isinstance(value, list) else _text(value)


def has_negative(column: Any) -> bool:
    """Say whether a column of numbers has one below zero."""
    if not pa.types.is_signed_integer(column.type):
        return False
    least = pc.min(column).as_py()
    return least is not None and least < 0


def declared_types(formats: Formats | None, name: str) -> Mapping[str, pa.DataType]:
    """Give the types of an event's arguments; none without a format that can be read."""
    text = format_text(formats, name)
    try:
        form = parse_format(text or "")
    except ValueError:
        return {}
    arguments = arguments_of(form.print_fmt)
    if arguments is None:
        return {}
    fields = {field.name: field for field in form.fields}
    types = {}
    for argument, printed in arguments.items:
        element = printed.strip("{}").partition(",")[0]
        count = printed.count(",") + 1
        if '"' in element or "'" in element or element == "%pS":
            kind = pa.string()
        elif argument in fields:
            field = fields[argument]
            kind = integer_of(field.size // count, field.signed)
        else:
            continue
        types[argument] = pa.list_(kind) if printed.startswith("{") else kind
    return types


def integer_of(size: int, signed: bool) -> pa.DataType:
    """Give the type of a number by its size in bytes; that of any if there is none of this size."""
    sizes = {1: (pa.uint8(), pa.int8()), 2: (pa.uint16(), pa.int16()), 4: (pa.uint32(), pa.int32())}
    return sizes.get(size, (pa.uint64(), pa.int64()))[signed]
