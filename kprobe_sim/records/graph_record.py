"""Records of the tracer function_graph: one at the entry of a call, and one at its return."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.records.field import Field

# For kernels without format files: trace.h and trace_entries.h of 3.2.4 to 4.4.11.  4.19.108 has other offsets for some
# fields, which nobody sees while its formats aren't known.
_ENTRY_TYPE, _RETURN_TYPE = 11, 10
_ENTRY = (Field("unsigned long", "func", 8, 8, False), Field("int", "depth", 16, 4, True))
_RETURN = (
    Field("unsigned long", "func", 8, 8, False),
    Field("unsigned long long", "calltime", 16, 8, False),
    Field("unsigned long long", "rettime", 24, 8, False),
    Field("unsigned long", "overrun", 32, 8, False),
    Field("int", "depth", 40, 4, True),
)
_HEAD = struct.Struct("<HBBi")
_CODES = {4: "I", 8: "Q"}
_MASK = (1 << 64) - 1


class Left(NamedTuple):
    """The contents of a record of a return; times are in ns."""

    function: int
    depth: int
    overrun: int
    duration: int


class _Form:
    """The layout of the records of one type."""

    def __init__(self, kind: int, fields: Sequence[Field], names: Sequence[str]) -> None:
        self.kind = kind
        known = sorted([field for field in fields if field.name in names], key=lambda field: field.offset)
        layout, end = "<", _HEAD.size
        for field in known:
            layout += f"{field.offset - end}x{_CODES[field.size]}"
            end = field.offset + field.size
        self._struct = struct.Struct(layout)
        order = [field.name for field in known]
        self._order = [names.index(name) for name in order]  # of the values
        self._positions = [order.index(name) for name in names]

    def pack(self, flags: int, preempt_count: int, pid: int, values: Sequence[int]) -> bytes:
        """Make a record of values in the order of the names."""
        head = _HEAD.pack(self.kind, flags, preempt_count, pid)
        return head + self._struct.pack(*[values[index] for index in self._order])

    def unpack(self, data: bytes) -> list[int]:
        """Return the values of a record, in the order of the names."""
        values = self._struct.unpack_from(data, _HEAD.size)
        return [values[position] for position in self._positions]


class GraphRecords:
    """How one kernel lays out the two records, by the ids and fields of their formats; None if unknown."""

    def __init__(
        self, entry: tuple[int, Iterable[Field]] | None = None, returned: tuple[int, Iterable[Field]] | None = None
    ) -> None:
        entry_type, entry_fields = entry or (_ENTRY_TYPE, _ENTRY)
        return_type, return_fields = returned or (_RETURN_TYPE, _RETURN)
        self.entry_type, self.return_type = entry_type, return_type
        self._entry = _Form(entry_type, tuple(entry_fields), ("func", "depth"))
        self._return = _Form(return_type, tuple(return_fields), ("func", "depth", "overrun", "calltime", "rettime"))

    def entry(self, context: tuple[int, int], pid: int, function: int, depth: int) -> bytes:
        """Make the record of an entry; `context`: flags and preemption depth."""
        return self._entry.pack(*context, pid, (function, depth))

    def left(self, data: bytes) -> Left:
        """Read the record of a return."""
        function, depth, overrun, called, returned = self._return.unpack(data)
        return Left(function, depth, overrun, (returned - called) & _MASK)

    def entered(self, data: bytes) -> tuple[int, int]:
        """Read the record of an entry: function and depth."""
        function, depth = self._entry.unpack(data)
        return function, depth

    def returned(
        self, context: tuple[int, int], pid: int, function: int, depth: int, overrun: int, times: tuple[int, int]
    ) -> bytes:
        """Make the record of a return; `times` are those of call and return in ns."""
        return self._return.pack(*context, pid, (function, depth, overrun, *times))
