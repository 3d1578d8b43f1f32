"""The `print fmt` of an event, compiled: a record's bytes -> the text after the event's name in the trace.

The kernel compiles the same text as C; here it comes from the `format` file.  Sources: include/trace/stages/
stage3_trace_output.h, trace_print_*_seq() in kernel/trace/trace_output.c (6.1); fixtures/static.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from kprobe_sim.records.field import Field
from kprobe_sim.text.c_expression import Braces, CFunction, NotEvaluable, Parser, number, tokens
from kprobe_sim.text.c_value import Array, Compiled, CValue
from kprobe_sim.text.printk import Pointers, compile_format

_MASK = (1 << 64) - 1
_LOCATION = struct.Struct("<HH")
_Argument = Compiled | Braces | str


def compile_print_fmt(text: str, fields: Sequence[Field], pointers: Pointers) -> Callable[[bytes], bytes]:
    """Return the function that makes a record's text.  Raises NotEvaluable if it needs more than the record."""
    by_name = {field.name: field for field in fields}

    def field(name: str) -> Compiled:
        if name not in by_name:
            raise NotEvaluable(f"no field {name}")
        return read_field(by_name[name])

    parser = Parser(tokens(text), field, _functions(by_name))
    format_text = parser.string()
    if format_text is None:
        raise NotEvaluable("no format")
    printf = compile_format(format_text, pointers)
    values = []
    while parser.take(","):
        values.append(parser.expression())
    if not parser.at_end:
        raise NotEvaluable("more than a format and its arguments")
    return lambda record: printf(value(record) for value in values)


def print_fmt_of(format_file: str) -> str:
    """Return the `print fmt` of a format file's text."""
    return format_file.partition("\nprint fmt: ")[2].rstrip("\n")


def read_field(field: Field) -> Compiled:
    """Return the reader of REC->FIELD: a number, the bytes of an array, or the word that locates the data."""
    kind, start, size, signed = field.type, field.offset, field.size, field.signed
    if "[" in kind and not kind.startswith(("__data_loc", "__rel_loc")):
        end = start + size if size else None
        return Array(lambda record: record[start:end], element_size(kind), signed)
    if size not in (1, 2, 4, 8):  # a structure: only the kernel's code knows what its bytes mean
        return lambda record: record[start : start + size]
    return lambda record: int.from_bytes(record[start : start + size], "little", signed=signed)


def element_size(kind: str) -> int:
    """Return the bytes of one element of an array type."""
    base = kind.partition("[")[0].split()
    if base[-1] in ("char", "u8", "__u8", "s8", "uint8_t", "bool"):
        return 1
    if base[-1] in ("short", "u16", "__u16", "s16"):
        return 2
    if base[-1] in ("long", "u64", "__u64", "s64", "*", "size_t") or base[-1].endswith("*"):
        return 8
    return 4


def dynamic(field: Field, record: bytes) -> bytes:
    """Return the data that a __data_loc or __rel_loc field points to."""
    start, length = _LOCATION.unpack_from(record, field.offset)
    if field.type.startswith("__rel_loc"):
        start += field.offset + field.size
    return record[start : start + length]


def _functions(fields: Mapping[str, Field]) -> dict[str, CFunction]:
    def located(argument: _Argument) -> Field:
        field = fields.get(argument) if isinstance(argument, str) else None
        if field is None:
            raise NotEvaluable(f"no field {argument!r}")
        return field

    def data(arguments: Sequence[_Argument]) -> Compiled:
        field = located(arguments[0])
        return Array(lambda record: dynamic(field, record), 1, False)

    def length(arguments: Sequence[_Argument]) -> Compiled:
        field = located(arguments[0])
        return lambda record: len(dynamic(field, record))

    def bitmask(arguments: Sequence[_Argument]) -> Compiled:
        field = located(arguments[0])
        return lambda record: _bitmask(dynamic(field, record))

    def dynamic_array(arguments: Sequence[_Argument]) -> Compiled:
        field, size = located(arguments[0]), _value(arguments[1])
        return lambda record: _array(dynamic(field, record), None, number(size(record)))

    return {
        "__get_str": data,
        "__get_rel_str": data,
        "__get_dynamic_array": data,
        "__get_rel_dynamic_array": data,
        "__get_sockaddr": data,
        "__get_dynamic_array_len": length,
        "__get_rel_dynamic_array_len": length,
        "__get_bitmask": bitmask,
        "__get_cpumask": bitmask,
        "__print_flags": _flags,
        "__print_flags_u64": _flags,
        "__print_symbolic": _symbolic,
        "__print_symbolic_u64": _symbolic,
        "__print_hex": lambda arguments: _hex(arguments, " "),
        "__print_hex_str": lambda arguments: _hex(arguments, ""),
        "__print_array": _print_array,
        "__print_dynamic_array": dynamic_array,
        "__builtin_expect": lambda arguments: _value(arguments[0]),
        "__builtin_constant_p": lambda arguments: lambda _: 0,
    }


def _value(argument: _Argument) -> Compiled:
    if isinstance(argument, str | list):
        raise NotEvaluable(f"{argument!r} isn't a value")
    return argument


def _table(arguments: Sequence[_Argument]) -> list[tuple[int, bytes]]:
    table = []
    for argument in arguments:
        if not isinstance(argument, list) or not argument:
            raise NotEvaluable("no table of values and names")
        pairs = argument if isinstance(argument[0], list) else [argument]  # {v, n}, … or {{v, n}, …}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2 or not all(callable(item) for item in pair):
                raise NotEvaluable("no pair of value and name")
            value, name = (item(b"") for item in pair if callable(item))
            if isinstance(name, bytes):
                table.append((number(value) & _MASK, name))
    return table


def _flags(arguments: Sequence[_Argument]) -> Compiled:
    value, delimiter, table = _value(arguments[0]), _value(arguments[1]), _table(arguments[2:])

    def text(record: bytes) -> CValue:
        flags = number(value(record)) & _MASK
        separator = delimiter(record)
        return flags_text(flags, separator if isinstance(separator, bytes) else b"", table)

    return text


def flags_text(flags: int, separator: bytes, table: Sequence[tuple[int, bytes]]) -> bytes:
    """Return the names of the flags that are set, and the nameless ones in hex (trace_print_flags_seq)."""
    names = []
    for mask, name in table:
        if not flags:
            break
        if flags & mask == mask:
            names.append(name)
            flags &= ~mask
    if flags:
        names.append(b"0x%x" % flags)
    return separator.join(names)


def _symbolic(arguments: Sequence[_Argument]) -> Compiled:
    value, table = _value(arguments[0]), _table(arguments[1:])
    names = dict(reversed(table))

    def text(record: bytes) -> CValue:
        key = number(value(record)) & _MASK
        name = names.get(key)
        return b"0x%x" % key if name is None else name

    return text


def _hex(arguments: Sequence[_Argument], separator: str) -> Compiled:
    data, count = _value(arguments[0]), _value(arguments[1])

    def text(record: bytes) -> CValue:
        content = data(record)
        if isinstance(content, int):
            raise NotEvaluable("bytes at a pointer")
        return separator.join(f"{byte:02x}" for byte in content[: number(count(record))]).encode()

    return text


def _print_array(arguments: Sequence[_Argument]) -> Compiled:
    data, count, size = (_value(argument) for argument in arguments)

    def text(record: bytes) -> CValue:
        content = data(record)
        if isinstance(content, int):
            raise NotEvaluable("an array at a pointer")
        return _array(content, number(count(record)), number(size(record)))

    return text


def _array(data: bytes, count: int | None, size: int) -> bytes:
    if count is None:
        count = len(data) // size
    values = [int.from_bytes(data[index * size : (index + 1) * size], "little") for index in range(count)]
    return b"{" + b",".join(b"0x%x" % value for value in values) + b"}"


def _bitmask(data: bytes) -> bytes:
    """Return a mask in hex (%*pb)."""
    return b"%x" % int.from_bytes(data, "little")
