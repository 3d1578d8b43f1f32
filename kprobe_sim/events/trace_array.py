"""A trace instance without its events (struct trace_array): ring buffer, snapshot, options, clock and pid filters."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from kprobe_sim.events.function_lists import Chosen, FunctionLists
from kprobe_sim.events.options import OPTIONS_OF_TRACERS, SET_AT_FIRST, TRACER_OPTIONS, UNRECORDED, TraceOptions
from kprobe_sim.events.tracing import Tracing
from kprobe_sim.language.primitives.errlog import ErrorLog
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.machine.clock import TraceClock
from kprobe_sim.machine.task import SavedCmdlines, Task
from kprobe_sim.records.entry_type import TRACE_PRINT, TRACE_STACK
from kprobe_sim.records.ring import PAGE_DATA, RingBuffer

_MINIMUM_PAGES = 2
_USER_FRAMES = 8  # FTRACE_STACK_ENTRIES
TRACE_FLAG_NMI = 0x40  # of common_flags


# Measured on 5.10, 6.1, 6.12 and 7.2: tests/conformance/test_open_readers.py.
class Readers:
    """The open readers of trace, trace_pipe and their like; None stands for all CPUs."""

    def __init__(self, *, only: bool = True) -> None:
        self._only = only  # a pipe is refused to a second reader
        self._pipes: set[int | None] = set()  # CPUs whose trace_pipe is open
        self._open_traces: list[int | None] = []  # CPUs whose trace is open
        self.consuming = 0  # how often trace_pipe, trace_pipe_raw or snapshot_raw is open
        self.stops = 0  # how often opening trace stopped recording (pause-on-trace)

    def open_pipe(self, cpu: int | None) -> None:
        """Claim the consuming read of one CPU or all; raise OSError EBUSY if somebody has it."""
        if self._only and (cpu in self._pipes or (self._pipes and (cpu is None or None in self._pipes))):
            raise refuse(errno.EBUSY)
        self._pipes.add(cpu)
        self.consuming += 1

    def close_pipe(self, cpu: int | None) -> None:
        """Give the consuming read back."""
        self._pipes.discard(cpu)
        self.consuming -= 1

    def open_trace(self, cpu: int | None) -> None:
        """Open the trace of one CPU or all."""
        self._open_traces.append(cpu)

    def close_trace(self, cpu: int | None) -> None:
        """Close it again."""
        self._open_traces.remove(cpu)

    def hold(self, cpu: int | None) -> bool:
        """Return True if an open trace keeps the buffer of a CPU (None means of any) from changing its size."""
        return bool(self._open_traces) if cpu is None else not {cpu, None}.isdisjoint(self._open_traces)


class TraceArray:
    """The buffer of one trace instance, and its settings; the top instance has no name.

    `everyone` gives all instances of the kernel, the top one first; an older one has a smaller `number`.
    `marked_since` is greater in an instance that got the marks of the top instance later (copy_trace_marker), 0 in one
    that doesn't get them.
    """

    def __init__(
        self, tracing: Tracing, name: str, options: dict[str, bool], everyone: Callable[[], Iterable[TraceArray]]
    ) -> None:
        machine = tracing.machine
        self.tracing = tracing
        self.machine = machine
        self._everyone = everyone
        self.name = name
        self.number: int = next(tracing.numbers)
        self.options = TraceOptions(options)
        self.cpus = machine.cpus
        pages = _MINIMUM_PAGES if not name else _pages(machine.profile.trace_buffer_size)
        self.buffer: RingBuffer = RingBuffer(machine.cpus, pages, by_event=machine.gates.read_bytes_counted)
        self.buffer.overwrite = self.options["overwrite"]
        self._asked: dict[int, int] = {}  # bytes by CPU, on kernels that show the size that was asked for
        self.has_snapshot = False
        self.masked: frozenset[int] = frozenset()  # CPUs that tracing_cpumask leaves out
        self.clock = TraceClock(machine.clock, machine.profile.default_clock, machine.clock_facts)
        self._is_on = True
        self.records: bool = True  # switched on, and not stopped by a reader
        self.current_tracer: str = "nop"
        self.tracer_was_set: bool = False  # ever
        self.functions: FunctionLists = FunctionLists()
        # what keeps it in use: histograms with variables or actions, newest first, and triggers that share one of them
        self.hist_vars: list[object] = []
        self.marked_since = int(not name)
        self.snapshot_condition: object = None  # the action of a histogram that takes snapshots
        self.error_log: ErrorLog = ErrorLog(machine.clock, machine.gates.error_log_command_size)
        self.enablings = 0  # how often an event was enabled
        self.knobs: dict[str, bytes] = {}  # what was written to files that nothing here depends on
        self.pids: set[int] | None = None
        self.no_pids: set[int] | None = None
        self.pids_came = 0  # the number of events that had come when one of these was written
        self.ftrace_pids: set[int] | None = None
        self.ftrace_no_pids: set[int] | None = None
        self.readers: Readers = Readers(only=machine.gates.one_pipe)
        self.spare_readers: Readers = Readers()  # of the snapshot
        self.open_files = 0
        self.removed = False
        self.started = 0  # time_start of the buffer
        self.renderer: Any = None  # makes the text of the entries (kprobe_sim.text), once somebody has read it

    @cached_property
    def spare(self) -> RingBuffer:
        """The other half of the snapshot (tr->max_buffer)."""
        spare = RingBuffer(self.cpus, 1, by_event=self.machine.gates.read_bytes_counted)
        spare.overwrite = self.options["overwrite"]
        return spare

    # facts that the renderer asks for

    @property
    def cmdlines(self) -> SavedCmdlines:
        return self.machine.cmdlines

    @property
    def release(self) -> str:
        return self.machine.release

    @property
    def preempt_model(self) -> str:
        return self.machine.profile.preempt_model

    @property
    def render_state(self) -> tuple[object, ...]:
        """A value that changes whenever the same entries may have other texts."""
        machine = self.machine
        return (
            self.current_tracer,
            self.options.version,
            machine.cmdlines.version,
            self.tracing.events.version,
            machine.symbols.version,
            self.clock.name,
        )

    def traces(self, task: Task) -> bool:
        """Return True unless set_event_pid or set_event_notrace_pid excludes the task."""
        if self.pids is not None and task.pid not in self.pids:
            return False
        return self.no_pids is None or task.pid not in self.no_pids

    def follow_fork(self, parent: int, child: int) -> None:
        """Let the pid filters include a new child: of events with event-fork, of functions with function-fork."""
        if self.options["function-fork"]:
            for pids in (self.ftrace_pids, self.ftrace_no_pids):
                if pids is not None and parent in pids:
                    pids.add(child)
        if self.options["event-fork"]:
            for pids in (self.pids, self.no_pids):
                if pids is not None and parent in pids:
                    pids.add(child)

    def follow_exit(self, pid: int) -> None:
        """Let the pid filters forget a task that is gone, by the same options."""
        if self.options["function-fork"]:
            for pids in (self.ftrace_pids, self.ftrace_no_pids):
                if pids is not None:
                    pids.discard(pid)
        if self.options["event-fork"]:
            for pids in (self.pids, self.no_pids):
                if pids is not None:
                    pids.discard(pid)

    # the buffer

    def write(self, cpu: int, data: bytes, timestamp: int | None = None, *, buffer: RingBuffer | None = None) -> bool:
        """Put a record into the buffer, unless tracing is off there; wake whoever waits for data.

        `buffer` is the buffer in which the record was reserved: a snapshot may have swapped the buffers since.
        """
        if not self.records or cpu in self.masked:
            return False
        buffer = buffer or self.buffer
        stored = buffer.cpus[cpu].write(self.clock.stamp(timestamp), data, buffer.overwrite)
        if stored:
            self.machine.wake()
        return stored

    def print(self, cpu: int, address: int, text: bytes, header: bytes, timestamp: int | None) -> None:
        """Put a text of the tracer into the buffer (trace_array_puts)."""
        data = struct.pack("<H", TRACE_PRINT) + header[2:8] + struct.pack("<Q", address) + text + b"\0"
        self.write(cpu, data, timestamp)

    def write_stack(self, cpu: int, header: bytes, addresses: Sequence[int], timestamp: int | None) -> None:
        """Put a kernel stack after an event, as options/stacktrace does."""
        data = struct.pack("<H", TRACE_STACK) + header[2:8] + struct.pack("<II", len(addresses), 0)
        self.write(cpu, data + b"".join(struct.pack("<Q", address) for address in addresses), timestamp)

    def write_user_stack(self, cpu: int, header: bytes, task: Task, timestamp: int | None) -> None:
        """Put the task's user stack after an event, as options/userstacktrace does: never in an NMI."""
        if header[2] & TRACE_FLAG_NMI:
            return
        kind = self.tracing.user_stack_type
        tgid = task.pid if task.tgid is None else task.tgid
        frames = [*task.user_stack, *(0,) * _USER_FRAMES][:_USER_FRAMES]
        data = struct.pack("<H", kind) + header[2:8] + struct.pack(f"<II{_USER_FRAMES}Q", tgid, 0, *frames)
        self.write(cpu, data, timestamp)

    # the snapshot

    def allocate_snapshot(self) -> None:
        """Give the spare buffer the size of the buffer, so that the two can be swapped."""
        self.spare.resize_as(self.buffer)
        self.has_snapshot = True

    def free_snapshot(self) -> None:
        """Drop the spare buffer's entries and pages."""
        self.spare.reset()
        self.spare.resize(1)
        self.has_snapshot = False

    def swap_snapshot(self, cpu: int | None = None) -> None:
        """Take a snapshot of one CPU or all: from now on the spare buffer, with whatever it holds, is written to."""
        if cpu is None:
            self.buffer, self.spare = self.spare, self.buffer
        else:
            used, spare = self.buffer.cpus, self.spare.cpus
            used[cpu], spare[cpu] = spare[cpu], used[cpu]
        self.machine.wake()

    def clear(self, cpu: int | None = None) -> None:
        """Empty the buffer of one CPU, or of all."""
        self.buffer.reset(cpu)
        self.started = self.clock.stamp()

    def resize(self, size: int, cpu: int | None = None) -> None:
        """Give the buffer `size` bytes a CPU, in whole pages and at least two; the snapshot's too.

        Raises OSError EBUSY while `trace` is open for reading.
        """
        if self.readers.hold(cpu):
            raise refuse(errno.EBUSY)
        pages = max(_pages(size), _MINIMUM_PAGES)
        self.buffer.resize(pages, cpu)
        if self.has_snapshot:
            self.spare.resize(pages, cpu)
        if self.machine.gates.sizes_as_asked:
            self._asked.update(dict.fromkeys(range(self.cpus) if cpu is None else (cpu,), size))

    def expand(self) -> None:
        """Give the top buffer its full size, as when an event is first enabled (tracing_update_buffers)."""
        if not self.tracing.is_expanded:
            self.tracing.is_expanded = True
            next(iter(self._everyone())).resize(self.machine.profile.trace_buffer_size)

    def size_of(self, cpu: int) -> int:
        """Return the size that is shown for one CPU's buffer: that of its pages, before 5.10 what was asked for."""
        return self._asked[cpu] if cpu in self._asked else self.buffer.pages_of(cpu) * PAGE_DATA

    def set_tracing(self, on: bool) -> None:
        """Switch recording on or off; a reader that waits looks again."""
        self._is_on = on
        self.records = on and not self.readers.stops
        self.machine.wake()

    @property
    def tracing_on(self) -> bool:
        """Whether recording is on, as the kernel shows it: stops by readers count on some kernels."""
        return self._is_on if self.machine.gates.stops_are_hidden else self.records

    def open_trace(self, cpu: int | None) -> None:
        """Open `trace` for reading; the option pause-on-trace stops recording until it is closed."""
        self.readers.open_trace(cpu)
        if self.options["pause-on-trace"]:
            self.readers.stops += 1
            self.records = False

    def close_trace(self, cpu: int | None) -> None:
        """Close `trace` again, which ends one stop, whoever made it."""
        self.readers.close_trace(cpu)
        self.readers.stops -= bool(self.readers.stops)
        self.records = self._is_on and not self.readers.stops

    def set_tracer(self, name: str) -> None:
        """Choose the tracer, which starts with an empty buffer and brings its own options.

        Raises OSError EBUSY while the tracer is in use.
        """
        if name == self.current_tracer:
            return
        if self.tracer_is_held():
            raise refuse(errno.EBUSY)
        self.options.change_tracer(self._options_of(self.current_tracer), self._options_of(name))
        self.current_tracer = name
        self.tracer_was_set = True
        self.clear()
        self.tracing.rearm()

    def _options_of(self, tracer: str) -> dict[str, bool]:
        """Return the options of a tracer and whether each is set at first."""
        tracefs, gates = self.machine.profile.tracefs, self.machine.gates
        paths = {option: f"options/{option}" for option in OPTIONS_OF_TRACERS.get(tracer, ())}
        recorded = {option: tracefs.text(path) == b"1\n" for option, path in paths.items() if tracefs.has_text(path)}
        known = {**UNRECORDED, "function_graph": gates.graph_options}
        return recorded or {option: option in SET_AT_FIRST for option in known.get(tracer, ())}

    def tracer_is_held(self) -> bool:
        """Return whether a consuming reader is open, of the instance or, on some kernels, of any with that tracer."""
        if not self.machine.gates.held_elsewhere:
            return bool(self.readers.consuming)
        return any(other.readers.consuming for other in self._everyone() if other.current_tracer == self.current_tracer)

    def choose_functions(self, name: str, functions: Chosen | None) -> None:
        """Set one of the lists of functions; None clears it."""
        self.functions.choose(name, functions)
        self.tracing.rearm()

    def set_option(self, name: str, value: bool) -> None:
        """Set an option and do what it entails; raise OSError EINVAL if it can't be set."""
        if name == "trace_printk_dest" and value != self.options[name]:
            self._move_printk(value)
        if name == "copy_trace_marker" and value != self.options[name]:
            newest = max(other.marked_since for other in self._everyone())
            self.marked_since = newest + 1 if value else 0
        self.options.set(name, value)
        if name in TRACER_OPTIONS:  # the tracer has one set of options for all instances
            for other in self._everyone():
                other.options.set(name, value)
        if name == "overwrite":
            self.buffer.overwrite = self.spare.overwrite = value

    def _move_printk(self, here: bool) -> None:
        # one instance always has it: the top one can't drop it (trace.c 6.12: set_tracer_flag)
        if not here and not self.name:
            raise refuse(errno.EINVAL)
        for other in self._everyone():
            other.options.set("trace_printk_dest", not here and not other.name)

    def set_clock(self, name: str) -> None:
        """Choose the trace clock; the buffer is cleared, since stamps of two clocks can't be compared."""
        if name not in self.machine.profile.clocks:
            raise refuse(errno.EINVAL)
        self.clock = TraceClock(self.machine.clock, name, self.machine.clock_facts)
        self.clear()
        self.spare.reset()
        if name == "counter":
            self.clock.stamp()  # resetting the spare buffer took a stamp, too


def _pages(size: int) -> int:
    return -(-size // PAGE_DATA)
