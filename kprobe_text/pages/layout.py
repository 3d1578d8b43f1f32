"""The position and type of each field in an event's record, from its format file."""

import re
from typing import Final, Literal, NamedTuple, TypeAlias

from kprobe_text.pages.bounds import ENDLESS, FIELDS, FORMAT, LOCATIONS, NAME
from kprobe_text.text.format import Format, FormatField, parse_format

Kind: TypeAlias = Literal["int", "char", "symbol", "string", "bytes"]
"""The kind of a field, or of an array's elements.

``int``: a number, pointer or enum.  ``char``: one character, which a probe prints as ``'%c'``.  ``symbol``:
an address that a probe prints as ``%pS``.  ``string``: bytes up to the first NUL.  ``bytes``: anything else, such as a
struct.
"""

Where: TypeAlias = Literal["inline", "data_loc", "rel_loc", "rest"]
"""Where a field's data is.

``inline``: at its offset.  ``data_loc``: at its offset is u32 length << 16 | offset from the record's start;
``rel_loc``: the same, but the offset counts from the end of that u32.  ``rest``: from its offset to the record's end.
"""


class FieldLayout(NamedTuple):
    """One field of a record; offsets and sizes are in bytes.

    ``item`` is the size of an element, or of the number itself.  ``elements`` is None unless it is an array, and 0
    for an array whose length is in the record (``data_loc``, ``rel_loc``, ``rest``); a string's bytes aren't elements.
    """

    name: str
    offset: int
    size: int
    kind: Kind
    signed: bool
    item: int
    elements: int | None
    where: Where


class EventLayout(NamedTuple):
    """One event: the fields that all events have (``common_…``), and its other fields, in the file's order.

    ``fields`` exclude the probed ``address`` and, for a return probe, the ``caller``.  ``size`` is the least length of
    its records; ``is_probe`` says that its fields are those of a probe.
    """

    name: str
    id: int
    common: tuple[FieldLayout, ...]
    fields: tuple[FieldLayout, ...]
    address: FieldLayout | None
    caller: FieldLayout | None
    size: int
    is_probe: bool


_LOCATIONS: Final[dict[str, Where]] = {"__data_loc": "data_loc", "__rel_loc": "rel_loc"}
_LOCATION: Final = 4  # bytes
_PLACES: Final = ("__probe_ip", "__probe_vaddr", "__probe_func")
_SIZES: Final = {
    1: {"char", "signed char", "unsigned char", "bool", "u8", "s8", "__u8", "__s8", "uint8_t", "int8_t"},
    2: {"short", "unsigned short", "u16", "s16", "__u16", "__s16", "uint16_t", "int16_t"},
    4: {"int", "unsigned", "unsigned int", "u32", "s32", "__u32", "__s32", "uint32_t", "int32_t"},
    8: {"long long", "unsigned long long", "u64", "s64", "__u64", "__s64", "uint64_t", "int64_t"},
}
_STACKS: Final = ("kernel_stack", "user_stack")  # any number of frames, though their files say 8
_NUMBERS: Final = (1, 2, 4, 8)  # sizes of numbers
# The arguments of a probe in its print fmt, with the first conversion of an array.
_SHOWN: Final = re.compile(r" (\w+)=\{?(\\\"%s\\\"|'%c'|%pS|(?:0x)?%\w+)")
_PROBE: Final = re.compile(r'"(?:\(%lx| \w+=|")')


def _item_size(declared: str, long: int) -> int | None:
    """Return the size of a C type; None where the name doesn't tell."""
    if declared.endswith("*") or declared in ("long", "unsigned long"):
        return long
    return next((size for size, names in _SIZES.items() if declared in names), None)


def _field(event: str, field: FormatField, shown: dict[str, str], long: int) -> FieldLayout:
    words = field.type.removeprefix("const ")
    first, _, located = words.partition(" ")
    where: Where = _LOCATIONS.get(first, "inline")
    elements: int | None
    if where != "inline":
        # a probe's array of strings has a location for each: `__data_loc char[] name[3]`
        declared = located.removesuffix("[]").strip()
        if declared == "char":
            elements = field.size // 4 if field.length else None
            return FieldLayout(field.name, field.offset, field.size, "string", False, 4, elements, where)
        item = _item_size(declared, long)
        kind: Kind = "bytes" if item is None else "int"
        return FieldLayout(field.name, field.offset, field.size, kind, field.signed, item or 1, 0, where)
    spec = shown.get(field.name, "")
    if field.length is None and field.size:
        if field.size not in _NUMBERS:
            return FieldLayout(field.name, field.offset, field.size, "bytes", False, 1, field.size, where)
        return FieldLayout(field.name, field.offset, field.size, _printed(spec), field.signed, field.size, None, where)
    if field.size == 0 or (field.name == "caller" and event in _STACKS):
        where = "rest"
    if words == "char" and not spec:
        return FieldLayout(field.name, field.offset, field.size, "string", False, 1, None, where)
    size = _item_size(words, long)
    length = field.length or ""  # `char buf` of no size is `char buf[]`, up to 4.14
    if length.isdigit() and int(length) and field.size % int(length) == 0 and field.size:
        size = field.size // int(length)  # the file's size takes precedence over the type's name
    if size not in _NUMBERS or field.size % size:
        return FieldLayout(field.name, field.offset, field.size, "bytes", False, 1, field.size, where)
    elements = 0 if where == "rest" else field.size // size
    return FieldLayout(field.name, field.offset, field.size, _printed(spec), field.signed, size, elements, where)


def _check(found: Format) -> None:
    """Raise ValueError if a format has more than an event can have."""
    if len(found.fields) > FIELDS:
        raise ValueError(f"its format has {len(found.fields)} fields, more than {FIELDS}")
    longest = max((found.name, *(field.name for field in found.fields)), key=len)
    if len(longest) > NAME:
        raise ValueError(f"its format has a name of {len(longest)} characters, more than {NAME}: {longest[:40]}...")
    located = [field for field in found.fields if field.type.removeprefix("const ").startswith(tuple(_LOCATIONS))]
    for field in located:
        if field.size < _LOCATION:
            raise ValueError(f"its format says that {field.name}, a location, has {field.size} bytes")
    count = sum(field.size // _LOCATION for field in located)
    if count > LOCATIONS:
        raise ValueError(f"its format has {count} locations, more than {LOCATIONS}")
    endless = sum(not field.size for field in found.fields)
    if endless > ENDLESS:
        raise ValueError(f"its format has {endless} fields without a size, more than {ENDLESS}")


def _printed(spec: str) -> Kind:
    return "char" if spec == "'%c'" else "symbol" if spec == "%pS" else "int"


def event_layout(text: str | bytes, *, long: int = 8) -> EventLayout:
    """Read a format file; ``long`` is the size of the kernel's long and pointers, which format files don't tell.

    Raises ValueError if it isn't a format file, or one beyond `kprobe_text.pages.bounds`.  Layouts of 3.2 to 7.3
    (fixtures/text/*/*.formats) are understood, and those of static events; a field that isn't a number, a string or an
    array of them is bytes.
    """
    if len(text) > FORMAT:
        raise ValueError(f"its format has {len(text)} bytes, more than {FORMAT}")
    found = parse_format(text)
    _check(found)
    is_probe = _PROBE.match(found.print_fmt) is not None
    shown = dict(_SHOWN.findall(found.print_fmt)) if is_probe else {}
    layouts = [_field(found.name, field, shown, long) for field in found.fields]
    common = tuple(field for field in layouts if field.name.startswith("common_"))
    own = [field for field in layouts if not field.name.startswith("common_")]
    address = next((field for field in own if field.name in _PLACES), None)
    caller = next((field for field in own if field.name == "__probe_ret_ip"), None) if address else None
    size = max((field.offset + field.size for field in layouts if field.where != "rest"), default=0)
    rest = tuple(field for field in own if field is not address and field is not caller)
    return EventLayout(found.name, found.id, common, rest, address, caller, size, is_probe)
