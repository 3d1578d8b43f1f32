"""The tracefs tree: the node of each path.  `CONTROL` lists what is simulated.

A path of the recorded kernel that isn't in the list shows its recorded text, and refuses a write with ENOSYS, which no
kernel answers there: a test had better fail loudly than pass by mistake.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import kprobe_sim.tree.control as control  # not `from`, which would take a module that pyfakefs has forgotten
from kprobe_sim.events.instance import Instance
from kprobe_sim.events.options import OPTIONS_OF_TRACERS
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.tree.control_files import CONTROL, KNOBS, PER_CPU, PLAIN, PROBE_FILES, TOP, Control
from kprobe_sim.tree.event_dirs import EventsDir
from kprobe_sim.tree.files.node import DirNode, Node
from kprobe_sim.tree.files.seqfile import Seq, lines
from kprobe_sim.tree.files.simple import Generic
from kprobe_sim.tree.modes import Modes, TreeParts

_CPU = re.compile(r"cpu(?:0|[1-9][0-9]{0,4})")


def _unsimulated(data: bytes) -> int:
    raise refuse(errno.ENOSYS)


class InstancePart(DirNode):
    """A directory of an instance; once the instance is removed it is empty for those that still have it open.

    `table` has its recorded entries with their modes.
    """

    def __init__(self, mode: int, instance: Instance, table: Mapping[str, int]) -> None:
        super().__init__(mode)
        self._instance = instance
        self._table = table

    @property
    def is_gone(self) -> bool:
        return self._instance.removed

    def names(self) -> Iterable[str]:
        return [] if self.is_gone else list(self._table)

    def lookup(self, name: str) -> Node | None:
        mode = self._table.get(name)
        return None if mode is None or self.is_gone else self.entry(name, mode)

    def entry(self, name: str, mode: int) -> Node | None:
        """Return the node of an entry of the table."""
        raise NotImplementedError


class InstanceDir(InstancePart):
    """The directory of an instance; that of the top one is the mount point."""

    def __init__(self, instance: Instance, parts: TreeParts) -> None:
        modes = parts.modes
        recorded = instance.machine.profile.tracefs.directory("instances/*" if instance.name else "")
        super().__init__(modes.directory if instance.name else modes.root, instance, recorded)
        self.identity = instance
        self._parts = parts
        self._modes = modes

    def entry(self, name: str, mode: int) -> Node | None:
        instance, modes = self._instance, self._modes
        if name == "events":
            return EventsDir(instance, self._parts)
        if name == "options":
            return OptionsDir(instance, modes)
        if name == "per_cpu":
            return PerCpuDir(instance, modes)
        if name == "instances":
            return InstancesDir(self._parts)
        file = CONTROL.get(name) or (None if instance.name else self._of_top(name))
        if file is None:
            return self._recorded(name, mode)
        truncated = file.truncated
        return modes.node(
            instance, mode, partial(file.opener, instance), None if truncated is None else partial(truncated, instance)
        )

    def _of_top(self, name: str) -> Control | None:
        probe_file = PROBE_FILES.get(name)
        return TOP.get(name) if probe_file is None else probe_file(self._parts.probes)

    def _recorded(self, name: str, mode: int) -> Node:
        instance = self._instance
        recorded = instance.machine.profile.tracefs.text
        path = f"instances/*/{name}" if instance.name else name
        knob = KNOBS.get(name)
        if knob is not None:
            show, kind = knob
            put = partial(control.put_number, instance, name, show)
            return self._modes.node(
                instance,
                mode,
                lambda flags: kind(flags, lambda: instance.knobs.get(name) or _recorded_text(instance, path), put),
            )
        try:
            text = recorded(path)
        except KeyError:  # it exists, but was too long or too special to record
            return self._modes.node(instance, mode, lambda flags: Seq(flags, _unreadable, _unsimulated))
        refused = _unsimulated if mode & 0o222 else None
        if name in PLAIN:
            return self._modes.node(instance, mode, lambda flags: Generic(flags, lambda: text, refused))
        return self._modes.node(instance, mode, lambda flags: Seq(flags, lines(lambda: text), refused))


def _recorded_text(instance: Instance, path: str) -> bytes:
    """Return the recorded text of a file; OSError ENOSYS if there is none."""
    tracefs = instance.machine.profile.tracefs
    if not tracefs.has_text(path):
        raise refuse(errno.ENOSYS)
    return tracefs.text(path)


class OptionsDir(InstancePart):
    """options/: one file per trace option."""

    def __init__(self, instance: Instance, modes: Modes) -> None:
        tracefs = instance.machine.profile.tracefs
        recorded = (instance.name and tracefs.directory("instances/*/options")) or tracefs.directory("options")
        modes_of = dict(recorded)
        if recorded and instance.tracer_was_set and instance.machine.gates.options_come:
            mode = next(iter(recorded.values()))
            come = OPTIONS_OF_TRACERS.get(instance.current_tracer, ())
            modes_of |= {name: mode for name in come if name in instance.options}
        super().__init__(modes.directory, instance, modes_of)
        self._modes = modes

    def entry(self, name: str, mode: int) -> Node | None:
        instance = self._instance
        return self._modes.node(
            instance,
            mode,
            lambda flags: Generic(
                flags, lambda: self._value(name), lambda data: control.put_option(instance, name, data)
            ),
        )

    def _value(self, name: str) -> bytes:
        value = self._instance.options.of_tracer(name)
        if value is None:
            return _recorded_text(self._instance, f"options/{name}")
        return b"1\n" if value else b"0\n"


class PerCpuDir(InstancePart):
    """per_cpu/: cpu0, cpu1, ..."""

    def __init__(self, instance: Instance, modes: Modes) -> None:
        super().__init__(modes.directory, instance, {})
        self._modes = modes

    def names(self) -> Iterable[str]:
        return [] if self.is_gone else [f"cpu{cpu}" for cpu in range(self._instance.cpus)]

    def lookup(self, name: str) -> Node | None:
        # without a table of all: they may be many
        is_one = _CPU.fullmatch(name) and int(name[3:]) < self._instance.cpus
        return CpuDir(self._instance, int(name[3:]), self._modes) if is_one and not self.is_gone else None


class CpuDir(InstancePart):
    """per_cpu/cpuN/: the buffer of one CPU."""

    def __init__(self, instance: Instance, cpu: int, modes: Modes) -> None:
        super().__init__(modes.directory, instance, instance.machine.profile.tracefs.directory("per_cpu/cpu0"))
        self._cpu = cpu
        self._modes = modes

    def entry(self, name: str, mode: int) -> Node | None:
        instance, cpu = self._instance, self._cpu
        opener = PER_CPU.get(name)
        if opener is None:
            return self._modes.node(
                instance, mode, lambda flags: Seq(flags, _unreadable, _unsimulated if mode & 0o222 else None)
            )
        truncated = partial(instance.clear, cpu) if name == "trace" else None
        return self._modes.node(instance, mode, partial(opener, instance, cpu), truncated)


def _unreadable() -> Sequence[bytes]:
    raise refuse(errno.ENOSYS)


class InstancesDir(DirNode):
    """instances/: mkdir makes an instance, rmdir removes it."""

    def __init__(self, parts: TreeParts) -> None:
        super().__init__(parts.modes.directory)
        self._instances = parts.instances
        self._parts = parts

    def names(self) -> Iterable[str]:
        return reversed(list(self._instances.by_name))

    def lookup(self, name: str) -> Node | None:
        instance = self._instances.by_name.get(name)
        return None if instance is None else InstanceDir(instance, self._parts)

    def mkdir(self, name: str) -> None:
        self._instances.add(name)

    def rmdir(self, name: str) -> None:
        instance = self._instances.by_name[name]
        # histograms with variables keep it busy (save_hist_vars)
        if instance.open_files or instance.hist_vars or instance.tracer_is_held():
            raise refuse(errno.EBUSY)
        self._instances.remove(name)
