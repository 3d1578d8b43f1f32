"""The common parts of kprobes, fprobes and uprobes: events that several probes may feed (trace_probe.c)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from operator import attrgetter
from typing import ClassVar, Generic, TypeVar, cast

from kprobe_sim.builds.gates import Gates
from kprobe_sim.builds.symbols import SymbolTable
from kprobe_sim.events.dyn_event import Deletion, DynamicEvent, DynEvent, EventHost, Operations
from kprobe_sim.events.event import Event
from kprobe_sim.events.event_table import EventTable
from kprobe_sim.events.instances import Instances
from kprobe_sim.language.primitives.errlog import ErrorLog
from kprobe_sim.language.primitives.refusal import Printed, Refusal, refuse
from kprobe_sim.machine.simulated import SimulatedMachine
from kprobe_sim.probes.probe_event import Probe, first_difference
from kprobe_sim.probes.probe_point import ProbePoints

_AGE = attrgetter("made")


class DynEventList:
    """What all kinds of dynamic event share: the list of them, and their kernel.

    `table` has all events of the kernel; `listeners` are called with each line that comes (True) or goes (False).
    """

    __slots__ = (
        "_by_event",
        "_by_kind",
        "_by_system",
        "_entries",
        "errlog",
        "host",
        "listeners",
        "machine",
        "points",
        "printed",
        "table",
    )

    def __init__(
        self, machine: SimulatedMachine, points: ProbePoints, host: EventHost, errlog: ErrorLog, table: EventTable
    ) -> None:
        self.machine = machine
        self.points = points
        self.host = host
        self.errlog = errlog
        self.table = table
        self.listeners: list[Callable[[DynEvent, bool], None]] = []
        self.printed: list[str] = machine.log
        self._entries: dict[DynEvent, None] = {}  # the lines of dynamic_events; below, the same lines by key
        self._by_kind: dict[Operations, dict[DynEvent, None]] = {}
        self._by_event: dict[str, dict[DynEvent, None]] = {}
        self._by_system: dict[str, dict[DynEvent, None]] = {}

    @property
    def gates(self) -> Gates:
        return self.machine.gates

    @property
    def symbols(self) -> SymbolTable:
        return self.machine.symbols

    def print(self, location: str, lines: Iterable[tuple[str, str]]) -> None:
        """Put lines into the kernel's log, each with its source; the code that all kinds share prints as `location`."""
        prefixed = self.gates.printed_sources
        if self.gates.uprobes_named_kprobes:
            location = "trace_kprobe"
        for source, line in lines:
            prefix = location if source == "trace_kprobe" else source
            if line:
                self.printed.append(f"{prefix}: {line}" if prefixed else line)

    def has_event(self, system: str, name: str) -> bool:
        """True when an event of any kind has that name."""
        return self.table.find(system, name) is not None

    def event(self, system: str, name: str) -> DynamicEvent | None:
        """Return the dynamic event of that name, or None; not one that came under a name in use."""
        return self.table.event(system, name)

    def add_event(self, event: DynamicEvent) -> None:
        """Make an event known."""
        self.table.add(event)
        self.host.add_event(event)

    def remove_event(self, event: DynamicEvent) -> None:
        """Remove an event; raise OSError EBUSY, and do nothing, if it is in use."""
        if event.references or self.host.is_busy(event):
            raise refuse(errno.EBUSY)
        self.discard_event(event)

    def discard_event(self, event: DynamicEvent) -> None:
        """Remove an event that nobody could use yet."""
        self.table.remove(event)
        self.host.remove_event(event)

    def of(self, kind: Operations | None) -> list[DynEvent]:
        """Return the lines of a kind (None means of all kinds), oldest first."""
        return list(self._entries if kind is None else self._by_kind.get(kind, ()))

    def meant(self, deletion: Deletion, kind: Operations | None) -> list[DynEvent]:
        """Return the lines of a kind (None means of any kind) that a delete may mean by its names, oldest first."""
        if deletion.event:
            found = self._by_event.get(deletion.event, ())
        else:
            found = self._by_system.get(deletion.group or "", ())
        return [entry for entry in found if kind in (None, entry.kind)]

    def add(self, entry: DynEvent) -> None:
        """Put a line at the end of the list."""
        for entries in self._lists(entry):
            entries[entry] = None
        self._changed(entry, is_there=True)

    def drop(self, entry: DynEvent) -> None:
        """Take a line out of the list."""
        for entries in self._lists(entry):
            del entries[entry]
        if not self._by_event[entry.event.name]:
            del self._by_event[entry.event.name]
        if not self._by_system[entry.event.system]:
            del self._by_system[entry.event.system]
        self._changed(entry, is_there=False)

    def _lists(self, entry: DynEvent) -> tuple[dict[DynEvent, None], ...]:
        event = entry.event
        return (
            self._entries,
            self._by_kind.setdefault(entry.kind, {}),
            self._by_event.setdefault(event.name, {}),
            self._by_system.setdefault(event.system, {}),
        )

    def _changed(self, entry: DynEvent, *, is_there: bool) -> None:
        self.table.version += 1
        for callback in self.listeners:
            callback(entry, is_there)


_REGISTRATION = {
    errno.EILSEQ: "BAD_INSN_BNDRY",
    errno.ENOENT: "BAD_PROBE_ADDR_REG",
    errno.EEXIST: "FAIL_REG_UNLOGGED",
    errno.ENOMEM: "FAIL_REG_UNLOGGED",
}


def not_registered(number: int | None) -> Refusal:
    """Return the refusal of a probe whose registration failed with an errno (docs/kernel/places.md)."""
    return Refusal(_REGISTRATION.get(number or 0, "FAIL_REG_PROBE"), 0, 1, errno=number)


_FILES = ("enable", "filter")  # of an event's system

P = TypeVar("P", bound=Probe)


class ProbeKind(Generic[P]):
    """One kind of probe; several of its probes may feed one of its events."""

    location: ClassVar[str]

    def __init__(self, dyn_events: DynEventList) -> None:
        self.dyn_events = dyn_events
        self._events: dict[Event, dict[Hashable, P]] = {}  # the probes that feed each event, oldest first

    def probes(self) -> Iterator[P]:
        """Yield the probes of this kind, oldest first."""
        return iter(cast("list[P]", self.dyn_events.of(self)))

    def of(self, event: Event) -> list[P]:
        """Return the probes of this kind that feed an event, oldest first."""
        return list(self._events.get(event, {}).values())

    def enabled(self, probes: Collection[P], instances: Instances) -> list[P]:
        """Return those of some probes whose events are enabled in an instance, oldest first."""
        events = instances.enabled_events()
        if len(probes) <= len(events):  # look at the fewer of the two
            enabled = [probe for probe in probes if instances.enabled(probe.event)]
        else:
            enabled = [probe for event in events for probe in self.of(event) if probe in probes]
        return sorted(enabled, key=_AGE)

    def create(self, line: str, words: list[str]) -> None:
        """Make the probe that a line defines; raise Refusal, or Declined if it is of another kind."""
        raise NotImplementedError

    def register(self, probe: P) -> None:
        """Put a probe in its place; raise Refusal."""
        raise NotImplementedError

    def admit(self, probe: P) -> None:
        """Give a probe its event: a new one, or this kind's event of that name.  Raises Refusal."""
        dyn_events, event = self.dyn_events, probe.event
        if dyn_events.gates.early:
            self._replace(event)
        known = dyn_events.event(event.system, event.name)
        siblings = None if known is None else self._events.get(known)
        if siblings is None:
            self._check_name(event)
            dyn_events.add_event(event)
            try:
                self.register(probe)
            except Refusal:
                dyn_events.discard_event(event)
                raise
            siblings = self._events[event] = {}
        else:
            oldest = next(iter(siblings.values()))
            self.check_sibling(probe, oldest)
            if probe.identity in siblings:
                raise Refusal("SAME_PROBE", 0, 0)
            probe.event = oldest.event
            self.register(probe)
        siblings[probe.identity] = probe
        probe.made = dyn_events.table.version + 1
        dyn_events.add(probe)

    def _replace(self, event: Event) -> None:
        """Remove this kind's event of that name, so that another can replace it.  Raises OSError EBUSY."""
        known = self.dyn_events.event(event.system, event.name)
        for entry in self.of(known) if known is not None and known in self._events else ():
            self.free(entry)

    def _check_name(self, event: Event) -> None:
        """Raise Refusal, or OSError, if an event can't have its name."""
        dyn_events = self.dyn_events
        exists = dyn_events.has_event(event.system, event.name)
        if not dyn_events.gates.early:
            if exists:
                raise Refusal("EVENT_EXIST", 0, 0)
        elif exists or event.name in _FILES:
            what = self.location.removeprefix("trace_")
            dyn_events.printed.append(f"Could not create {dyn_events.gates.directory_said} '{event.name}' directory")
            if number := dyn_events.gates.name_in_use:
                registering = (self.location, f"Failed to register {what} event: {event.name}")
                raise Printed(number, f"Failed to register probe event({-number})", before=(registering,))

    def check_sibling(self, probe: P, other: P) -> None:
        """Raise Refusal if a probe doesn't fit the event of another."""
        if probe.event.is_return != other.event.is_return:
            raise Refusal("DIFF_PROBE_TYPE", 0, 0)
        difference = first_difference(probe.arguments, other.arguments)
        if difference:
            raise Refusal("DIFF_ARG_TYPE", 0, difference + 1)

    def is_busy(self, entry: DynEvent) -> bool:
        return self.dyn_events.gates.used_kept and self.dyn_events.host.is_busy(entry.event)

    def free(self, entry: DynEvent) -> None:
        event = entry.event
        if not self.dyn_events.gates.used_kept and self.dyn_events.host.is_busy(event):
            self.dyn_events.host.enable_event(event, False)
        siblings = self._events[event]
        if len(siblings) == 1:
            self.dyn_events.remove_event(event)
            del self._events[event]
        del siblings[cast("P", entry).identity]
        self.dyn_events.drop(entry)
