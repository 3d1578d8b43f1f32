"""All events of a kernel by id and name, and the handing out of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kprobe_sim.events.dyn_event import DynamicEvent
from kprobe_sim.events.event import Event, StaticEvent


def _by_system(keys: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    systems: dict[str, list[str]] = {}
    for system, name in keys:
        systems.setdefault(system, []).append(name)
    return systems


class EventTable:
    """All events of a kernel, by id and by name, and the handing out of ids.

    `static` is called when the static events are first needed; until then they cost nothing.  `named` are the dynamic
    events by system and name, oldest first: one that came under a name in use isn't among them.  `version` is another
    whenever a line of dynamic_events comes or goes.
    """

    def __init__(self, static: Callable[[], Iterable[StaticEvent]], first_id: int, reuse_ids: bool) -> None:
        self._load = static
        self._static: dict[tuple[str, str], StaticEvent] | None = None
        self._dynamic: dict[int, DynamicEvent] = {}
        self.named: dict[tuple[str, str], DynamicEvent] = {}
        self.version = 0
        self._readdir: list[tuple[str, str]] = []  # systems and names as they were recorded
        self._systems: tuple[dict[str, list[str]], ...] = ()
        self._static_ids: dict[int, StaticEvent] = {}
        self._next = first_id
        self._first = first_id
        self._reuse_ids = reuse_ids  # 6.12 and later hand out the lowest free id; before, ids only grow

    @property
    def static(self) -> dict[tuple[str, str], StaticEvent]:
        """The static events by (system, name), in the order of available_events."""
        if self._static is None:
            listed = list(self._load())
            self._readdir = [(event.system, event.name) for event in listed]
            listed.sort(key=lambda event: event.id)
            self._static = {(event.system, event.name): event for event in listed}
        return self._static

    def add(self, event: DynamicEvent) -> None:
        """Give a new event its id."""
        event.id = self._free_id()
        self._dynamic[event.id] = event

    def remove(self, event: DynamicEvent) -> None:
        """Forget an event; its id is free where the kernel reuses ids."""
        del self._dynamic[event.id]

    def dynamic(self, number: int) -> DynamicEvent | None:
        """Return the dynamic event with that id, or None."""
        return self._dynamic.get(number)

    def event(self, system: str, name: str) -> DynamicEvent | None:
        """Return the dynamic event of that name, or None."""
        return self.named.get((system, name))

    def has_system(self, name: str) -> bool:
        """True if some event is in that system."""
        return name in self.static_systems() or any(system == name for system, _ in self.named)

    def available(self) -> bytes:
        """Return the text of available_events: newest first."""
        events: list[Event] = [*reversed(self.named.values()), *self.static.values()]
        return "".join(f"{event.system}:{event.name}\n" for event in events if event.can_enable).encode("latin-1")

    def static_systems(self, *, backwards: bool = False) -> Mapping[str, Sequence[str]]:
        """Return the names of the static events by system, both in the order of their directories' making.

        At boot that is the order of the ids, but for the system ftrace; `backwards` is the order in an instance.
        """
        if not self._systems:
            ids = {key: event.id for key, event in self.static.items()}
            order = list(dict.fromkeys(system for system, _ in self._readdir))
            made = [key for key in ids if key[0] != "ftrace"]
            of_ftrace = [key for key in self._readdir if key[0] == "ftrace"]
            if order[0] != made[0][0]:  # the newest stands first
                order.reverse()
                of_ftrace.reverse()
            following = order[order.index("ftrace") + 1]
            place = next(index for index, (system, _) in enumerate(made) if system == following)
            made[place:place] = of_ftrace
            self._systems = (_by_system(made), _by_system(made[::-1]))
        return self._systems[backwards]

    def static_by_id(self, number: int) -> StaticEvent | None:
        """Return the static event with that id, or None."""
        if not self._static_ids:
            self._static_ids = {event.id: event for event in self.static.values()}
        return self._static_ids.get(number)

    def _free_id(self) -> int:
        if not self._reuse_ids:
            self._next += 1
            return self._next - 1
        return next(
            number for number in range(self._first, self._first + len(self._dynamic) + 1) if number not in self._dynamic
        )
