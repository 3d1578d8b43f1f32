"""All trace instances of one kernel: the top one, and those that mkdir makes."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from kprobe_sim.events.dyn_event import DynamicEvent
from kprobe_sim.events.event_file import EventFile
from kprobe_sim.events.instance import Instance
from kprobe_sim.events.tracing import Tracing
from kprobe_sim.parsing.refusal import refuse

_NAME_MAX = 255


class Instances:
    """The trace instances of one kernel (ftrace_trace_arrays); iterating yields the top one, then the others."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self.by_name: dict[str, Instance] = {}
        self.top = Instance(tracing, "", dict(tracing.machine.profile.options), self._all)

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
        instance = Instance(self._tracing, name, self.top.options.inherited(), self._all)
        for event in self._tracing.events.named.values():
            instance.add_event(event)
        instance.older_events = frozenset(instance.probe_files)
        self.by_name[name] = instance

    def remove(self, name: str) -> None:
        """Remove an instance, with its triggers and what it had enabled."""
        instance = self.by_name[name]
        for file in list(instance.enabled_files()):  # those with triggers are
            for trigger in [one for one in file.triggers if one.group != "eprobe"]:
                file.drop_trigger(trigger)
        del self.by_name[name]
        instance.removed = True
        if instance.options["trace_printk_dest"]:
            self.top.options.set("trace_printk_dest", True)
        self._tracing.rearm()

    def files(self, event: DynamicEvent) -> list[EventFile]:
        """Return the files of a dynamic event in all instances."""
        found = (instance.probe_files.get(event) for instance in self._all())
        return [file for file in found if file is not None]

    def is_busy(self, event: DynamicEvent) -> bool:
        """True if the event is enabled in some instance."""
        return any(file.enabled for file in self.files(event))
