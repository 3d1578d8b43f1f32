"""A trace instance with its events: the state of every event in it (struct trace_array and its list of event files)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kprobe_sim.events.dyn_event import DynamicEvent
from kprobe_sim.events.event_file import EventFile
from kprobe_sim.events.trace_array import TraceArray
from kprobe_sim.events.tracing import Tracing


class Instance(TraceArray):
    """One trace instance; `everyone` gives all of the kernel, the top one first."""

    def __init__(
        self, tracing: Tracing, name: str, options: dict[str, bool], everyone: Callable[[], Iterable[Instance]]
    ) -> None:
        super().__init__(tracing, name, options, everyone)
        self.everyone = everyone
        self.probe_files: dict[DynamicEvent, EventFile] = {}  # in the order of their coming
        self.older_events: frozenset[DynamicEvent] = frozenset()  # those that are older than the instance
        self.known_files: dict[str, set[str]] = {}  # files in events/ ("") and its systems that were ever looked up
        self._static_files: dict[tuple[str, str], EventFile] | None = None

    def add_event(self, event: DynamicEvent) -> None:
        """An event exists now: give it a file in this instance."""
        self.probe_files[event] = EventFile(self, event, self.find)

    def remove_event(self, event: DynamicEvent) -> None:
        """The event is gone; an instance in which it was ever enabled loses its whole trace."""
        file = self.probe_files.pop(event, None)
        if file is not None:
            file.freed = True
            if event.system in self.known_files and event.system not in self.event_names():
                del self.known_files[event.system]
            if file.was_enabled:
                self.clear()
                self.spare.reset()

    @property
    def static_files(self) -> dict[tuple[str, str], EventFile]:
        """The files of the static events, by (system, name); made when they are first asked for."""
        if self._static_files is None:
            static = self.tracing.events.static
            self._static_files = {key: EventFile(self, event, self.find) for key, event in static.items()}
        return self._static_files

    def static_file(self, key: tuple[str, str]) -> EventFile | None:
        """Return the file of a static event if somebody has ever asked for one: else it isn't enabled."""
        return self._static_files.get(key) if self._static_files else None

    def enabled_files(self) -> Iterator[EventFile]:
        """Yield the files of the events that are enabled."""
        yield from (file for file in self.probe_files.values() if file.enabled)
        yield from (file for file in (self._static_files or {}).values() if file.enabled)

    def enabled_before(self, system: str, prefix: str, other: str, other_prefix: str) -> bool:
        """True if an event of the one system and beginning of a name was enabled before any of the other."""

        def first(system: str, prefix: str) -> int:
            there = (f for f in self.enabled_files() if f.event.system == system and f.event.name.startswith(prefix))
            return min((file.since for file in there), default=self.enablings + 1)

        return first(system, prefix) < first(other, other_prefix)

    def event_files(self) -> Iterator[EventFile]:
        """Yield the event files as the kernel lists them (tr->events).

        What came last stands first; but what is older than the instance stands in its order, static events before.
        """
        yield from reversed([file for event, file in self.probe_files.items() if event not in self.older_events])
        yield from self.static_files.values()
        yield from (file for event, file in self.probe_files.items() if event in self.older_events)

    def event_names(self, system: str | None = None) -> Iterator[str]:
        """Yield the names of a system's events, None: of all systems, in the order of their directories' making.

        That of the static ones was the kernel's, and is the reverse of it in an instance, dynamic ones first.
        """
        static = self.tracing.events.static_systems(backwards=bool(self.name))
        names = static if system is None else static.get(system, ())
        known = [event for event in self.probe_files if system in (None, event.system)]
        named = [(event.system if system is None else event.name, event in self.older_events) for event in known]
        yield from dict.fromkeys(
            [
                *(name for name, is_elder in reversed(named) if is_elder),
                *names,
                *(name for name, is_elder in named if not is_elder),
            ]
        )

    def find(self, system: str, name: str) -> EventFile | None:
        """Return the file of an event, or None."""
        event = self.tracing.events.event(system, name)
        if event is not None:
            return self.probe_files.get(event)
        return self.static_files.get((system, name))
