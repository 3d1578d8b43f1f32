"""The test of one term on a raw record: a closure per kind of field.

A test takes the record's bytes, the CPU and the name of the task that wrote it.  Source: filter_pred_*() and
filter_assign_type() in kernel/trace/trace_events_filter.c of 6.1 and 6.12; fixtures/filters.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from enum import Enum

from kprobe_sim.language.primitives.glob import Matcher
from kprobe_sim.records.field import Field

Test = Callable[[bytes, int, bytes], bool]
# The string at an address of kernel (False) or user memory (True); None for a fault.
ReadString = Callable[[int, bool], bytes | None]

_COMM_SIZE = 16  # TASK_COMM_LEN
_STRING_SIZE = 1024  # what a filter reads at a char pointer, with the final NUL
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "&": lambda have, want: have & want != 0,
}
_CODE = {1: "b", 2: "h", 4: "i", 8: "q"}
_LOCATION = struct.Struct("<HH")  # offset, length: a data_loc word


class Kind(Enum):
    """How a filter treats a field."""

    OTHER = "a number"
    STATIC_STRING = "char[N]"
    DYN_STRING = "__data_loc char[]"
    RDYN_STRING = "__rel_loc char[]"
    PTR_STRING = "char *"
    COMM = "the task's name"
    CPU = "the CPU"
    CPUMASK = "__data_loc cpumask_t[]"
    STACKTRACE = "the stack"

    @property
    def is_string(self) -> bool:
        """True if the field is compared with a quoted text."""
        return self in (Kind.DYN_STRING, Kind.RDYN_STRING, Kind.STATIC_STRING, Kind.PTR_STRING, Kind.COMM)


def kind_of(type_: str, cpumasks: bool) -> Kind:
    """Return how a filter treats a field of that type; `cpumasks`: the kernel knows masks (6.7 and later)."""
    if "char" in type_:
        if "__data_loc" in type_:
            return Kind.DYN_STRING
        if "__rel_loc" in type_:
            return Kind.RDYN_STRING
        if "[" in type_:
            return Kind.STATIC_STRING
        if type_ in ("char *", "const char *"):
            return Kind.PTR_STRING
    if cpumasks and "__data_loc" in type_ and "cpumask_t" in type_:
        return Kind.CPUMASK
    return Kind.OTHER


def number_test(field: Field, sign: str, value: int) -> Test:
    """Compare a number: the constant is cut to the field's width; a field of any other width never matches."""
    size, offset = field.size, field.offset
    if size not in _CODE:
        return _never
    if sign in ("==", "!="):
        end = offset + size
        expected = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        if sign == "==":
            return lambda record, cpu, comm: record[offset:end] == expected
        return lambda record, cpu, comm: record[offset:end] != expected
    layout = struct.Struct("<" + (_CODE[size] if field.signed else _CODE[size].upper()))
    (constant,) = layout.unpack((value & ((1 << 8 * size) - 1)).to_bytes(size, "little"))
    unpack, compare = layout.unpack_from, _COMPARE[sign]
    return lambda record, cpu, comm: compare(unpack(record, offset)[0], constant)


def cpu_number_test(sign: str, value: int) -> Test:
    """Compare the CPU's number with a constant cut to 32 bits; `&` never matches."""
    constant = (value + (1 << 31)) % (1 << 32) - (1 << 31)
    if sign == "&":
        return _never
    compare = _COMPARE[sign]
    return lambda record, cpu, comm: compare(cpu, constant)


def cpu_set_test(field: Field, kind: Kind, sign: str, chosen: frozenset[int], cpus: int) -> Test:
    """Compare the CPU, a mask or a number of the record with CPUS{...}: equal, not equal or `&` (they overlap)."""
    if kind is Kind.CPUMASK:
        return _mask_test(field.offset, sign, sum(1 << cpu for cpu in chosen), cpus)
    if len(chosen) == 1:
        (only,) = chosen
        sign = "==" if sign == "&" else sign
        return cpu_number_test(sign, only) if kind is Kind.CPU else number_test(field, sign, only)
    # To the kernel a single number never equals a set of another size.
    if kind is Kind.CPU:
        return lambda record, cpu, comm: sign == "!=" or (sign == "&" and cpu in chosen)
    if field.size not in _CODE:
        return _never
    start, end = field.offset, field.offset + min(field.size, 4)

    def scalar(record: bytes, cpu: int, comm: bytes) -> bool:
        number = int.from_bytes(record[start:end], "little")
        return number < cpus and (sign == "!=" or (sign == "&" and number in chosen))

    return scalar


def _mask_test(offset: int, sign: str, bits: int, cpus: int) -> Test:
    every, size = (1 << cpus) - 1, (cpus + 63) // 64 * 8

    def mask(record: bytes, cpu: int, comm: bytes) -> bool:
        start, _ = _LOCATION.unpack_from(record, offset)
        have = int.from_bytes(record[start : start + size], "little") & every
        return have & bits != 0 if sign == "&" else (have == bits) is (sign == "==")

    return mask


def function_test(field: Field, sign: str, start: int, end: int) -> Test:
    """Test whether the address in the record is within a function."""
    unpack, offset, inside = struct.Struct("<Q").unpack_from, field.offset, sign == "=="
    return lambda record, cpu, comm: (start <= unpack(record, offset)[0] < end) is inside


def string_test(
    field: Field, kind: Kind, matches: Matcher, negated: bool, read_string: ReadString | None, user: bool
) -> Test:
    """Compare a string of the record, or one that a pointer in it leads to, or the task's name."""
    offset, size = field.offset, field.size
    passes = not negated
    unpack = _LOCATION.unpack_from

    def task(record: bytes, cpu: int, comm: bytes) -> bool:
        return matches(comm[: _COMM_SIZE - 1].ljust(_COMM_SIZE, b"\0"), 0, _COMM_SIZE) is passes

    def fixed(record: bytes, cpu: int, comm: bytes) -> bool:
        return matches(record, offset, size) is passes

    def located(record: bytes, cpu: int, comm: bytes) -> bool:
        start, length = unpack(record, offset)
        return matches(record, start, length) is passes

    def located_from_here(record: bytes, cpu: int, comm: bytes) -> bool:
        start, length = unpack(record, offset)
        return matches(record, offset + 4 + start, length) is passes

    def pointed_to(record: bytes, cpu: int, comm: bytes) -> bool:
        address = int.from_bytes(record[offset : offset + 8], "little")
        text = read_string(address, user) if read_string else None
        if text is None:
            return False  # also when negated
        text = text.partition(b"\0")[0][: _STRING_SIZE - 1] + b"\0"
        return matches(text, 0, len(text)) is passes

    return {
        Kind.COMM: task,
        Kind.STATIC_STRING: fixed,
        Kind.DYN_STRING: located,
        Kind.RDYN_STRING: located_from_here,
        Kind.PTR_STRING: pointed_to,
    }[kind]


def _never(record: bytes, cpu: int, comm: bytes) -> bool:
    return False
