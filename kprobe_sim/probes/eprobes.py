"""Event probes: events made from the fields of another event (trace_eprobe.c of 6.1.190, 6.12.117, 7.2.13 and 7.3).

Held to fixtures/kinds.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from typing import ClassVar

from kprobe_sim.builds.gates import Gates
from kprobe_sim.builds.prototypes import PrototypeTable
from kprobe_sim.events.dyn_event import DynamicEvent, DynEvent
from kprobe_sim.events.event import Event, Find
from kprobe_sim.events.event_file import EventFile, Hit, Trigger
from kprobe_sim.events.recording import Recorder
from kprobe_sim.language.fetch.argument import FetchArg
from kprobe_sim.language.fetch.btf_arguments import LAST_SLOT, follow_fields, split_field
from kprobe_sim.language.fetch.evaluate import compile_arguments
from kprobe_sim.language.fetch.event_field import RECORD, packed
from kprobe_sim.language.fetch.expression import Deref, Expression, From, Scope, Source
from kprobe_sim.language.filters.predicate import Predicate
from kprobe_sim.language.primitives.kstrto import is_name
from kprobe_sim.language.primitives.refusal import Declined, Refusal, refuse
from kprobe_sim.machine.memory import CallMemory
from kprobe_sim.machine.state import Current, State, task_address
from kprobe_sim.machine.task import Task
from kprobe_sim.probes.command import compile_all, counted, read_names, refused_register
from kprobe_sim.probes.probe_event import EventTraits, Probe, ProbeEvent
from kprobe_sim.probes.probe_kind import DynEventList
from kprobe_sim.probes.synthetic import SyntheticEvent
from kprobe_sim.records.field import Field

_DEFAULT_GROUP = "eprobes"


# The hidden trigger by which an event probe gets its event's records (trace_eprobe.c).
_PID = struct.Struct("<i")


class EprobeTrigger(Trigger):
    """Makes a record of an event probe from each record of the event that the probe is attached to."""

    needs_record: ClassVar[bool] = True
    group = "eprobe"

    def __init__(self, file: EventFile, probe: Probe, target: EventFile, chosen: Predicate | None) -> None:
        super().__init__(file, "eprobe", None)
        self.probe = probe
        self.filter = chosen
        self._made = target  # the file of the event that the probe makes
        self._recorder = Recorder(file.instance.tracing)

    def fire(self, hit: Hit, record: bytes) -> None:
        machine, probe = self.instance.machine, self.probe
        (pid,) = _PID.unpack_from(hit.head, 4)
        task = machine.tasks.get(pid) or Task(pid, hit.comm)
        probe.hits += 1
        if not self._recorder.wants(self._made, task, hit.cpu):
            return
        strings = {address: text + b"\0" for address, text in machine.strings.items()}
        memory = CallMemory(machine.memory, {**strings, **machine.user_memory, RECORD: record})
        state = State({}, memory, (), hit.comm, 0, Current(task_address(pid), 0, 0), record)
        # what is made within an event is made with preemption off
        depth = hit.head[3] + bool(machine.profile.preemption)
        made = probe.evaluate(state, (probe.event.id, hit.head[2], depth & 0xFF, pid))
        self._recorder.emit(self._made, task, made, hit._replace(head=made[:8]))


class EventSources:
    """What the arguments of an event probe may start from: fields of the event that it is attached to."""

    comm_has_any_type = True
    may_cast = True
    unknown_types: frozenset[str] = frozenset()

    def __init__(self, fields: Sequence[Field], types: PrototypeTable | None, gates: Gates) -> None:
        self._fields = {field.name: field for field in fields}
        self._arrays_are_addresses = gates.event_arrays_are_addresses
        self._types = types

    def read(self, text: str, scope: Scope, column: int) -> Expression | None:
        first, gates = text[:1], scope.gates
        if first == "$":
            return self._variable(text[1:], scope, column)
        if first == "%":
            raise refused_register(scope, column)
        if first == "(" and gates.event_typecasts:
            return self._typecast(text, column)
        if gates.btf and is_name(first) and not text.startswith("this_cpu_"):
            if not gates.event_fields_by_name:
                raise Refusal("NOSUP_BTFARG", column)
            if text not in self._fields:
                raise Refusal("NO_EVENT_FIELD", column)
            return Expression(self._source(text), (), 0, column)
        return None

    def resolve(self, argument: FetchArg) -> FetchArg:
        """Look up the field that an argument names; raise Refusal."""
        source = argument.expression.source
        if source.kind is not From.FIELD or source.text in self._fields:
            return argument
        if source.text not in ("comm", "COMM"):
            raise Refusal("BAD_ATTACH_ARG_LATE")
        return argument._replace(expression=argument.expression._replace(source=Source(From.COMM)))

    def _source(self, name: str) -> Source:
        field = self._fields.get(name)
        if field is None:  # `resolve` finds this out
            return Source(From.FIELD, name)
        return Source(From.FIELD, name, packed(field, arrays_are_addresses=self._arrays_are_addresses))

    def _variable(self, name: str, scope: Scope, column: int) -> Expression | None:
        if name in self._fields or scope.gates.eprobe_fields_late:
            return Expression(self._source(name), (), 0, column)
        if name in ("comm", "COMM"):
            return Expression(Source(From.COMM), (), 0, column)
        raise Refusal("BAD_VAR", column if scope.gates.event_variable_caret else 0)

    def _typecast(self, text: str, column: int) -> Expression:
        """Read (STRUCT)FIELD[->MEMBER..], as 7.2 knows it."""
        name, brace, rest = text[1:].partition(")")
        if not brace:
            raise Refusal("DEREF_OPEN_BRACE", column + len(text))
        struct = None if self._types is None else find_struct(self._types, name)
        if self._types is None or struct is None:
            raise Refusal("NO_PTR_STRCT", column + 1)
        column += len(name) + 2
        field, members, arrow = split_field(rest, column)
        after = column + len(field) + (2 if arrow else 1)
        if members is not None and not arrow:
            raise Refusal("NOSUP_DAT_ARG", after)
        if field not in self._fields:
            raise Refusal("BAD_ATTACH_ARG", column)
        source = self._source(field)
        if members is None:
            return Expression(source, (), 0, column, struct)
        path = follow_fields(self._types, members, after, struct=struct, room=LAST_SLOT)
        derefs = tuple([Deref(offset) for offset in path.offsets])
        return Expression(source, derefs, len(derefs), path.column, path.type, path.bits)


def find_struct(types: PrototypeTable, name: str) -> int | None:
    """Return the struct of that name; where structs weren't recorded by name, only those that functions use."""
    try:
        return types.struct(name)
    except LookupError:
        return types.some_struct(name)


class Eprobe(Probe):
    """An event probe; `filter` chooses among the records of the event that it is attached to."""

    __slots__ = ("attached", "filter", "trigger")

    def __init__(
        self, kind: Eprobes, event: ProbeEvent, attached: Event, arguments: Sequence[FetchArg], chosen: Predicate | None
    ) -> None:
        super().__init__(kind, event, f"{attached.system}.{attached.name}", arguments)
        self.attached = attached
        self.filter = chosen
        self.trigger: EprobeTrigger | None = None  # while it is enabled

    @property
    def letters(self) -> str:
        return "e"

    def is_on(self, point: str) -> bool:
        system, separator, name = point.partition("/")
        if not separator:
            system, separator, name = point.partition(".")
        return bool(separator) and (system, name) == (self.attached.system, self.attached.name)


class Eprobes:
    """The event probes of one kernel, each with its own event."""

    location: ClassVar[str] = "event_probe"

    def __init__(self, dyn_events: DynEventList) -> None:
        self.dyn_events = dyn_events
        self._probes: dict[DynamicEvent, Eprobe] = {}  # by their events

    def create(self, line: str, words: list[str]) -> None:
        dyn_events, gates = self.dyn_events, self.dyn_events.gates
        head = words[0]
        if head[0] != "e" or len(words) < 2:
            raise Declined
        colon = head.find(":", 1)
        group, name = _DEFAULT_GROUP, None
        if colon >= 0:
            group, name = read_names(head[colon + 1 :], colon + 1, gates, group)
        system, event_name = self._attached_names(words[1])
        choice = words.index("if", 2) if "if" in words[2:] else len(words)
        attached = self._find(system, event_name, counted(words[2:choice], gates))
        chosen = None
        if choice < len(words):
            if choice + 1 == len(words):
                raise Refusal("NO_EP_FILTER", 0, choice + 1)
            chosen = self._filter(attached, " ".join(words[choice + 1 :]))
        sources = EventSources(tuple(attached.filter_fields()), dyn_events.points.types, gates)
        stack_size = dyn_events.machine.profile.thread_size
        scope = Scope(False, False, gates, dyn_events.points.anywhere(), sources=sources, stack_size=stack_size)

        def finished(argument: FetchArg) -> FetchArg:
            try:
                return dyn_events.points.resolve(sources.resolve(argument))
            except OSError as error:
                raise Refusal("NO_SYMBOL", errno=error.errno) from None

        arguments = compile_all(counted(words[2:choice], gates), scope, finished)
        traits = EventTraits(attached_to=f"{system}.{event_name}".encode("latin-1"), switch=self._switch)
        event = ProbeEvent(group, name or event_name, arguments, dyn_events.symbols, gates, traits)
        if dyn_events.has_event(event.system, event.name):
            raise Refusal("EVENT_EXIST", 0, 0)
        dyn_events.add_event(event)
        if isinstance(attached, ProbeEvent | SyntheticEvent):
            attached.references += 1
        probe = Eprobe(self, event, attached, arguments, chosen)
        probe.evaluate = compile_arguments(arguments, event.start, dyn_events.symbols, gates, stack_size)
        self._probes[event] = probe
        dyn_events.add(probe)

    def _attached_names(self, text: str) -> tuple[str, str]:
        first = None
        try:
            system, name = read_names(text, 0, self.dyn_events.gates, token=1)
            if system and name is not None:
                return system, name
        except Refusal as refusal:
            first = refusal
        missing = Refusal("NO_EVENT_INFO", 0, 1)
        missing.before = first
        raise missing

    def _find(self, system: str, name: str, _: list[str]) -> Event:
        event = self.dyn_events.event(system, name)
        if event is not None and event.is_attachable:
            return event
        static = None if event is not None else self.dyn_events.table.static.find(system, name)
        if static is None or not static.can_enable:
            raise Refusal("BAD_ATTACH_EVENT", 0, 1)
        return static

    def _filter(self, attached: Event, text: str) -> Predicate:
        try:
            return self.dyn_events.host.compile_filter(attached, text)
        except OSError:
            raise Refusal("BAD_EP_FILTER") from None

    def _switch(self, event: ProbeEvent, find: Find, on: bool) -> None:
        """Attach a probe in the first instance that enables it, and in no others, as the kernel does."""
        probe = self._probes[event]
        if self.dyn_events.host.is_busy(event):
            return
        if not on:
            if probe.trigger is not None:
                probe.trigger.file.drop_trigger(probe.trigger)
                probe.trigger = None
            return
        file = find(probe.attached.system, probe.attached.name)
        made = find(event.system, event.name)
        if not isinstance(file, EventFile) or not isinstance(made, EventFile):
            raise refuse(errno.ENOENT)
        probe.trigger = EprobeTrigger(file, probe, made, probe.filter)
        file.add_trigger(probe.trigger, last=True)

    def is_busy(self, entry: DynEvent) -> bool:
        return self.dyn_events.host.is_busy(entry.event)

    def free(self, entry: DynEvent) -> None:
        self.dyn_events.remove_event(entry.event)
        self.dyn_events.drop(entry)
        del self._probes[entry.event]
        assert isinstance(entry, Eprobe)
        if isinstance(entry.attached, ProbeEvent | SyntheticEvent):
            entry.attached.references -= 1
