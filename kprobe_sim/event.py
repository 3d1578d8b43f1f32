"""The events of the simulated kernel: the static ones of the profile, and those of probes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kprobe_sim.field import Field

if TYPE_CHECKING:
    from kprobe_sim.dyn_event import DynamicEvent
    from kprobe_sim.instance import Instance


class Event(Protocol):
    """What the tracefs needs to know of an event (struct trace_event_call)."""

    @property
    def system(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> int: ...

    @property
    def can_enable(self) -> bool:
        """False for the events of system `ftrace`: they have no enable, filter or trigger of their own."""
        ...

    def format(self) -> bytes:
        """Return the text of the event's `format` file."""
        ...

    def filter_fields(self) -> Iterable[Field]:
        """Return the fields a filter may name, the common ones excluded."""
        ...

    def switch(self, instance: Instance, on: bool) -> None:
        """Do what enabling or disabling it in an instance entails; raise OSError if it can't be enabled."""
        ...


class StaticEvent:
    """A tracepoint event that the profile recorded; its format text is read when somebody asks."""

    __slots__ = ("_fields", "_format", "can_enable", "files", "id", "name", "system")

    def __init__(
        self, system: str, name: str, number: int, format_text: Callable[[], bytes], files: Iterable[str]
    ) -> None:
        self.system = system
        self.name = name
        self.id = number
        self.files = tuple(files)
        self.can_enable = "enable" in self.files
        self._format = format_text
        self._fields: list[Field] | None = None

    def switch(self, instance: Instance, on: bool) -> None:
        """Tracepoints can always be switched."""

    def format(self) -> bytes:
        """Return the recorded text of `format`."""
        return self._format()

    def filter_fields(self) -> list[Field]:
        """Read the fields back from the recorded format text."""
        if self._fields is None:
            self._fields = self._read()
        return self._fields

    def _read(self) -> list[Field]:
        return [field for field in read_fields(self._format().decode()) if not field.name.startswith("common_")]


def read_fields(text: str) -> list[Field]:
    """Read the field lines of a `format` text."""
    fields = []
    for line in text.splitlines():
        if not line.startswith("\tfield:"):
            continue
        declaration, offset, size, signed = (part.split(":", 1)[1] for part in line.strip().rstrip(";").split(";\t"))
        kind, _, name = declaration.rpartition(" ")
        if name.endswith("]") and "[" in name:
            name, bracket, length = name.partition("[")
            kind += bracket + length
        fields.append(Field(kind, name, int(offset), int(size), signed == "1"))
    return fields


def _by_system(keys: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    systems: dict[str, list[str]] = {}
    for system, name in keys:
        systems.setdefault(system, []).append(name)
    return systems


class EventTable:
    """All events of a kernel, by id and by name, and the handing out of ids.

    `static` is called when the static events are first needed; until then they cost nothing.
    """

    def __init__(self, static: Callable[[], Iterable[StaticEvent]], first_id: int, reuse_ids: bool) -> None:
        self._load = static
        self._static: dict[tuple[str, str], StaticEvent] | None = None
        self._dynamic: dict[int, DynamicEvent] = {}
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
