"""The record of a static event: values by the names of its fields -> bytes, laid out as its format file says.

Sources: include/trace/stages/stage5_get_offsets.h and stage6_event_callback.h (6.1); fixtures/static.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from kprobe_sim.events.event import StaticEvent
from kprobe_sim.records.field import Field
from kprobe_sim.text.print_fmt import element_size

FieldValue = int | str | bytes | Iterable[int]
Intern = Callable[[bytes], int]  # one of the kernel's strings -> its address

_HEAD = 8  # the common fields
_ALIGNED = (1, 2, 4, 8)


class Layout:
    """Where the fields of one static event lie."""

    def __init__(self, event: StaticEvent) -> None:
        self.name = f"{event.system}/{event.name}"
        self.fields = tuple(event.filter_fields())
        ends = [field.offset + field.size for field in self.fields]
        self.end = max([_HEAD, *ends])  # where data of variable length begins
        align = max([4, *(_alignment(field) for field in self.fields)])
        is_syscall = event.system == "syscalls"
        self._size = self.end if is_syscall and self.is_dynamic else -(-self.end // align) * align
        if is_syscall:
            self._size = max(self._size, 16)  # struct syscall_trace_enter ends in an array of longs

    @property
    def is_dynamic(self) -> bool:
        """True if the record has data of variable length."""
        return any(_is_location(field) for field in self.fields)

    def pack(self, head: bytes, values: Mapping[str, FieldValue], intern: Intern) -> bytes:
        """Return a record; a field without value is zero, or an empty string.

        Raises ValueError for a name that isn't a field's, or a value that doesn't fit its field.
        """
        known = {field.name for field in self.fields}
        for name in values:
            if name not in known:
                names = ", ".join(field.name for field in self.fields) or "none"
                raise ValueError(f"{self.name} has no field {name!r}; its fields: {names}")
        record = bytearray(self._size)
        record[:_HEAD] = head
        data = b""
        for field in self.fields:
            value = values.get(field.name, 0)
            try:
                if _is_location(field):
                    piece = _dynamic(field, value)
                    start = self.end + len(data)
                    base = field.offset + field.size if field.type.startswith("__rel_loc") else 0
                    record[field.offset : field.offset + 4] = (len(piece) << 16 | start - base).to_bytes(4, "little")
                    data += piece
                elif not field.size:
                    data += _text(value) + b"\0"
                else:
                    record[field.offset : field.offset + field.size] = _fixed(field, value, intern)
            except (TypeError, OverflowError) as error:
                raise ValueError(f"{self.name}: {value!r} is no value of {field.type} {field.name}") from error
        if not data:
            return bytes(record)
        # the record has room for the padded structure and the data, which begins before the padding
        return bytes(record[: self.end]) + data.ljust(self._size - self.end + len(data), b"\0")


layout_of = lru_cache(maxsize=1024)(Layout)  # an event is the same object for all kernels of a build


def _alignment(field: Field) -> int:
    if _is_location(field):
        return 4
    size = element_size(field.type) if "[" in field.type else field.size
    return size if size in _ALIGNED else 4


def _is_location(field: Field) -> bool:
    return field.type.startswith(("__data_loc", "__rel_loc"))


def _text(value: FieldValue) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return value
    if not value:
        return b""
    raise TypeError("no text")


def _dynamic(field: Field, value: FieldValue) -> bytes:
    kind = field.type.split(None, 1)[1]
    if isinstance(value, str):
        return _text(value) + b"\0"
    if isinstance(value, bytes):
        return value
    if isinstance(value, int):
        if value:
            raise TypeError("a number")
        return b"\0" if kind.startswith("char") else b""
    size = element_size(kind)
    return b"".join(_number(one, size) for one in value)


def _fixed(field: Field, value: FieldValue, intern: Intern) -> bytes:
    size = field.size
    if "[" in field.type:
        found = _elements(field, value)
        if len(found) > size:
            raise TypeError("too long")
        return found.ljust(size, b"\0")
    if isinstance(value, str) and field.type.endswith("*"):
        value = intern(_text(value))
    if isinstance(value, int):
        return _number(value, size)
    if isinstance(value, bytes) and len(value) == size:
        return value
    raise TypeError("no number")


def _elements(field: Field, value: FieldValue) -> bytes:
    """Return the contents of an array: a text, cut so that its NUL fits, as strscpy() does, or numbers."""
    if isinstance(value, str):
        return _text(value)[: field.size - 1]
    if isinstance(value, bytes):
        return value
    if isinstance(value, int):
        if value:
            raise TypeError("a number")
        return b""
    width = element_size(field.type)
    return b"".join(_number(one, width) for one in value)


def _number(value: int, size: int) -> bytes:
    bits = 8 * size
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise OverflowError("too big")
    return (value & (1 << bits) - 1).to_bytes(size, "little")
