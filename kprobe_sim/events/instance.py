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
        self.module_events: list[ModuleEvents] = []  # what set_event keeps for modules that may be loaded
        self._files = files
        self._born = tracing.events.came if name else 0  # dynamic events up to this number are older than the instance
        self._known_files: dict[str, tuple[object, set[str]]] = {}

    def known_files(self, system: str = "") -> set[str]:
        """Return the set of files of a system's directory, or of events/ itself, that were ever looked up.

        Callers add to it.  It is forgotten when the directory goes.
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
        """Return the file of an event, None if nobody has used it: then it isn't enabled, and has no triggers."""
        return self._files.find(self, event)

    def used_files(self) -> list[EventFile]:
        """Return the files that somebody has used: the others aren't enabled."""
        return self._files.of(self)

    @property
    def print_file(self) -> EventFile | None:
        """The file of ftrace/print, whose triggers see the marks; None if nobody has used it."""
        event = self.tracing.events.static.find("ftrace", "print")
        return None if event is None else self.used_file(event)

    def enabled_files(self) -> Collection[EventFile]:
        """Return the files of the enabled events, in the order in which they were enabled."""
        return self._files.enabled_of(self)

    def enabled_before(self, system: str, prefix: str, other: str, other_prefix: str) -> bool:
        """Return True if an event of one system, whose name has a prefix, was enabled before any of the other."""
        for file in self.enabled_files():
            event = file.event
            if event.system == system and event.name.startswith(prefix):
                return True
            if event.system == other and event.name.startswith(other_prefix):
                return False
        return False

    def events(self, system: str | None = None, name: str | None = None) -> Iterator[Event]:
        """Yield the events of a system (None means of all) as the kernel lists an instance's files (tr->events).

        Events younger than the instance come first, the youngest before the others; then the static events, and then
        the events older than the instance, oldest first.  With a `name` only those of that name.
        """
        older, newer = self.tracing.events.around(self._born, system, name)
        yield from reversed(newer)
        yield from self.tracing.events.static.listed(system, name)
        yield from older

    def in_order(self, events: Iterable[Event]) -> list[Event]:
        """Return some of the instance's events in the order of `events`, each once."""
        return sorted(set(events), key=self._rank)

    def _rank(self, event: Event) -> tuple[int, int]:
        number = self.tracing.events.number(event)
        if number is None:
            return 1, event.id
        return (0, -number) if number > self._born else (2, number)

    def event_names(self, system: str | None = None) -> Iterator[str]:
        """Yield the names of a system's events (None means of all systems) in the order of their directories' creation.

        The kernel made those of static events in its order; in an instance they come in reverse, dynamic ones first.
        """
        static = self.tracing.events.static.systems(backwards=bool(self.name))
        older, newer = self.tracing.events.around(self._born, system)
        names = static if system is None else static.get(system, ())
        label = attrgetter("system" if system is None else "name")
        yield from dict.fromkeys([*map(label, reversed(older)), *names, *map(label, newer)])

    def find(self, system: str, name: str) -> EventFile | None:
        """Return the file of an event, or None."""
        event = self.tracing.events.find(system, name)
        return None if event is None else self.file(event)
