"""The `events` tree of an instance: systems, events and their files.

Filters, triggers and histograms are imported when one of their files is opened: few simulated kernels use any.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import kprobe_sim.tree.control as control  # not `from`, which would take a module that pyfakefs has forgotten
from kprobe_sim.events.event_file import EventFile
from kprobe_sim.events.instance import Instance
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.language.primitives.words import as_file, of_file
from kprobe_sim.tree.files.node import DirNode, Node, OpenFile, Seek
from kprobe_sim.tree.files.seqfile import Seq, single
from kprobe_sim.tree.files.simple import Get, Once, PutBytes, Simple
from kprobe_sim.tree.modes import Modes, TreeParts


class EventsNode(DirNode):
    """A directory of the events tree."""

    def __init__(self, modes: Modes) -> None:
        super().__init__(modes.events)
        self._modes = modes

    @property
    def links(self) -> int:
        """1 on eventfs, otherwise as for any directory."""
        return 1 if self._modes.eventfs else 2 + self.directories()

    def directories(self) -> int:
        """Count its directories without looking any up: stat(2) is called on two thousand of them."""
        return 0

    def _listed(self, directories: list[str], files: Iterable[str]) -> Iterable[str]:
        """Put directories, given oldest first, and files in readdir order: without eventfs the newest comes first."""
        return (*files, *directories) if self._modes.eventfs else (*reversed(directories), *files)

    def _chosen(self, known: set[str], name: str, file: Node | None, directory: Node | None) -> Node | None:
        """Return the file or the directory of that name; a file that was once looked up (`known`) always wins.

        eventfs searches the directories first.  But a file that was looked up stays in the dentry cache (fs/dcache.c),
        even when a directory of its name is made.
        """
        if file is not None and (directory is None or name in known or not self._modes.eventfs):
            known.add(name)
            return file
        return directory


_FILES = ("enable", "header_event", "header_page")
_SYSTEM_FILES = ("enable", "filter")


class EventsDir(EventsNode):
    """events/: a directory for each system, and the files for all events."""

    def __init__(self, instance: Instance, parts: TreeParts) -> None:
        super().__init__(parts.modes)
        self._instance = instance
        self._parts = parts

    @property
    def is_gone(self) -> bool:
        return self._instance.removed

    def lookup(self, name: str) -> Node | None:
        if self.is_gone:
            return None
        instance = self._instance
        name = of_file(name)
        file = self._file(name)
        directory = SystemDir(instance, name, self._parts) if instance.tracing.events.has_system(name) else None
        return directory if file is None else self._chosen(instance.known_files(), name, file, directory)

    def _file(self, name: str) -> Node | None:
        instance, modes = self._instance, self._modes
        if name not in instance.machine.profile.tracefs.directory("events"):
            return None
        if name == "enable":
            return modes.node(
                instance,
                modes.write,
                lambda flags: Simple(
                    flags,
                    lambda: control.group_enable_text(instance, None),
                    lambda data: control.put_group_enable(instance, None, data),
                ),
            )
        if name in ("header_page", "header_event"):
            text = instance.machine.profile.tracefs.text(f"events/{name}")
            return modes.node(instance, modes.read, lambda flags: Once(flags, lambda: text))
        return None

    def directories(self) -> int:
        return sum(name not in _FILES for name in self._instance.event_names())

    def names(self) -> Iterable[str]:
        if self.is_gone:
            return []
        recorded = self._instance.machine.profile.tracefs.directory("events")
        names = filter(None, self._instance.event_names())  # events without a name have no directory
        systems = [as_file(name) for name in names if self._modes.eventfs or name not in _FILES]
        return self._listed(systems, (name for name in recorded if name in _FILES))


class SystemDir(EventsNode):
    """events/SYSTEM/: a directory for each event, and the system's enable and filter."""

    def __init__(self, instance: Instance, system: str, parts: TreeParts) -> None:
        super().__init__(parts.modes)
        self._instance = instance
        self._parts = parts
        self._system = system

    @property
    def is_gone(self) -> bool:
        return self._instance.removed or not self._instance.tracing.events.has_system(self._system)

    def lookup(self, name: str) -> Node | None:
        if self.is_gone:
            return None
        instance, system = self._instance, self._system
        name = of_file(name)
        file = instance.find(system, name)
        directory = None if file is None else EventDir(file, self._parts)
        if name not in _SYSTEM_FILES or name not in self._files:
            return directory
        return self._chosen(instance.known_files(system), name, self._system_file(name), directory)

    @property
    def _files(self) -> Sequence[str]:
        """The names of its files, in readdir order."""
        directory = "events/ftrace" if self._system == "ftrace" else "events/sched"
        tracefs = self._instance.machine.profile.tracefs
        recorded = tracefs.directory(directory if tracefs.has_system("ftrace") else "events/*")
        return [name for name in recorded if name in _SYSTEM_FILES]

    def _system_file(self, name: str) -> Node:
        instance, system = self._instance, self._system
        if name == "enable":
            return self._file(
                lambda: control.group_enable_text(instance, system),
                lambda data: control.put_group_enable(instance, system, data),
            )
        return self._modes.node(instance, self._modes.write, self._open_filter)

    def _open_filter(self, flags: int) -> OpenFile:
        from kprobe_sim.tree.filtering import group_filter_text, put_group_filter

        instance, system = self._instance, self._system
        put = partial(put_group_filter, instance, system, instance.tracing.events.directory(system))
        return Once(flags, lambda: group_filter_text(instance, system), put)

    def directories(self) -> int:
        files = self._files
        return sum(name not in files for name in self._instance.event_names(self._system))

    def names(self) -> Iterable[str]:
        if self.is_gone:
            return []
        files = self._files
        # the file takes the place of an event of its name; eventfs lists both
        hidden = () if self._modes.eventfs else files
        # before 5.10 the name of a synthetic event may contain a slash, which no directory's can
        shown = (name for name in self._instance.event_names(self._system) if name not in hidden and "/" not in name)
        events = [as_file(name) for name in shown]
        return self._listed(events, files)

    def _file(self, get: Get, put: PutBytes) -> Node:
        return self._modes.node(self._instance, self._modes.write, lambda flags: Simple(flags, get, put))


class _TriggerFile(Seq):
    """`trigger`: lists triggers, and takes one per write."""

    seek = Seek.TRACING


def _unrecorded() -> bytes:
    raise refuse(errno.ENOSYS)


class EventDir(EventsNode):
    """events/SYSTEM/EVENT/: the files of one event."""

    def __init__(self, file: EventFile, parts: TreeParts) -> None:
        super().__init__(parts.modes)
        self._file = file
        self._hists = parts.hists
        self.identity = file

    @property
    def is_gone(self) -> bool:
        return self._file.freed or self._file.instance.removed

    def lookup(self, name: str) -> Node | None:
        opener = None if self.is_gone else self._opener(name)
        if opener is None:
            return None
        truncated = self._truncate_trigger if name == "trigger" else None
        return self._modes.node(self._file.instance, *opener, truncated)

    def _opener(self, name: str) -> tuple[int, Callable[[int], OpenFile]] | None:
        """Return the mode of a file and its opener; None if the event has no such file."""
        event, modes = self._file.event, self._modes
        match name:
            case "enable" | "enabled" if event.can_enable and name in self._recorded():
                return modes.write, self._open_enable
            case "filter" if event.can_enable:
                return modes.write, self._open_filter
            case "format":
                return modes.read, lambda flags: Seq(flags, self._format_records)
            case "hist" if "hist" in modes.event_files:
                return modes.read, lambda flags: Seq(flags, single(self._hist))
            case "id":
                return modes.read, lambda flags: Simple(flags, lambda: b"%d\n" % event.id, None)
            case "trigger" if (event.can_enable or event.name == "print") and name in self._recorded():
                return modes.write, self._open_trigger
            case "btf_ids" if name in self._recorded():
                return modes.read, lambda flags: Simple(flags, _unrecorded, None)
            case _:
                return None

    def _open_enable(self, flags: int) -> OpenFile:
        file = self._file
        return Simple(flags, lambda: control.enable_text(file), lambda data: control.put_enable(file, data))

    def names(self) -> Iterable[str]:
        return [name for name in self._recorded() if self._opener(name) and not self.is_gone]

    def _recorded(self) -> Iterable[str]:
        """Return the files that the kernel has for this event, in readdir order."""
        event, profile = self._file.event, self._file.instance.machine.profile
        static = profile.tracefs.has_event(event.system, event.name)
        return profile.tracefs.directory(f"events/{event.system}/{event.name}") if static else self._modes.event_files

    def _live(self) -> EventFile:
        if self._file.freed:
            raise refuse(errno.ENODEV)
        return self._file

    def _format_records(self) -> list[bytes]:
        text = self._live().event.format().splitlines(keepends=True)
        return [b"".join(text[:3]), *text[3:-2], b"".join(text[-2:])]

    def _hist(self) -> bytes:
        from kprobe_sim.events.hist.files import hist_text

        return hist_text(self._live())

    def _open_filter(self, flags: int) -> OpenFile:
        from kprobe_sim.tree.filtering import put_filter

        return Once(flags, self._filter, lambda data: put_filter(self._file, data))

    def _filter(self) -> bytes:
        gates = self._file.instance.machine.gates
        if self._file.freed and gates.removed_files_read:
            return b"none\n"
        if self._file.freed and gates.removed_filter_is_empty:
            return b""
        return self._live().filter_text

    def _truncate_trigger(self) -> None:
        if self._file.triggers:
            from kprobe_sim.events.hist.files import drop_hist_triggers

            drop_hist_triggers(self._file)

    def _open_trigger(self, flags: int) -> OpenFile:
        from kprobe_sim.tree.trigger_file import put_trigger, trigger_lines

        available = self._modes.triggers

        def put(data: bytes) -> int:
            return put_trigger(self._file, data, available, self._hists)

        return _TriggerFile(flags, lambda: trigger_lines(self._file, available), put)
