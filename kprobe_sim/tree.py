"""The tracefs tree: which path is which node.  `CONTROL` is the list of what is simulated.

A path that the recorded kernel has and that isn't in the list can be read (it shows the recorded text) and refuses a
write with ENOSYS, which no kernel answers there: better a loud test than a quiet wrong one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from kprobe_sim import control
from kprobe_sim.event_dirs import EventsDir
from kprobe_sim.instance import Instance
from kprobe_sim.node import DirNode, Node, OpenFile, refuse
from kprobe_sim.openfile import File, Get, Put, Seq, Simple, Trace, TracePipe, Unseekable
from kprobe_sim.options import TOP_LEVEL_ONLY
from kprobe_sim.profile import Profile

Opener = Callable[[Instance, int], OpenFile]


class Modes(NamedTuple):
    """The permission bits of a kernel's tracefs, and what its event directories hold."""

    directory: int
    write: int
    read: int
    event_files: frozenset[str]
    triggers: bytes

    @classmethod
    def of(cls, profile: Profile) -> Modes:
        """Read them from a recorded kernel."""
        top = profile.directory("")
        event = profile.directory("events/*/*")
        return cls(
            top["events"],
            top["kprobe_events"],
            top["README"],
            frozenset(event),
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


def _simple(
    get: Callable[[Instance], bytes] | None = None, put: Callable[[Instance, bytes], int | None] | None = None
) -> Opener:
    return lambda instance, flags: Simple(flags, _bind(get, instance), _bound_put(put, instance))


def _seq(get: Callable[[Instance], bytes], put: Callable[[Instance, bytes], int | None] | None = None) -> Opener:
    return lambda instance, flags: Seq(flags, _bind(get, instance), _bound_put(put, instance))


def _mark(put: Callable[[Instance, bytes], int]) -> Opener:
    return lambda instance, flags: Unseekable(flags, None, _bound_put(put, instance))


def _bind(get: Callable[[Instance], bytes] | None, instance: Instance) -> Get | None:
    return None if get is None else partial(get, instance)


def _bound_put(put: Callable[[Instance, bytes], int | None] | None, instance: Instance) -> Put | None:
    return None if put is None else partial(put, instance)


def _ignore(instance: Instance, data: bytes) -> int:
    return len(data)


class Control(NamedTuple):
    """A control file: how it opens, and what O_TRUNC does at an open for writing."""

    opener: Opener
    truncated: Callable[[Instance], None] | None = None


def _clear_pids(attribute: str) -> Callable[[Instance], None]:
    return lambda instance: setattr(instance, attribute, None)


def _pids(attribute: str) -> Control:
    return Control(
        _seq(
            lambda instance: control.pids_text(getattr(instance, attribute)),
            lambda instance, data: control.put_pids(instance, attribute, data),
        ),
        _clear_pids(attribute),
    )


# files of every instance
CONTROL: dict[str, Control] = {
    "buffer_size_kb": Control(
        _simple(control.size_text, lambda instance, data: control.put_size(instance, None, data))
    ),
    "buffer_total_size_kb": Control(_simple(control.total_size_text)),
    "current_tracer": Control(_simple(lambda instance: f"{instance.current_tracer}\n".encode(), control.put_tracer)),
    "error_log": Control(
        _seq(lambda instance: instance.error_log.text(), _ignore), lambda instance: instance.error_log.clear()
    ),
    "free_buffer": Control(lambda instance, flags: _FreeBuffer(flags, instance)),
    "set_event": Control(_seq(control.set_event_text, control.put_set_event), control.clear_events),
    "set_event_notrace_pid": _pids("no_pids"),
    "set_event_pid": _pids("pids"),
    "trace": Control(lambda instance, flags: Trace(flags, instance, None), lambda instance: instance.clear()),
    "trace_clock": Control(_seq(control.clock_text, control.put_clock)),
    "trace_marker": Control(_mark(lambda instance, data: instance.mark(data, instance.kernel.writer))),
    "trace_marker_raw": Control(_mark(lambda instance, data: instance.mark_raw(data, instance.kernel.writer))),
    "trace_options": Control(_seq(lambda instance: instance.options.text(), control.put_options)),
    "trace_pipe": Control(lambda instance, flags: TracePipe(flags, instance, None)),
    "tracing_on": Control(_simple(lambda instance: b"1\n" if instance.tracing_on else b"0\n", control.put_tracing_on)),
}

# files of the top only
TOP: dict[str, Control] = {
    "available_events": Control(_seq(lambda instance: instance.kernel.available_events())),
    "available_filter_functions": Control(_seq(lambda instance: instance.kernel.available_functions())),
    "dynamic_events": Control(
        _seq(
            lambda instance: instance.kernel.probes.listing(),
            lambda instance, data: instance.kernel.probes.write(data, dynamic_events=True),
        ),
        lambda instance: instance.kernel.probes.truncate(),
    ),
    "kprobe_events": Control(
        _seq(
            lambda instance: instance.kernel.probes.listing(),
            lambda instance, data: instance.kernel.probes.write(data),
        ),
        lambda instance: instance.kernel.probes.truncate(),
    ),
    "kprobe_profile": Control(_seq(lambda instance: instance.kernel.probes.profile())),
    "saved_cmdlines": Control(_seq(lambda instance: instance.cmdlines.text())),
    "saved_cmdlines_size": Control(
        _simple(lambda instance: b"%d\n" % instance.cmdlines.size, control.put_saved_cmdlines_size)
    ),
    "saved_tgids": Control(_seq(lambda instance: instance.cmdlines.tgids_text())),
}

# numbers that are kept and change nothing that is simulated: (least, greatest)
KNOBS: dict[str, tuple[int, int]] = {
    "buffer_percent": (0, 100),
    "max_graph_depth": (0, 2**32 - 1),
    "stack_max_size": (0, 2**63 - 1),
    "tracing_max_latency": (0, 2**63 // 1000),
    "tracing_thresh": (0, 2**63 // 1000),
}

PER_CPU: dict[str, Callable[[Instance, int, int], OpenFile]] = {
    "buffer_size_kb": lambda instance, cpu, flags: Simple(
        flags,
        lambda: b"%d\n" % (instance.size_of(cpu) >> 10),
        lambda data: control.put_size(instance, cpu, data),
    ),
    "stats": lambda instance, cpu, flags: Simple(flags, lambda: control.stats_text(instance, cpu), None),
    "trace": lambda instance, cpu, flags: Trace(flags, instance, cpu),
    "trace_pipe": lambda instance, cpu, flags: TracePipe(flags, instance, cpu),
}


class _FreeBuffer(OpenFile):
    """free_buffer: a write is ignored; closing shrinks the buffer to its least."""

    def __init__(self, flags: int, instance: Instance) -> None:
        super().__init__(flags)
        self._instance = instance

    def write(self, data: bytes, position: int) -> int:
        return len(data)

    def release(self) -> None:
        if self._instance.options["disable_on_free"]:
            self._instance.set_tracing(False)
        self._instance.kernel.expanded = True
        self._instance.resize(0)


def _unsimulated(data: bytes) -> int:
    raise refuse(errno.ENOSYS)


class InstanceDir(DirNode):
    """The directory of an instance: the mount point for the top one."""

    def __init__(self, instance: Instance, modes: Modes) -> None:
        super().__init__(modes.directory)
        self._instance = instance
        self.identity = instance
        self._modes = modes
        self._table = instance.kernel.profile.directory("instances/*" if instance.name else "")

    def names(self) -> Iterable[str]:
        return list(self._table)

    def lookup(self, name: str) -> Node | None:
        mode = self._table.get(name)
        if mode is None:
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
        text = instance.knobs.get(name)
        if text is None:
            text = instance.kernel.profile.file_text(name)
        limits = KNOBS.get(name)
        put: Put | None = None
        if limits is not None:
            put = partial(control.put_number, instance, name, *limits)
        elif mode & 0o222:
            put = _unsimulated
        return self._modes.node(instance, mode, lambda flags: Seq(flags, lambda: text, put))


class OptionsDir(DirNode):
    """options/: one file per trace option."""

    def __init__(self, instance: Instance, modes: Modes) -> None:
        super().__init__(modes.directory)
        self._instance = instance
        self._modes = modes

    def names(self) -> Iterable[str]:
        hidden = TOP_LEVEL_ONLY if self._instance.name else frozenset()
        return [name for name in self._instance.options.names() if name not in hidden]

    def lookup(self, name: str) -> Node | None:
        instance = self._instance
        if name not in instance.options or (instance.name and name in TOP_LEVEL_ONLY):
            return None
        return self._modes.node(
            instance,
            self._modes.write,
            lambda flags: Simple(
                flags,
                lambda: b"1\n" if instance.options[name] else b"0\n",
                lambda data: control.put_option(instance, name, data),
            ),
        )


class PerCpuDir(DirNode):
    """per_cpu/: cpu0, cpu1, ..."""

    def __init__(self, instance: Instance, modes: Modes) -> None:
        super().__init__(modes.directory)
        self._instance = instance
        self._modes = modes

    def names(self) -> Iterable[str]:
        return [f"cpu{cpu}" for cpu in range(self._instance.cpus)]

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

    def names(self) -> Iterable[str]:
        return list(self._table)

    def lookup(self, name: str) -> Node | None:
        mode = self._table.get(name)
        if mode is None:
            return None
        instance, cpu = self._instance, self._cpu
        opener = PER_CPU.get(name)
        if opener is None:
            return self._modes.node(
                instance, mode, lambda flags: Seq(flags, _unreadable, _unsimulated if mode & 0o222 else None)
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
