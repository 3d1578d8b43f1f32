"""The tracefs tree: which path is which node.  `CONTROL` is the list of what is simulated.

A path that the recorded kernel has and that isn't in the list can be read (it shows the recorded text) and refuses a
write with ENOSYS, which no kernel answers there: better a loud test than a quiet wrong one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import kprobe_sim.control as control  # by its name: `from` takes what pyfakefs had forgotten
from kprobe_sim.control_files import CONTROL, KNOBS, PER_CPU, PLAIN, TOP
from kprobe_sim.event_dirs import EventsDir
from kprobe_sim.gates import gates_for
from kprobe_sim.instance import Instance
from kprobe_sim.node import DirNode, Node, OpenFile, refuse
from kprobe_sim.openfile import File, Generic
from kprobe_sim.profile import Profile
from kprobe_sim.seqfile import Seq, lines


class Modes(NamedTuple):
    """The permission bits of a kernel's tracefs, and what its event directories hold."""

    root: int  # of the mount point: tracefs' default, whatever the rest has (fs/tracefs/inode.c)
    directory: int
    events: int  # of events/ and below, which is a file system of its own from 6.6 on
    write: int
    read: int
    event_files: tuple[str, ...]  # in readdir order
    eventfs: bool  # events/ lists files first and what was made last at the end, and counts no links
    triggers: bytes

    @classmethod
    def of(cls, profile: Profile) -> Modes:
        """Read them from a recorded kernel."""
        top = profile.directory("")
        event = profile.directory("events/*/*")
        return cls(
            0o700,
            top["instances"],
            top["events"],
            top["kprobe_events"],
            top["README"],
            tuple(event),
            gates_for(profile.number).eventfs,
            profile.file_text("events/*/*/trigger"),
        )

    def node(
        self,
        instance: Instance,
        mode: int,
        opener: Callable[[int], OpenFile],
        truncated: Callable[[], None] | None = None,
    ) -> File:
        """Return a file whose opens are counted by the instance: it can't be removed while one is open."""

        def counted(flags: int) -> OpenFile:
            opened = opener(flags)
            instance.open_files += 1
            release = opened.release

            def released() -> None:
                instance.open_files -= 1
                release()

            opened.release = released  # type: ignore[method-assign]  # one more thing to do at the last close
            return opened

        return File(mode, counted, truncated)


def _unsimulated(data: bytes) -> int:
    raise refuse(errno.ENOSYS)


class InstanceDir(DirNode):
    """The directory of an instance: the mount point for the top one."""

    def __init__(self, instance: Instance, modes: Modes) -> None:
        super().__init__(modes.directory if instance.name else modes.root)
        self._instance = instance
        self.identity = instance
        self._modes = modes
        self._table = instance.kernel.profile.directory("instances/*" if instance.name else "")

    @property
    def is_gone(self) -> bool:
        return self._instance.removed

    def names(self) -> Iterable[str]:
        return [] if self.is_gone else list(self._table)

    def lookup(self, name: str) -> Node | None:
        mode = self._table.get(name)
        if mode is None or self.is_gone:
            return None
        instance, modes = self._instance, self._modes
        if name == "events":
            return EventsDir(instance, modes)
        if name == "options":
            return OptionsDir(instance, modes)
        if name == "per_cpu":
            return PerCpuDir(instance, modes)
        if name == "instances":
            return InstancesDir(instance, modes)
        found = CONTROL.get(name) or (None if instance.name else TOP.get(name))
        if found is None:
            return self._recorded(name, mode)
        truncated = found.truncated
        return modes.node(
            instance,
            mode,
            partial(found.opener, instance),
            None if truncated is None else partial(truncated, instance),
        )

    def _recorded(self, name: str, mode: int) -> Node:
        instance = self._instance
        recorded = instance.kernel.profile.file_text
        path = f"instances/*/{name}" if instance.name else name
        knob = KNOBS.get(name)
        if knob is not None:
            show, kind = knob
            put = partial(control.put_number, instance, name, show)
            return self._modes.node(
                instance, mode, lambda flags: kind(flags, lambda: instance.knobs.get(name) or recorded(path), put)
            )
        try:
            text = recorded(path)
        except KeyError:  # there, but too long or too special to record
            return self._modes.node(instance, mode, lambda flags: Seq(flags, _unknown, _unsimulated))
        refused = _unsimulated if mode & 0o222 else None
        if name in PLAIN:
            return self._modes.node(instance, mode, lambda flags: Generic(flags, lambda: text, refused))
        return self._modes.node(instance, mode, lambda flags: Seq(flags, lines(lambda: text), refused))


def _unknown() -> Sequence[bytes]:
    raise refuse(errno.ENOSYS)


class OptionsDir(DirNode):
    """options/: one file per trace option."""

    def __init__(self, instance: Instance, modes: Modes) -> None:
        super().__init__(modes.directory)
        self._instance = instance
        self._modes = modes
        self._table = instance.kernel.profile.directory("instances/*/options" if instance.name else "options")

    @property
    def is_gone(self) -> bool:
        return self._instance.removed

    def names(self) -> Iterable[str]:
        return [] if self.is_gone else list(self._table)

    def lookup(self, name: str) -> Node | None:
        mode = self._table.get(name)
        if mode is None or self.is_gone:
            return None
        instance = self._instance
        return self._modes.node(
            instance,
            mode,
            lambda flags: Generic(
                flags,
                lambda: self._value(name),
                lambda data: control.put_option(instance, name, data),
            ),
        )

    def _value(self, name: str) -> bytes:
        value = self._instance.options.of_tracer(name)
        if value is None:
            return self._instance.kernel.profile.file_text(f"options/{name}")
        return b"1\n" if value else b"0\n"


class PerCpuDir(DirNode):
    """per_cpu/: cpu0, cpu1, ..."""

    def __init__(self, instance: Instance, modes: Modes) -> None:
        super().__init__(modes.directory)
        self._instance = instance
        self._modes = modes

    @property
    def is_gone(self) -> bool:
        return self._instance.removed

    def names(self) -> Iterable[str]:
        return [] if self.is_gone else [f"cpu{cpu}" for cpu in range(self._instance.cpus)]

    def lookup(self, name: str) -> Node | None:
        if name not in self.names():
            return None
        return CpuDir(self._instance, int(name[3:]), self._modes)


class CpuDir(DirNode):
    """per_cpu/cpuN/: the buffer of one CPU."""

    def __init__(self, instance: Instance, cpu: int, modes: Modes) -> None:
        super().__init__(modes.directory)
        self._instance = instance
        self._cpu = cpu
        self._modes = modes
        self._table = instance.kernel.profile.directory("per_cpu/cpu0")

    @property
    def is_gone(self) -> bool:
        return self._instance.removed

    def names(self) -> Iterable[str]:
        return [] if self.is_gone else list(self._table)

    def lookup(self, name: str) -> Node | None:
        mode = self._table.get(name)
        if mode is None or self.is_gone:
            return None
        instance, cpu = self._instance, self._cpu
        opener = PER_CPU.get(name)
        if opener is None:
            return self._modes.node(
                instance, mode, lambda flags: Seq(flags, lines(_unreadable), _unsimulated if mode & 0o222 else None)
            )
        truncated = partial(instance.clear, cpu) if name == "trace" else None
        return self._modes.node(instance, mode, partial(opener, instance, cpu), truncated)


def _unreadable() -> bytes:
    raise refuse(errno.ENOSYS)


class InstancesDir(DirNode):
    """instances/: mkdir makes an instance, rmdir removes it."""

    def __init__(self, top: Instance, modes: Modes) -> None:
        super().__init__(modes.directory)
        self._kernel = top.kernel
        self._modes = modes

    def names(self) -> Iterable[str]:
        return reversed(list(self._kernel.instances))

    def lookup(self, name: str) -> Node | None:
        instance = self._kernel.instances.get(name)
        return None if instance is None else InstanceDir(instance, self._modes)

    def mkdir(self, name: str) -> None:
        self._kernel.add_instance(name)

    def rmdir(self, name: str) -> None:
        instance = self._kernel.instances[name]
        if instance.open_files:
            raise refuse(errno.EBUSY)
        self._kernel.remove_instance(name)
