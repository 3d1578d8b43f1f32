"""All trace instances of one kernel: the top-level one, and those that mkdir creates."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Sequence

from kprobe_sim.events.event import Event
from kprobe_sim.events.event_file import EventFile, EventFiles
from kprobe_sim.events.instance import Instance
from kprobe_sim.events.tracing import Tracing
from kprobe_sim.language.primitives.refusal import refuse

_NAME_MAX = 255


class Instances:
    """The trace instances of one kernel (ftrace_trace_arrays); iterating yields the top one, then the others."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._files = EventFiles()
        self.by_name: dict[str, Instance] = {}
        self.top = Instance(tracing, "", dict(tracing.machine.profile.options), self._all, self._files)

    def __iter__(self) -> Iterator[Instance]:
        return iter(self._all())

    def _all(self) -> list[Instance]:
        return [self.top, *self.by_name.values()]

    def add(self, name: str) -> None:
        """Make an instance, as mkdir in instances/ does."""
        if len(name.encode("utf-8", "surrogateescape")) > _NAME_MAX:
            raise refuse(errno.ENAMETOOLONG)
        if name in self.by_name:
            raise refuse(errno.EEXIST)
        instance = Instance(self._tracing, name, self.top.options.inherited(), self._all, self._files)
        if "options" not in self._tracing.machine.profile.tracefs.directory("instances/*"):
            instance.options = self.top.options  # before Linux 4.4 there is one set of options (trace_flags)
        self.by_name[name] = instance

    def remove(self, name: str) -> None:
        """Remove an instance, with its triggers and what it had enabled."""
        instance = self.by_name[name]
        for file in list(instance.enabled_files()):  # a file with triggers is enabled
            for trigger in [trigger for trigger in file.triggers if trigger.group != "eprobe"]:
                file.drop_trigger(trigger)
        del self.by_name[name]
        instance.removed = True
        if instance.options["trace_printk_dest"]:
            self.top.options.set("trace_printk_dest", True)
        self._files.remove_instance(instance)
        if instance.current_tracer != "nop":
            self._tracing.rearm()

    def remove_event(self, event: Event) -> None:
        """Forget a removed event; an instance in which it was ever enabled loses its whole trace."""
        for file in self._files.remove_event(event):
            file.freed = True
            if file.was_enabled and not self._tracing.machine.gates.removed_are_unknown:
                file.instance.clear()
                file.instance.spare.reset()

    def enabled(self, event: Event | None) -> Sequence[EventFile]:
        """Return the files of an event where it is enabled, the top instance's first."""
        return () if event is None else self._files.enabled(event)

    def enabled_events(self) -> Collection[Event]:
        """Return the events that are enabled in some instance."""
        return self._files.enabled_events()

    def all_enabled(self) -> Iterator[EventFile]:
        """Yield the files of all events where they are enabled."""
        return self._files.all_enabled()
