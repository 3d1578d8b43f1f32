"""The types of an event's arguments, from its format file."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from kprobe_text.text import parse_format
from kprobe_text.text.arguments import arguments_of
from kprobe_text.text.descriptions import Formats, format_text


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
