"""One histogram: its fields, its entries, and how a record is counted (struct hist_trigger_data).

Sources: event_hist_trigger(), resolve_var_refs() and hist_trigger_elt_update() in kernel/trace/trace_events_hist.c of
6.1.
"""

from __future__ import annotations

import struct
from typing import Protocol

from kprobe_sim.events.event_file import EventFile, Trigger
from kprobe_sim.events.hist.field import (
    CPU,
    EXECNAME,
    RECORD_ADDRESS,
    REFERENCE,
    STACKTRACE,
    STRING,
    STRING_SIZE,
    TIMESTAMP,
    USECS,
    VARIABLE,
    HistField,
    Sample,
)
from kprobe_sim.events.hist.map import Compare, Element, HistMap
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.synthetic_record import SyntheticValue

_U64 = struct.Struct("<Q")


class HistAttributes(NamedTuple):
    """The parts of a hist trigger between the colons."""

    keys: str
    values: str | None
    sort: str | None
    name: str
    clock: str
    bits: int
    assignments: tuple[str, ...]
    actions: tuple[str, ...]
    words: frozenset[str]  # pause, cont, clear
    no_hitcount: bool = False


class Action(Protocol):
    """What a histogram does at a hit."""

    def run(self, element: Element, key: bytes, sample: Sample) -> None:
        """Act on a hit of an entry."""
        ...

    def spec(self) -> str:
        """Return the action as the trigger file shows it."""
        ...

    def details(self, element: Element) -> str:
        """Return its text after an entry in the hist file."""
        ...

    def summary(self) -> str:
        """Return its text after all entries in the hist file."""
        ...

    def match_key(self) -> tuple[object, ...]:
        """Return what makes two actions the same."""
        ...

    def end(self) -> None:
        """Release what it holds."""
        ...


class FieldVariable(NamedTuple):
    """A variable that an action sets from a field."""

    variable: HistField
    value: HistField


class SortKey(NamedTuple):
    """A field to sort by: its position among the values and keys, with the hit count at 0."""

    position: int
    descending: bool


class HistData:
    """One histogram of one event in one instance."""

    def __init__(self, file: EventFile, attributes: HistAttributes, *, removes: bool) -> None:
        self.file = file
        self.gates = file.instance.machine.gates
        self.attributes = attributes
        self.removes = removes  # made only to find the histogram to remove
        self.values: list[HistField] = []  # the hit count first
        self.variables: list[HistField] = []
        self.keys: list[HistField] = []
        self.sort: list[SortKey] = []
        self.references: list[HistField] = []
        self.actions: list[Action] = []
        self.field_variables: list[FieldVariable] = []  # for the parameters of actions
        self.saved: list[FieldVariable] = []  # by save()
        self.field_variable_triggers: list[tuple[EventFile, str]] = []  # hist triggers made for fields of other events
        self.key_size = 0
        self.has_time = False
        self.in_usecs = False
        self.users = 0  # triggers that count into it: several, if it has a name
        self._variable_count = 0
        self.map = HistMap(attributes.bits, 0)

    @property
    def stack_name(self) -> str:
        """The name of a call chain as a field."""
        return "common_stacktrace" if self.file.instance.machine.filter_gates.stacktrace_field else "stacktrace"

    def full_name(self, name: str) -> str:
        """Return the name of another event's variable, on some kernels after all those shown before.

        Their hist_field_name() appends it to a buffer that is never cleared, and oopses when that is full: here nothing
        more is appended.
        """
        if not self.gates.hist_names_pile_up:
            return name
        tracing = self.file.instance.tracing
        if len(tracing.full_names) + len(name) < STRING_SIZE:
            tracing.full_names += name
        return tracing.full_names

    def start(self) -> None:
        """Make room for entries, once the fields are known."""
        self.map = HistMap(self.attributes.bits, len(self.values))

    def add_variable(self) -> int:
        """Return the index of one more variable."""
        self._variable_count += 1
        return self._variable_count - 1

    def find_variable(self, name: str) -> HistField | None:
        """Return the variable of that name among those that the trigger's text defines."""
        return next((variable for variable in self.variables if variable.variable == name), None)

    def refer(self, variable: HistField, system: str, event: str) -> HistField:
        """Return the reference to a variable, a new one if need be (create_var_ref)."""
        for other in self.references:
            if other.index == variable.index and other.variable_of is variable.variable_of:
                return other
        reference = HistField(self, REFERENCE)
        copy_variable(reference, variable, system, event)
        reference.slot = len(self.references)
        self.references.append(reference)
        return reference

    def is_referred_to(self) -> bool:
        """Return True if another histogram of the instance refers to a variable of this one."""
        return any(
            reference.variable_of is self
            for other in histograms_with_variables(self.file)
            if other is not self
            for reference in other.references
        )

    def count(self, sample: Sample) -> None:
        """Count one record."""
        key = self._key(sample)
        values: list[SyntheticValue] = [0] * len(self.references)
        sample = sample._replace(values=values)
        if not self._resolve(key, values, local=False):
            return
        element, is_new = self.map.insert(key)
        if element is None:
            return
        if is_new and any(field.flags & EXECNAME for field in (*self.keys, *self.values, *self.variables)):
            element.comm = sample.comm
        for index, field in enumerate(self.values):
            number = field.value(sample)
            if isinstance(number, bytes):
                number = RECORD_ADDRESS
            element.sums[index] = element.sums[index] + number & (1 << 64) - 1
        for variable in self.variables:
            element.variables[variable.index] = variable.value(sample)
        set_variables(element, self.field_variables, sample)
        if self._resolve(key, values, local=True):
            for action in self.actions:
                action.run(element, key, sample)

    def _key(self, sample: Sample) -> bytes:
        key = b""
        for field in self.keys:
            value = field.value(sample)
            if isinstance(value, bytes) and field.flags & STACKTRACE:
                key += value[_U64.size :].ljust(field.size, b"\0")
            elif isinstance(value, bytes):
                size = min(field.field.size if field.field and field.size < 256 else 256, field.size - 1)
                key += value[:size].ljust(field.size, b"\0")
            else:
                key += _U64.pack(value)
        return key

    def _resolve(self, key: bytes, values: list[SyntheticValue], *, local: bool) -> bool:
        """Fetch the values of the references: the histogram's own variables, or those of others."""
        for reference in self.references:
            if (reference.variable_of is self) is not local:
                continue
            assert reference.variable_of is not None
            size = reference.variable_of.key_size  # the other map uses the start of a longer key
            element = reference.variable_of.map.lookup(key[:size].ljust(size, b"\0"))
            if element is None or reference.index not in element.variables:
                return False
            values[reference.slot] = element.variables[reference.index]
            if reference.read_once and not local:
                del element.variables[reference.index]
        return True

    def entries(self) -> list[Element]:
        """Return the entries in the order that `sort` gives."""
        gates = self.gates
        comparisons = [self._comparison(key) for key in self.sort]
        return self.map.sorted(comparisons, two_at_once=gates.sort_takes_two, hashed=not gates.hist_keys_ordered)

    def _comparison(self, key: SortKey) -> Compare:
        sign = -1 if key.descending else 1
        if key.position < len(self.values):
            return lambda a, b: sign * _order(a.sums[key.position], b.sums[key.position])
        field = self.keys[key.position - len(self.values)]
        start, end = field.offset, field.offset + field.size
        if field.flags & STACKTRACE:
            return lambda a, b: 0
        if field.flags & STRING:
            return lambda a, b: (
                sign * _order(a.key[start:end].partition(b"\0")[0], b.key[start:end].partition(b"\0")[0])
            )
        plain = None if field.flags & CPU else field.field
        size, signed = (field.size, field.signed) if plain is None else (plain.size, plain.signed)
        return lambda a, b: (
            sign
            * _order(
                int.from_bytes(a.key[start : start + size], "little", signed=signed),
                int.from_bytes(b.key[start : start + size], "little", signed=signed),
            )
        )


def copy_variable(reference: HistField, variable: HistField, system: str, event: str) -> None:
    """Make a field refer to a variable (init_var_ref)."""
    reference.index, reference.variable_of = variable.index, variable.variable_of
    reference.size, reference.signed, reference.type = variable.size, variable.signed, variable.type
    reference.flags |= variable.flags & (STACKTRACE | TIMESTAMP | USECS)
    reference.system, reference.event = system, event
    reference.name = variable.variable or variable.name


def set_variables(element: Element, variables: list[FieldVariable], sample: Sample) -> None:
    """Set the variables of an entry that are fields of the record."""
    for variable, value in variables:
        element.variables[variable.index] = value.value(sample)


def make_variable(data: HistData, name: str, size: int = 8, type_: str = "u64") -> HistField:
    """Make a variable besides those of the trigger's text (create_var)."""
    variable = HistField(data, VARIABLE, variable=name)
    variable.index, variable.variable_of = data.add_variable(), data
    variable.size, variable.type = size, type_
    return variable


def _order(a: int | bytes, b: int | bytes) -> int:
    return (a > b) - (a < b)  # type: ignore[operator]  # both are of one kind


class HistogramTrigger(Trigger):
    """A trigger that counts into a histogram."""

    data: HistData


def histograms_of(file: EventFile) -> list[HistData]:
    """Return the histograms that an event's triggers count into."""
    return [trigger.data for trigger in file.triggers if isinstance(trigger, HistogramTrigger)]


def histograms_with_variables(file: EventFile) -> list[HistData]:
    """Return the histograms of the instance that have variables or actions, newest first."""
    return [data for data in file.instance.hist_vars if isinstance(data, HistData)]
