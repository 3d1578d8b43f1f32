"""A key, value, variable or operand of a histogram, and its number in a record.

Sources: struct hist_field, hist_fn_call(), hist_field_name() and hist_field_print() in
kernel/trace/trace_events_hist.c of 6.1; fixtures/triggers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Protocol

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.hist.map import HistMap
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.synthetic_record import SyntheticValue
from kprobe_sim.records.field import Field

KEY, STRING, HEX, SYM, SYM_OFFSET, EXECNAME, SYSCALL, STACKTRACE, LOG2, TIMESTAMP, USECS, VARIABLE, EXPRESSION = (
    1 << bit for bit in range(13)
)
REFERENCE, CPU, ALIAS, BUCKETS, CONSTANT, PERCENT, GRAPH, HITCOUNT, COMM = (1 << bit for bit in range(13, 22))

STRING_SIZE = 256  # MAX_FILTER_STR_VAL
STACK_DEPTH = 16  # HIST_STACKTRACE_DEPTH
RECORD_ADDRESS = 0xFFFF_8880_03A5_4010  # a string counts as its address: this is one in a small machine's memory
_MASK = (1 << 64) - 1
# what comes after the dot; of several the first is shown
SUFFIXES = (
    (HEX, "hex"),
    (SYM, "sym"),
    (SYM_OFFSET, "sym-offset"),
    (EXECNAME, "execname"),
    (SYSCALL, "syscall"),
    (LOG2, "log2"),
    (BUCKETS, "buckets"),
    (USECS, "usecs"),
    (PERCENT, "percent"),
    (GRAPH, "graph"),
    (STACKTRACE, "stacktrace"),
)
_NUMBERS = {(size, signed): struct.Struct(code) for size, signed, code in (
    (1, True, "<b"), (1, False, "<B"), (2, True, "<h"), (2, False, "<H"),
    (4, True, "<i"), (4, False, "<I"), (8, True, "<q"), (8, False, "<Q"),
)}  # fmt: skip


class Sample(NamedTuple):
    """What a histogram counts at a hit."""

    record: bytes
    cpu: int
    comm: bytes
    frames: Sequence[int]
    stamp: Callable[[], int]  # in the trace clock
    usecs: Callable[[int], int]  # the same in microseconds, if the clock is in ns
    values: list[SyntheticValue]  # of the references
    timestamp: int | None = None  # in ns of the machine's time; None means now


class Histogram(Protocol):
    """What a field needs of its histogram."""

    in_usecs: bool
    key_size: int

    @property
    def gates(self) -> Gates: ...

    @property
    def map(self) -> HistMap: ...

    @property
    def stack_name(self) -> str: ...

    def find_variable(self, name: str) -> HistField | None: ...

    def full_name(self, name: str) -> str: ...


class HistField:
    """One field of the histogram `data`."""

    def __init__(self, data: Histogram, flags: int, *, field: Field | None = None, variable: str = "") -> None:
        self.data = data
        self.flags = flags
        self.field = field
        self.variable = variable
        self.variable_of: Histogram | None = None  # the histogram of the variable that this is or refers to
        self.index = -1  # of the variable
        self.slot = -1  # among the references of the histogram
        self.name: str | None = None
        self.system = self.event = ""
        self.operands: list[HistField] = []
        self.operator = ""
        self.constant = 0
        self.buckets = 0
        self.read_once = False
        self.offset = 0
        self.size = 8
        self.signed = False
        self.type = "u64"
        if flags & STACKTRACE:
            self.size, self.type = 8 * STACK_DEPTH, "unsigned long[]"
        elif flags & CPU:
            self.size, self.type = 4, "unsigned int"
        elif flags & COMM:
            self.size, self.type = STRING_SIZE, "char[]"
        elif field is not None:
            self.type = field.type
            if is_string(field):
                self.flags |= STRING
                self.size = field.size if field.type.startswith("char[") else STRING_SIZE
            else:
                self.size, self.signed = field.size, field.signed

    def value(self, sample: Sample) -> SyntheticValue:
        """Return its value at a hit: 64 bits, or a string."""
        flags = self.flags
        if flags & (REFERENCE | ALIAS):
            return sample.values[self.slot]
        if flags & CONSTANT:
            return self.constant
        if flags & HITCOUNT:
            return 1
        if flags & EXPRESSION:
            return self._computed(sample)
        value = self._plain_value(sample)
        if not flags & (LOG2 | BUCKETS):
            return value
        if isinstance(value, bytes):
            if not flags & COMM:
                return value
            value = 0  # a name alone isn't read (HIST_FIELD_FN_NOP)
        if flags & LOG2:
            bits = max(value - 1, 0).bit_length()
            return bits % 64 if self.data.gates.hist_log2_wraps else bits
        return value - value % self.buckets

    def _plain_value(self, sample: Sample) -> SyntheticValue:
        """Return the value before any modifier."""
        flags = self.flags
        if flags & TIMESTAMP:
            stamp = sample.stamp()
            return sample.usecs(stamp) if self.data.in_usecs else stamp
        if flags & CPU:
            return sample.cpu
        if flags & COMM or (flags & EXECNAME and flags & VARIABLE and self.data.gates.hist_name_variables):
            return sample.comm
        if flags & STACKTRACE:
            if self.field is not None and self.field.size:  # else it is the stack that every event has, in no record
                return read_stack(self.field, sample.record)
            skipped = self.data.gates.hist_frames_skipped
            frames = sample.frames[skipped : skipped + STACK_DEPTH]
            return struct.pack(f"<{len(frames) + 1}Q", len(frames), *frames)
        assert self.field is not None
        return read(self.field, sample.record)

    def _computed(self, sample: Sample) -> int:
        numbers = [operand.value(sample) for operand in self.operands]
        first, *rest = (number if isinstance(number, int) else 0 for number in numbers)
        return compute(self.operator, first, rest[0] if rest else 0)

    def label(self) -> str:
        """Return the name that histograms show and `sort` takes (hist_field_name)."""
        if self.field is not None:
            return self.field.name
        if self.flags & ALIAS:
            return self.operands[0].label()
        if self.flags & (CPU | COMM):
            return "common_cpu" if self.flags & CPU else "common_comm"
        if self.flags & (EXPRESSION | REFERENCE):
            if not self.system:
                return self.name or ""
            return self.data.full_name(f"{self.system}.{self.event}.{'$' * self._dollar_within()}{self.name}")
        if self.flags & TIMESTAMP:
            return "common_timestamp"
        if self.flags & STACKTRACE and self.data.stack_name.startswith("common"):
            return self.data.stack_name
        return "hitcount" if self.flags & HITCOUNT and self.data.gates.hist_hitcount else ""

    def _dollar_within(self) -> bool:
        return self.data.gates.hist_dollar_within

    def _dollar(self) -> str:
        """Return the prefix of the name of a variable that is referred to."""
        reference = self.operands[0] if self.flags & ALIAS else self
        return "" if reference.system and self._dollar_within() else "$"

    def suffix(self) -> str:
        """Return the modifier, with its dot."""
        return next((f".{text}" for flag, text in SUFFIXES if self.flags & flag), "")

    def operand_text(self) -> str:
        """Return the text of the field as an operand (expr_field_str)."""
        text = self._dollar() if self.flags & REFERENCE else str(self.constant) if self.flags & CONSTANT else ""
        return text + self.label() + ("" if self.flags & REFERENCE else self.suffix())

    def expression_text(self) -> str:
        """Return an expression's name (expr_str)."""
        if not self.operands:
            return self.operand_text()
        if self.operator == "-()":
            inner = self.operands[0]
            return f"-({inner.expression_text() if inner.flags & EXPRESSION else inner.operand_text()})"
        return self.operands[0].operand_text() + self.operator + self.operands[1].operand_text()

    def text(self) -> str:
        """Return the field as the trigger file shows it (hist_field_print)."""
        text = f"{self.variable}=" if self.flags & VARIABLE else ""
        if self.flags & CPU:
            text += "common_cpu" + self.label() * self.data.gates.hist_cpu_twice
        elif self.flags & COMM:
            text += "common_comm"
        elif self.flags & CONSTANT:
            text += str(self.constant)
        else:
            text += (self._dollar() if self.flags & (REFERENCE | ALIAS) else "") + self.label()
        if not self.flags & (REFERENCE | EXPRESSION | STACKTRACE):
            text += self.suffix()
        return f"{text}={self.buckets}" if self.buckets else text

    def match_key(self) -> tuple[object, ...]:
        """Return what is equal in equal fields (hist_trigger_match)."""
        return (self.flags, self.field, self.offset, self.size, self.signed, self.variable)


def is_string(field: Field) -> bool:
    """Return True for a field whose value is a string, not a pointer to one."""
    return field.type.startswith(("char[", "__data_loc char[", "__rel_loc char["))


def is_stack(field: Field) -> bool:
    """Return True for a call chain in a synthetic event."""
    return field.type.startswith("__data_loc ") and "long[" in field.type


def read_stack(field: Field, record: bytes) -> bytes:
    """Return a call chain of a record: words, the number of addresses first."""
    location = int.from_bytes(record[field.offset : field.offset + 4], "little")
    words = record[location & 0xFFFF :][: 8 * (1 + STACK_DEPTH)]
    count = int.from_bytes(words[:8], "little")
    return words[: 8 * (1 + count)]


def can_be_number(field: Field) -> bool:
    """Return True for a field that has the size of a number."""
    return (field.size, field.signed) in _NUMBERS


def read(field: Field, record: bytes) -> SyntheticValue:
    """Return a field's value in a record: 64 bits, or a string."""
    if not is_string(field):
        (number,) = _NUMBERS[field.size, field.signed].unpack_from(record, field.offset)
        return int(number) & _MASK
    if field.type.startswith("char["):
        return record[field.offset : field.offset + field.size].partition(b"\0")[0]
    (location,) = struct.unpack_from("<I", record, field.offset)
    start = location & 0xFFFF
    if field.type.startswith("__rel_loc"):
        start += field.offset + field.size
    return record[start : start + (location >> 16)].partition(b"\0")[0]


def compute(operator: str, first: int, second: int) -> int:
    """Return the 64 bits of an expression's value; division by zero gives -1."""
    if operator == "+":
        return first + second & _MASK
    if operator == "-":
        return first - second & _MASK
    if operator == "*":
        return first * second & _MASK
    if operator == "/":
        return first // second if second else _MASK
    return -first & _MASK
