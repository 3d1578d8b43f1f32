"""All events of a kernel by id and name, and the assignment of ids."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush

from kprobe_sim.events.dyn_event import DynamicEvent
from kprobe_sim.events.event import Event, listed
from kprobe_sim.events.static_table import StaticEvents


class EventTable:
    """All events of a kernel, by id and by name, and the handing out of ids.

    `named` are the dynamic events by system and name, oldest first, without those that came under a name in use.
    With `keeps_removed` the records of removed events are shown as before.
    `filter_texts` is what the filter files of systems show once somebody has written to them.
    `came` counts the events that ever came; `version` changes whenever a line of dynamic_events comes or goes.
    """

    def __init__(self, static: StaticEvents, first_id: int, reuse_ids: bool, *, keeps_removed: bool = False) -> None:
        self.static: StaticEvents = static
        self.named: dict[tuple[str, str], DynamicEvent] = {}
        self.came: int = 0
        self.version: int = 0
        self.filter_texts: dict[str, bytes] = {}
        self._dynamic: dict[int, DynamicEvent] = {}
        self._numbers: dict[DynamicEvent, int] = {}  # in the order in which they came, oldest first
        self._systems: dict[str, dict[DynamicEvent, int]] = {}  # the same by system
        self._names: dict[str, dict[DynamicEvent, int]] = {}  # and by name
        self._later: dict[tuple[str, str], list[DynamicEvent]] = {}  # the events that came under a name in use
        self._next = first_id
        self._reuse_ids = reuse_ids  # 6.12 and later hand out the lowest free id; before, ids only grow
        self._keeps = keeps_removed
        self._free: list[int] = []  # ids of events that are gone, as a heap
        self._available: list[bytes] | None = None  # the lines of available_events, None if an event came or went since

    def add(self, event: DynamicEvent) -> None:
        """Add a new event, and give it its id."""
        if self._free:
            event.id = heappop(self._free)
        else:
            event.id = self._next
            self._next += 1
        self.came += 1
        self._dynamic[event.id] = event
        self._numbers[event] = self.came
        self._systems.setdefault(event.system, {})[event] = self.came
        self._names.setdefault(event.name, {})[event] = self.came
        self._available = None
        is_used = self.static.find(event.system, event.name) is not None  # only kernels before 4.20 allow that
        if is_used or self.named.setdefault((event.system, event.name), event) is not event:
            self._later.setdefault((event.system, event.name), []).append(event)

    def remove(self, event: DynamicEvent) -> None:
        """Forget an event; its id is free where the kernel reuses ids."""
        if not self._keeps:
            del self._dynamic[event.id]
        del self._numbers[event]
        for index, key in ((self._systems, event.system), (self._names, event.name)):
            del index[key][event]
            if not index[key]:
                del index[key]
        self._available = None
        if event.system not in self._systems and not self.static.has_system(event.system):
            self.filter_texts.pop(event.system, None)
        if self._is_named(event):
            del self.named[event.system, event.name]
        else:
            self._later[event.system, event.name].remove(event)
        if self._reuse_ids:
            heappush(self._free, event.id)

    def dynamic(self, number: int) -> DynamicEvent | None:
        """Return the dynamic event with that id, or None."""
        return self._dynamic.get(number)

    def event(self, system: str, name: str) -> DynamicEvent | None:
        """Return the dynamic event of that name, or None; not one that came under a name in use."""
        return self.named.get((system, name))

    def find(self, system: str, name: str) -> Event | None:
        """Return the event of that name, of any kind, or None."""
        return self.named.get((system, name)) or self.static.find(system, name)

    def by_id(self, number: int) -> Event | None:
        """Return the event with that id, of any kind, or None."""
        return self._dynamic.get(number) or self.static.by_id(number)

    def has_system(self, name: str) -> bool:
        """Return True if the system has an event."""
        return self.static.has_system(name) or any(map(self._is_named, self._systems.get(name, ())))

    def directory(self, system: str) -> object:
        """Return an object that changes when a system's directory is removed and made again."""
        return None if self.static.has_system(system) else self._systems.get(system)

    def around(
        self, moment: int, system: str | None = None, name: str | None = None
    ) -> tuple[list[DynamicEvent], list[DynamicEvent]]:
        """Return the dynamic events of a system, or of all, oldest first: those older than an instance, and the others.

        `moment` is what `came` was when the instance was made: an event whose name was in use then isn't among them.
        With a `name` only those of that name, in a time that doesn't depend on the number of others.
        """
        if system is None:
            events = self._numbers if name is None else self._names.get(name, {})
        elif name is None:
            events = self._systems.get(system, {})
        else:
            events = self._of_name(system, name)
        if not moment:
            return [], list(events)
        listed = list(events)
        first = bisect_right(list(events.values()), moment)
        return list(filter(self._is_named, listed[:first])), listed[first:]

    def _of_name(self, system: str, name: str) -> dict[DynamicEvent, int]:
        """Return the dynamic events of that name, oldest first, and their numbers."""
        first = self.named.get((system, name))
        events = [*((first,) if first else ()), *self._later.get((system, name), ())]
        return {event: self._numbers[event] for event in sorted(events, key=self._numbers.__getitem__)}

    def number(self, event: Event) -> int | None:
        """Return the number of a dynamic event in the order of their coming, None for a static one."""
        return self._numbers.get(event)  # type: ignore[call-overload,no-any-return]  # a static event isn't there

    def available(self) -> Sequence[bytes]:
        """Return the lines of available_events: newest first."""
        if self._available is None:
            dynamic = [listed(event) for event in reversed(self.named.values()) if event.can_enable]
            self._available = [*dynamic, *self.static.available]
        return self._available

    def _is_named(self, event: DynamicEvent) -> bool:
        return self.named.get((event.system, event.name)) is event
