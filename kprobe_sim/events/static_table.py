"""The static events of a build by name and id, each created when it is first needed.

They are the same for all kernels of the build; whether one is enabled, and what else a kernel changes, is in the event
files of its instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from operator import attrgetter
from types import MappingProxyType

from kprobe_sim.builds.once import once
from kprobe_sim.builds.profile import Profile
from kprobe_sim.builds.recorded_tracefs import EventFacts
from kprobe_sim.events.event import StaticEvent, listed

Key = tuple[str, str]  # system and name

_ID = attrgetter("id")


class StaticEvents:
    """The static events of a build; a question about one event makes no other."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._made: dict[Key, StaticEvent] = {}  # each event is one object, whichever threads ask for it
        self._all: Mapping[Key, StaticEvent] | None = None
        self._listed: dict[str, Sequence[StaticEvent]] = {}  # by system
        self._ids: dict[int, StaticEvent] = {}
        self._systems: tuple[Mapping[str, Sequence[str]], ...] = ()

    @staticmethod
    @once
    def of(profile: Profile) -> StaticEvents:
        """Return the static events that all kernels of a profile share."""
        return StaticEvents(profile)

    def find(self, system: str, name: str) -> StaticEvent | None:
        """Return the event of that name, or None."""
        event = self._made.get((system, name))
        if event is None:
            facts = self._profile.tracefs.event(system, name)
            event = None if facts is None else self._make(facts)
        return event

    def has_system(self, name: str) -> bool:
        """True if there is such a system."""
        return self._profile.tracefs.has_system(name)

    def all(self) -> Mapping[Key, StaticEvent]:
        """Return all events by system and name, in the order of available_events."""
        if self._all is None:
            ordered = sorted(self._profile.tracefs.events(), key=_ID)
            self._all = MappingProxyType({(facts.system, facts.name): self._make(facts) for facts in ordered})
        return self._all

    def listed(self, system: str | None, name: str | None = None) -> Iterable[StaticEvent]:
        """Return the events of a system and a name (None means of all) in the order of available_events."""
        if system is None:
            return self.all().values() if name is None else self._of_name.get(name, ())
        if name is None:
            return self._of_system(system)
        event = self.find(system, name)
        return () if event is None else (event,)

    @cached_property
    def available(self) -> Sequence[bytes]:
        """The lines of available_events."""
        return tuple(listed(event) for event in self.all().values() if event.can_enable)

    def by_id(self, number: int) -> StaticEvent | None:
        """Return the event with that id, or None."""
        if not self._ids:
            self._ids = {event.id: event for event in self.all().values()}
        return self._ids.get(number)

    def systems(self, *, backwards: bool = False) -> Mapping[str, Sequence[str]]:
        """Return the names of the events by system, both in the order in which their directories were made.

        At boot that is the order of the ids, except for the system ftrace; `backwards` is the order in an instance.
        """
        if not self._systems:
            readdir = [(facts.system, facts.name) for facts in self._profile.tracefs.events()]
            order = list(dict.fromkeys(system for system, _ in readdir))
            made = [key for key in self.all() if key[0] != "ftrace"]
            of_ftrace = [key for key in readdir if key[0] == "ftrace"]
            if made and order[0] != made[0][0]:  # newest first
                order.reverse()
                of_ftrace.reverse()
            if of_ftrace:  # a kernel that is known only from a document has no static events
                following = order[order.index("ftrace") + 1]
                position = next(index for index, (system, _) in enumerate(made) if system == following)
                made[position:position] = of_ftrace
            self._systems = (_by_system(made), _by_system(made[::-1]))
        return self._systems[backwards]

    def _of_system(self, system: str) -> Sequence[StaticEvent]:
        found = self._listed.get(system)
        if found is None:
            if not self.has_system(system):
                return ()
            found = sorted(map(self._make, self._profile.tracefs.events(system)), key=_ID)
            self._listed[system] = found
        return found

    @cached_property
    def _of_name(self) -> Mapping[str, Sequence[StaticEvent]]:
        named: dict[str, list[StaticEvent]] = {}
        for event in self.all().values():
            named.setdefault(event.name, []).append(event)
        return MappingProxyType(named)

    def _make(self, facts: EventFacts) -> StaticEvent:
        text = partial(self._profile.tracefs.event_format, facts.system, facts.name)
        event = StaticEvent(facts.system, facts.name, facts.id, text, facts.files)
        return self._made.setdefault((facts.system, facts.name), event)


def _by_system(keys: Iterable[Key]) -> Mapping[str, Sequence[str]]:
    systems: dict[str, list[str]] = {}
    for system, name in keys:
        systems.setdefault(system, []).append(name)
    return MappingProxyType({system: tuple(names) for system, names in systems.items()})
