"""The control files of an instance: how each opens, what it shows and accepts, and what O_TRUNC does to it.

`CONTROL` and `TOP` list what is simulated.  The kind of each open file follows the file_operations in kernel/trace/*.c
of 6.1.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from functools import partial

import kprobe_sim.tree.control as control  # not `from`, which would take a module that pyfakefs has forgotten
from kprobe_sim.events.dyn_event import Operations
from kprobe_sim.events.instance import Instance
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.registry import ProbeRegistry
from kprobe_sim.tree.buffer_files import RawPipe, SnapshotFile
from kprobe_sim.tree.files.node import OpenFile, Seek
from kprobe_sim.tree.files.seqfile import Seq, lines, single
from kprobe_sim.tree.files.simple import Fixed, FixedGeneric, Generic, Get, PutBytes, RbSimple, Simple, Unseekable
from kprobe_sim.tree.function_filter import FunctionList
from kprobe_sim.tree.marks import mark, mark_raw
from kprobe_sim.tree.trace_file import Trace, TracePipe

InstanceOpener = Callable[[Instance, int], OpenFile]


_InstanceGet = Callable[[Instance], bytes]
_InstancePut = Callable[[Instance, bytes], int | None]


def _simple(get: _InstanceGet | None, put: _InstancePut | None = None, kind: type[Simple] = Generic) -> InstanceOpener:
    return lambda instance, flags: kind(flags, _bind(get, instance), _bound_put(put, instance))


def _seq(get: _InstanceGet, put: _InstancePut | None = None, *, write_moves: bool = True) -> InstanceOpener:
    return lambda instance, flags: Seq(
        flags, lines(partial(get, instance)), _bound_put(put, instance), write_moves=write_moves
    )


def _single(get: _InstanceGet, put: _InstancePut | None = None) -> InstanceOpener:
    return lambda instance, flags: Seq(flags, single(partial(get, instance)), _bound_put(put, instance))


def _mark(put: Callable[[Instance, bytes], int]) -> InstanceOpener:
    def opened(instance: Instance, flags: int) -> OpenFile:
        kind = Generic if instance.machine.gates.marks_seek else Unseekable
        return kind(flags, None, _bound_put(put, instance))

    return opened


def _bind(get: _InstanceGet | None, instance: Instance) -> Get | None:
    return None if get is None else partial(get, instance)


def _bound_put(put: _InstancePut | None, instance: Instance) -> PutBytes | None:
    return None if put is None else partial(put, instance)


class Control(NamedTuple):
    """A control file: how it opens, and what O_TRUNC does when it is opened for writing."""

    opener: InstanceOpener
    truncated: Callable[[Instance], None] | None = None


def _clear_pids(attribute: str) -> Callable[[Instance], None]:
    return lambda instance: setattr(instance, attribute, None)


def _functions(name: str) -> Control:
    return Control(
        lambda instance, flags: FunctionList(flags, instance, name),
        lambda instance: instance.choose_functions(name, None),
    )


def _pids(attribute: str, none: bytes = b"") -> Control:
    return Control(
        _seq(
            lambda instance: control.pids_text(getattr(instance, attribute), none),
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
        lambda instance, flags: _ErrorLogFile(flags, instance.error_log.records, len, write_moves=False),
        lambda instance: instance.error_log.clear(),
    ),
    "free_buffer": Control(lambda instance, flags: _FreeBuffer(flags, instance)),
    "set_event": Control(
        lambda instance, flags: Seq(
            flags, partial(control.enabled_lines, instance), partial(control.put_set_event, instance)
        ),
        control.clear_events,
    ),
    "set_event_notrace_pid": _pids("no_pids"),
    "set_event_pid": _pids("pids"),
    "set_ftrace_filter": _functions("set_ftrace_filter"),
    "set_ftrace_notrace": _functions("set_ftrace_notrace"),
    "set_ftrace_notrace_pid": _pids("ftrace_no_pids", b"no pid\n"),
    "set_ftrace_pid": _pids("ftrace_pids", b"no pid\n"),
    "snapshot": Control(lambda instance, flags: SnapshotFile(flags, instance, None)),
    "trace": Control(lambda instance, flags: Trace(flags, instance, None), lambda instance: instance.clear()),
    "trace_clock": Control(_single(control.clock_text, control.put_clock)),
    "trace_marker": Control(_mark(lambda instance, data: mark(instance, data, instance.machine.writer))),
    "trace_marker_raw": Control(_mark(lambda instance, data: mark_raw(instance, data, instance.machine.writer))),
    "trace_options": Control(_single(lambda instance: instance.options.text(), control.put_options)),
    "trace_pipe": Control(lambda instance, flags: TracePipe(flags, instance, None)),
    "tracing_cpumask": Control(lambda instance, flags: _CpuMaskFile(flags, instance)),
    "tracing_on": Control(
        _simple(lambda instance: b"1\n" if instance.tracing_on else b"0\n", control.put_tracing_on, RbSimple)
    ),
}

# files of the top instance only
TOP: dict[str, Control] = {
    "available_events": Control(lambda instance, flags: Seq(flags, instance.tracing.events.available)),
    "available_filter_functions": Control(
        lambda instance, flags: Seq(flags, lambda: instance.machine.functions().lines)
    ),
    "available_filter_functions_addrs": Control(  # 6.5 and later
        lambda instance, flags: Seq(flags, lambda: instance.machine.functions().addressed_lines)
    ),
    "saved_cmdlines": Control(_seq(lambda instance: instance.cmdlines.text())),
    "saved_cmdlines_size": Control(
        _simple(lambda instance: b"%d\n" % instance.cmdlines.size, control.put_saved_cmdlines_size, Unseekable)
    ),
    "set_graph_function": _functions("set_graph_function"),
    "set_graph_notrace": _functions("set_graph_notrace"),
    "stack_trace_filter": _functions("stack_trace_filter"),
    "saved_tgids": Control(_seq(lambda instance: instance.cmdlines.tgids_text())),
}


def _probe_file(
    kind: Callable[[ProbeRegistry], Operations | None], put: Callable[[ProbeRegistry, bytes], int]
) -> Callable[[ProbeRegistry], Control]:
    """Return the maker of a file that lists one kind of dynamic events, or all, and takes their definitions."""

    def made(probes: ProbeRegistry) -> Control:
        return Control(
            _seq(lambda _: probes.listing(kind(probes)), lambda _, data: put(probes, data), write_moves=False),
            lambda _: probes.truncate(kind(probes)),
        )

    return made


def _synthetic_events(probes: ProbeRegistry) -> Control:
    return Control(
        _seq(lambda _: probes.synthetic.listing(), lambda _, data: probes.write_synthetic(data), write_moves=False),
        lambda _: probes.truncate(probes.synthetic),
    )


# files of the top instance only, which show and change the dynamic events
PROBE_FILES: dict[str, Callable[[ProbeRegistry], Control]] = {
    "dynamic_events": _probe_file(lambda _: None, lambda probes, data: probes.write(data, dynamic_events=True)),
    "kprobe_events": _probe_file(lambda probes: probes.kprobes, lambda probes, data: probes.write(data)),
    "kprobe_profile": lambda probes: Control(lambda _, flags: Seq(flags, lambda: probes.kprobes.profile)),
    "synthetic_events": _synthetic_events,
    "uprobe_events": _probe_file(
        lambda probes: probes.uprobes, lambda probes, data: probes.write_to(probes.uprobes, data)
    ),
    "uprobe_profile": lambda probes: Control(lambda _, flags: Seq(flags, lambda: probes.uprobes.profile)),
}

# numbers that have no effect on what is simulated: what each file shows for a number that was written
KNOBS: dict[str, tuple[Callable[[int], bytes], type[Simple]]] = {
    "buffer_percent": (control.percent_text, RbSimple),
    "max_graph_depth": (control.depth_text, Generic),
    "stack_max_size": (control.long_text, Fixed),
    "tracing_max_latency": (control.microseconds_text, FixedGeneric),
    "tracing_thresh": (control.microseconds_text, FixedGeneric),
}

# files that show their recorded text, and aren't seq_files
PLAIN = frozenset({"README", "dyn_ftrace_total_info"})

PER_CPU: dict[str, Callable[[Instance, int, int], OpenFile]] = {
    "buffer_size_kb": lambda instance, cpu, flags: Generic(
        flags, lambda: b"%d\n" % (instance.size_of(cpu) >> 10), lambda data: control.put_size(instance, cpu, data)
    ),
    "snapshot": lambda instance, cpu, flags: SnapshotFile(flags, instance, cpu),
    "snapshot_raw": lambda instance, cpu, flags: RawPipe(flags, instance, cpu, lambda: instance.spare),
    "stats": lambda instance, cpu, flags: Generic(flags, lambda: control.stats_text(instance, cpu), None),
    "trace": lambda instance, cpu, flags: Trace(flags, instance, cpu),
    "trace_pipe": lambda instance, cpu, flags: TracePipe(flags, instance, cpu),
    "trace_pipe_raw": lambda instance, cpu, flags: RawPipe(flags, instance, cpu, lambda: instance.buffer),
}


class _CpuMaskFile(FixedGeneric):
    """tracing_cpumask: the CPUs that are traced; a read needs room for more than the whole mask."""

    def __init__(self, flags: int, instance: Instance) -> None:
        super().__init__(flags, partial(control.cpumask_text, instance), partial(control.put_cpumask, instance))

    def read(self, size: int, position: int) -> bytes:
        if size <= len(super().read(1 << 16, 0).rstrip(b"\0")):
            raise refuse(errno.EINVAL)
        return super().read(size, position)


class _ErrorLogFile(Seq):
    seek = Seek.TRACING


class _FreeBuffer(OpenFile):
    """free_buffer: a write is ignored; closing shrinks the buffer to its minimum."""

    seek = Seek.NONE

    def __init__(self, flags: int, instance: Instance) -> None:
        super().__init__(flags)
        self._instance = instance

    def write(self, data: bytes, position: int) -> int:
        return len(data)

    def released(self) -> None:
        if self._instance.options["disable_on_free"]:
            self._instance.set_tracing(False)
        self._instance.tracing.is_expanded = True
        with contextlib.suppress(OSError):  # close(2) reports no error
            self._instance.resize(0)
