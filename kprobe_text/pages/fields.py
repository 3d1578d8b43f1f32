"""Layouts of events -> functions that read a record's fields from the bytes of a page, compiled for speed."""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from kprobe_text.pages.bounds import READERS
from kprobe_text.pages.layout import EventLayout, FieldLayout
from kprobe_text.text.records import FAULT, Value

Read: TypeAlias = Callable[[bytes, int, int], tuple[Any, ...]]
"""(bytes, start, end) of a record -> common flags, preemption count, pid, address, caller, fields by name."""

Reader: TypeAlias = Callable[[bytes, int, int], Value]
Readers: TypeAlias = dict[tuple[FieldLayout, bool], Reader]
"""What reads a field, by its layout and whether its event is a probe's."""

CHARACTERS: Final = tuple(bytes([number]).decode("utf-8", "surrogateescape") for number in range(256))
_CODES: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
_LONGEST: Final = 1 << 20  # bytes; no record is as long
# A record with more locations than this is checked first: all may point to the same bytes.
_FEW: Final = 4
_COMMON: Final = ("common_flags", "common_preempt_count", "common_pid")


class BrokenRecord(Exception):
    """A record that ends before its fields do, or a field that lies outside it."""


class Compiled(NamedTuple):
    """What reads an event: ``complete`` raises BrokenRecord; ``partly`` gives what can be read, and never raises it."""

    layout: EventLayout
    complete: Read
    partly: Read


def text_of(data: bytes) -> str:
    """Return the text before the first NUL, which can be turned back into the bytes."""
    end = data.find(b"\0")
    return (data if end < 0 else data[:end]).decode("utf-8", "surrogateescape")


def _code(field: FieldLayout) -> str:
    code = _CODES[field.item]
    return code if field.signed else code.upper()


def _elements(field: FieldLayout, order: str, symbol: Callable[[int], Value]) -> Callable[[bytes], Value]:
    """Return a function from the bytes of an array or an element to its value."""
    if field.kind == "bytes":
        return tuple
    if field.kind == "char":
        return lambda data: tuple(CHARACTERS[byte] for byte in data)
    code, item = _code(field), field.item

    def numbers(data: bytes) -> Value:
        count = len(data) // item
        found = struct.unpack_from(f"{order}{count}{code}", data)
        return tuple(symbol(number) for number in found) if field.kind == "symbol" else found

    return numbers


def _reader(field: FieldLayout, order: str, symbol: Callable[[int], Value], *, is_probe: bool) -> Callable[..., Value]:
    """Return a function of (bytes, start, end) of a record that reads one field of it; it raises BrokenRecord."""
    base = field.offset + 4 if field.where == "rel_loc" else 0
    offset, size, where = field.offset, field.size, field.where
    location = struct.Struct(f"{order}I")

    def bytes_of(data: bytes, start: int, end: int) -> bytes:
        begin = start + offset
        if begin + (0 if where == "rest" else size) > end:
            raise BrokenRecord
        if where == "rest":
            return data[begin:end]
        if where == "inline":
            return data[begin : begin + size]
        at, length = start + base + ((word := location.unpack_from(data, begin)[0]) & 0xFFFF), word >> 16
        if at + length > end:
            raise BrokenRecord
        return data[at : at + length]

    if field.kind == "string":
        if field.elements is not None:
            # each has its location, and all offsets count from the record's start
            element = FieldLayout(field.name, offset, 4, "string", False, 4, None, where)
            readers = [
                _reader(element._replace(offset=offset + 4 * i), order, symbol, is_probe=is_probe)
                for i in range(field.elements)
            ]
            return lambda data, start, end: tuple(read(data, start, end) for read in readers)
        if where in ("data_loc", "rel_loc") and is_probe:
            # nothing, not even a NUL: the kernel couldn't read it, and prints (fault)
            return lambda data, start, end: text_of(d) if (d := bytes_of(data, start, end)) else FAULT
        return lambda data, start, end: text_of(bytes_of(data, start, end))
    values = _elements(field, order, symbol)
    if field.elements is None:
        return lambda data, start, end: values(bytes_of(data, start, end))[0]  # type: ignore[index]  # of one element
    return lambda data, start, end: values(bytes_of(data, start, end))


def compiled(
    layout: EventLayout, order: str, symbol: Callable[[int], Value], readers: Readers | None = None
) -> Compiled:
    """Compile a layout; ``order`` is ``<`` or ``>``, ``symbol`` turns an address into its symbol, or into a number.

    ``readers`` are shared by events with the same fields.  Raises ValueError if fields overlap or lie where no record
    reaches, or if there are more than `kprobe_text.pages.bounds` allows.
    """
    readers = {} if readers is None else readers
    common = {field.name: field for field in layout.common}
    addresses = [field for field in (layout.address, layout.caller) if field is not None]
    leading = [common[name] for name in _COMMON if name in common]
    if "common_type" not in common or len(leading) < len(_COMMON):
        raise ValueError(
            f"the format of {layout.name} lacks a common field: {', '.join(sorted(common)) or 'all of them'}"
        )
    for field in (common["common_type"], *leading, *addresses):
        if field.kind != "int" or field.elements is not None or field.where != "inline":
            raise ValueError(f"the format of {layout.name} says that {field.name} is no number")
    if common["common_type"].size != 2:
        raise ValueError(f"the format of {layout.name} says that common_type has {common['common_type'].size} bytes")
    _check_offsets(layout, [*layout.common, *addresses, *layout.fields])
    single: dict[str, Reader] = {}
    for field in (*leading, *addresses, *layout.fields):
        key = field, layout.is_probe
        if (reader := readers.get(key)) is None:
            if len(readers) == READERS:
                raise ValueError(f"more than {READERS} fields differ from each other")
            reader = readers[key] = _reader(field, order, symbol, is_probe=layout.is_probe)
        single[field.name] = reader
    located = [field for field in layout.fields if field.where in ("data_loc", "rel_loc")]
    shares = _shares(located, order) if sum(field.size for field in located) > 4 * _FEW else None
    plan = _Plan(layout, leading, addresses, located, single, shares)
    return Compiled(layout, _whole(plan, order, symbol), _partly(plan))


class _Plan(NamedTuple):
    """The plan from which an event's two readers are made.

    ``leading``: the common fields that every record shows.  ``addresses``: the fields of the probed address and the
    caller.  ``located``: fields with data elsewhere in the record.  ``readers``: the reader of each field, by name.
    ``shares`` says whether locations point to the same bytes; None where there are too few to matter.
    """

    layout: EventLayout
    leading: list[FieldLayout]
    addresses: list[FieldLayout]
    located: list[FieldLayout]
    readers: Mapping[str, Reader]
    shares: Callable[[bytes, int, int], bool] | None


def _partly(plan: _Plan) -> Read:
    """Return the function that reads each field separately, and leaves out those that can't be read."""

    def partly(data: bytes, start: int, end: int) -> tuple[Any, ...]:
        values: dict[str, Value | None] = {}
        left_out = {field.name for field in plan.located} if plan.shares and plan.shares(data, start, end) else ()
        for name, read in plan.readers.items():
            if name in left_out:
                continue
            try:
                values[name] = read(data, start, end)
            except BrokenRecord:
                continue
        head = [values.pop(name, 0) for name in _COMMON]
        addresses = [values.pop(field.name, None) for field in plan.addresses]
        return (*head, *[*addresses, None, None][:2], values)

    return partly


def _check_offsets(layout: EventLayout, fields: list[FieldLayout]) -> None:
    """Raise ValueError if a field lies where no record reaches, or overlaps another."""
    before = 0
    for field in sorted(fields, key=lambda field: field.offset):
        if field.offset + field.size > _LONGEST:
            raise ValueError(f"the format of {layout.name} puts {field.name} at {field.offset}, out of every record")
        if field.where == "rest":
            continue
        if field.offset < before:
            raise ValueError(f"the format of {layout.name} says that {field.name} overlaps another field")
        before = field.offset + field.size


def _shares(located: list[FieldLayout], order: str) -> Callable[[bytes, int, int], bool]:
    """Return a check whether a record's locations cover more bytes than it has, so that they overlap."""
    words = [(field.offset, struct.Struct(f"{order}{field.size // 4}I")) for field in located]

    def shares(data: bytes, start: int, end: int) -> bool:
        read = [word.unpack_from(data, start + at) for at, word in words if start + at + word.size <= end]
        length: int = sum(location >> 16 for locations in read for location in locations)
        return length > 2 * (end - start)

    return shares


def _whole(plan: _Plan, order: str, symbol: Callable[[int], Value]) -> Read:
    """Write the function that reads all fields: one call of a Struct, and a literal dict."""
    layout, leading, addresses = plan.layout, plan.leading, plan.addresses
    code, position, names = order, 0, []
    values: dict[str, str] = {}
    for field in sorted((*leading, *addresses, *layout.fields), key=lambda field: field.offset):
        variable = f"a{len(values)}"
        simple = field.where == "inline" and field.elements is None and field.kind != "string"
        simple = simple or (field.where == "data_loc" and field.elements is None and field.kind == "string")
        if not simple:
            values[field.name] = f"single[{field.name!r}](data, start, end)"
            continue
        code += f"{field.offset - position}x" + ("I" if field.where == "data_loc" else _code(field))
        position = field.offset + field.size
        names.append(variable)
        if field.where == "data_loc":
            empty = "FAULT" if layout.is_probe else "''"
            values[field.name] = (
                f"string(data, start + ({variable} & 65535), {variable} >> 16, end) if {variable} >> 16 else {empty}"
            )
        else:
            values[field.name] = {"char": f"CHARACTERS[{variable}]", "symbol": f"symbol({variable})"}.get(
                field.kind, variable
            )
    if len(values) != len(leading) + len(addresses) + len(layout.fields):
        raise ValueError(f"the format of {layout.name} has two fields of one name")
    head = ", ".join(values[field.name] for field in leading)
    shown = ", ".join(([values[field.name] for field in addresses] + ["None", "None"])[:2])
    items = ", ".join(f"{field.name!r}: {values[field.name]}" for field in layout.fields)
    # the names are words (format) in quotes; nothing else comes from outside
    source = f"""
def read(data, start, end):
    if end - start < {max(layout.size, position)}{" or shares(data, start, end)" * (plan.shares is not None)}:
        raise BrokenRecord
    {", ".join(names)}, = unpack_from(data, start)
    return {head}, {shown}, {{{items}}}
"""
    scope: dict[str, Any] = {
        "unpack_from": struct.Struct(code).unpack_from, "single": plan.readers, "string": _string, "symbol": symbol,
        "shares": plan.shares, "CHARACTERS": CHARACTERS, "FAULT": FAULT, "BrokenRecord": BrokenRecord,
    }  # fmt: skip
    exec(source, scope)
    read: Read = scope["read"]
    return read


def _string(data: bytes, at: int, size: int, end: int) -> str:
    after = at + size
    if after > end:
        raise BrokenRecord
    nul = data.find(b"\0", at, after)
    return data[at : after if nul < 0 else nul].decode("utf-8", "surrogateescape")
