"""What kprobes, fprobes and uprobes have in common: events that several probes may feed (trace_probe.c)."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, cast

from kprobe_sim.builds.gates import Gates
from kprobe_sim.builds.symbols import SymbolTable
from kprobe_sim.events.dyn_event import DynamicEvent, DynEvent, EventHost
from kprobe_sim.events.errlog import ErrorLog
from kprobe_sim.events.event_table import EventTable
from kprobe_sim.machine.simulated import SimulatedMachine
from kprobe_sim.parsing.refusal import Refusal, refuse
from kprobe_sim.probes.probe_event import Probe, ProbeEvent, first_difference
from kprobe_sim.probes.probe_point import ProbePoints


@dataclass(slots=True)
class DynEventList:
    """What all kinds of dynamic event share: the list of them, and the kernel that they are in.

    `table` has all events of the kernel; `entries` are the lines of dynamic_events.
    """

    machine: SimulatedMachine
    points: ProbePoints
    host: EventHost
    errlog: ErrorLog
    table: EventTable
    entries: dict[DynEvent, None]

    @property
    def gates(self) -> Gates:
        return self.machine.gates

    @property
    def symbols(self) -> SymbolTable:
        return self.machine.symbols

    def has_event(self, system: str, name: str) -> bool:
        """True when an event of any kind has that name."""
        return (system, name) in self.table.named or (system, name) in self.table.static

    def event(self, system: str, name: str) -> DynamicEvent | None:
        """Return the dynamic event of that name, or None; one that came under a name in use isn't found."""
        return self.table.event(system, name)

    def add_event(self, event: DynamicEvent) -> None:
        """Make an event known."""
        self.host.add_event(event)
        self.table.named.setdefault((event.system, event.name), event)

    def remove_event(self, event: DynamicEvent) -> None:
        """Let an event go; raise OSError EBUSY, and do nothing, if it is in use."""
        if event.references or self.host.is_busy(event):
            raise refuse(errno.EBUSY)
        self.discard_event(event)

    def discard_event(self, event: DynamicEvent) -> None:
        """Take back an event that nobody could use yet."""
        if self.event(event.system, event.name) is event:
            del self.table.named[event.system, event.name]
        self.host.remove_event(event)

    def add(self, entry: DynEvent) -> None:
        """Put a line at the end of the list."""
        self.entries[entry] = None
        self.table.version += 1

    def drop(self, entry: DynEvent) -> None:
        """Take a line out of the list."""
        del self.entries[entry]
        self.table.version += 1


_REGISTRATION = {
    errno.EILSEQ: "BAD_INSN_BNDRY",
    errno.ENOENT: "BAD_PROBE_ADDR_REG",
    errno.EEXIST: "FAIL_REG_UNLOGGED",
    errno.ENOMEM: "FAIL_REG_UNLOGGED",
}


def not_registered(number: int | None) -> Refusal:
    """Return the refusal of a probe whose registration gave an errno (docs/kernel/places.md#order-at-registration)."""
    return Refusal(_REGISTRATION.get(number or 0, "FAIL_REG_PROBE"), 0, 1, errno=number)


P = TypeVar("P", bound=Probe)


class ProbeKind(Generic[P]):
    """One kind of probe; each has events of its own, and several of its probes may feed one."""

    location: ClassVar[str]

    def __init__(self, dyn_events: DynEventList) -> None:
        self.dyn_events = dyn_events
        self._events: dict[tuple[str, str], list[P]] = {}

    def probes(self) -> Iterator[P]:
        """Yield the probes of this kind, oldest first."""
        for entry in list(self.dyn_events.entries):
            if id(entry.kind) == id(self):
                yield cast("P", entry)

    def of(self, event: ProbeEvent) -> list[P]:
        """Return the probes of this kind that feed an event."""
        found = self._events.get((event.system, event.name), [])
        return found if found and found[0].event is event else []

    def register(self, probe: P) -> None:
        """Put a probe in its place; raise Refusal."""
        raise NotImplementedError

    def admit(self, probe: P) -> None:
        """Give a probe its event: a new one, or the one of that name that this kind has.  Raises Refusal."""
        dyn_events, event = self.dyn_events, probe.event
        key = (event.system, event.name)
        siblings = self._events.get(key)
        if siblings is None:
            if dyn_events.has_event(*key):
                raise Refusal("EVENT_EXIST", 0, 0)
            dyn_events.add_event(event)
            try:
                self.register(probe)
            except Refusal:
                dyn_events.discard_event(event)
                raise
            siblings = self._events[key] = []
        else:
            self.check_sibling(probe, siblings[0])
            if any(probe.is_same_as(other) for other in siblings):
                raise Refusal("SAME_PROBE", 0, 0)
            probe.event = siblings[0].event
            self.register(probe)
        siblings.append(probe)
        dyn_events.add(probe)

    def check_sibling(self, probe: P, other: P) -> None:
        """Raise Refusal if a probe doesn't fit the event of another."""
        if probe.event.is_return != other.event.is_return:
            raise Refusal("DIFF_PROBE_TYPE", 0, 0)
        difference = first_difference(probe.arguments, other.arguments)
        if difference:
            raise Refusal("DIFF_ARG_TYPE", 0, difference + 1)

    def is_busy(self, entry: DynEvent) -> bool:
        return self.dyn_events.host.is_busy(entry.event)

    def free(self, entry: DynEvent) -> None:
        event = entry.event
        key = (event.system, event.name)
        siblings = self._events[key]
        if len(siblings) == 1:
            self.dyn_events.remove_event(event)
            del self._events[key]
        siblings[:] = [probe for probe in siblings if probe is not entry]
        self.dyn_events.drop(entry)
