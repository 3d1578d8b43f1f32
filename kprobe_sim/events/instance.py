"""A trace instance with its events: the state of every event in it (struct trace_array and its list of event files)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from operator import attrgetter

from kprobe_sim.events.event import Event
from kprobe_sim.events.event_file import EventFile, EventFiles
from kprobe_sim.events.trace_array import TraceArray
from kprobe_sim.events.tracing import Tracing
from kprobe_sim.language.primitives.module_events import ModuleEvents


class Instance(TraceArray):
    """One trace instance; `everyone` gives all of the kernel, the top one first, `files` has all their event files."""

    def __init__(
        self,
        tracing: Tracing,
        name: str,
        options: dict[str, bool],
        everyone: Callable[[], Iterable[Instance]],
        files: EventFiles,
    ) -> None:
        super().__init__(tracing, name, options, everyone)
        self.everyone = everyone
        self.module_events: list[ModuleEvents] = []  # that set_event keeps for modules that may come
        self._files = files
        self._born = tracing.events.came if name else 0  # dynamic events up to this number are older than the instance
        self._known_files: dict[str, tuple[object, set[str]]] = {}

    def known_files(self, system: str = "") -> set[str]:
        """Return the files of a system's directory, or of events/ itself, that were ever looked up; a set to add to.

        They are forgotten when the directory goes.
        """
        directory = self.tracing.events.directory(system)
        known = self._known_files.get(system)
        if known is None or known[0] is not directory:
            known = self._known_files[system] = (directory, set())
        return known[1]

    def file(self, event: Event) -> EventFile:
        """Return the file of an event that the instance has."""
        file = self._files.find(self, event)
        if file is None:
            file = EventFile(self, event, self.find, self._files)
            self._files.add(file)
        return file

    def used_file(self, event: Event) -> EventFile | None:
        """Return the file of an event, None if nobody has asked for it: then it isn't enabled, and has no triggers."""
        return self._files.find(self, event)

    def used_files(self) -> list[EventFile]:
        """Return the files that somebody has asked for: the others aren't enabled."""
        return self._files.of(self)

    @property
    def print_file(self) -> EventFile | None:
        """The file of ftrace/print, whose triggers see the marks; None if nobody has asked for it."""
        event = self.tracing.events.static.find("ftrace", "print")
        return None if event is None else self.used_file(event)

    def enabled_files(self) -> Collection[EventFile]:
        """Return the files of the events that are enabled, in the order in which they were."""
        return self._files.enabled_of(self)

    def enabled_before(self, system: str, prefix: str, other: str, other_prefix: str) -> bool:
        """True if an event of the one system and beginning of a name was enabled before any of the other."""

        for file in self.enabled_files():
            event = file.event
            if event.system == system and event.name.startswith(prefix):
                return True
            if event.system == other and event.name.startswith(other_prefix):
                return False
        return False

    def events(self, system: str | None = None, name: str | None = None) -> Iterator[Event]:
        """Yield the events of a system, None: of all, as the kernel lists an instance's files (tr->events).

        What came last stands first; but what is older than the instance stands in its order, static events before.
        With a `name` only those of that name.
        """
        older, newer = self.tracing.events.around(self._born, system, name)
        yield from reversed(newer)
        yield from self.tracing.events.static.listed(system, name)
        yield from older

    def in_order(self, events: Iterable[Event]) -> list[Event]:
        """Return some of the instance's events in that order, each once."""
        return sorted(set(events), key=self._place)

    def _place(self, event: Event) -> tuple[int, int]:
        number = self.tracing.events.number(event)
        if number is None:
            return 1, event.id
        return (0, -number) if number > self._born else (2, number)

    def event_names(self, system: str | None = None) -> Iterator[str]:
        """Yield the names of a system's events, None: of all systems, in the order of their directories' making.

        That of the static ones was the kernel's, and is the reverse of it in an instance, dynamic ones first.
        """
        static = self.tracing.events.static.systems(backwards=bool(self.name))
        older, newer = self.tracing.events.around(self._born, system)
        names = static if system is None else static.get(system, ())
        own = attrgetter("system" if system is None else "name")
        yield from dict.fromkeys([*map(own, reversed(older)), *names, *map(own, newer)])

    def find(self, system: str, name: str) -> EventFile | None:
        """Return the file of an event, or None."""
        event = self.tracing.events.find(system, name)
        return None if event is None else self.file(event)
