"""A trace instance (struct trace_array): a ring buffer, options, and the state of every event in it."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kprobe_sim.clock import TraceClock
from kprobe_sim.errlog import ErrorLog
from kprobe_sim.event_file import EventFile
from kprobe_sim.function_filter import FunctionLists
from kprobe_sim.node import refuse
from kprobe_sim.options import OPTIONS_OF_TRACERS, TRACER_OPTIONS, TraceOptions
from kprobe_sim.readers import Readers
from kprobe_sim.render import TRACE_PRINT, TRACE_STACK
from kprobe_sim.ring import PAGE_DATA, RingBuffer
from kprobe_sim.task import SavedCmdlines, Task

if TYPE_CHECKING:
    from kprobe_sim.dyn_event import DynamicEvent
    from kprobe_sim.hist_data import HistData
    from kprobe_sim.kernel import SimulatedKernel

_MINIMUM_PAGES = 2
_USER_FRAMES = 8  # FTRACE_STACK_ENTRIES
TRACE_FLAG_NMI = 0x40  # of common_flags


class Instance:
    """One trace instance; the top one has no name."""

    def __init__(self, kernel: SimulatedKernel, name: str, options: dict[str, bool]) -> None:
        self.kernel = kernel
        self.name = name
        self.options = TraceOptions(options)
        self.cpus = kernel.cpus
        pages = _MINIMUM_PAGES if not name else _pages(kernel.profile.trace_buffer_size)
        self.buffer: RingBuffer = RingBuffer(kernel.cpus, pages)
        self.buffer.overwrite = self.options["overwrite"]
        self.spare: RingBuffer = RingBuffer(kernel.cpus, 1)  # the other half of the snapshot (tr->max_buffer)
        self.spare.overwrite = self.options["overwrite"]
        self.has_snapshot = False
        self.masked: frozenset[int] = frozenset()  # CPUs that tracing_cpumask leaves out
        self.clock = TraceClock(kernel.clock, kernel.profile.default_clock)
        self._is_on = True
        self.records: bool = True  # switched on, and not stopped by who reads
        self.current_tracer: str = "nop"
        self.functions: FunctionLists = FunctionLists()
        self.histograms: list[HistData] = []  # those with variables or actions, newest first
        self.snapshot_condition: object = None  # the action of a histogram that takes snapshots
        self.error_log: ErrorLog = ErrorLog(kernel.clock, kernel.gates.error_log_command_size)
        self.probe_files: dict[DynamicEvent, EventFile] = {}  # in the order of their coming
        self.elders: frozenset[DynamicEvent] = frozenset()  # those that are older than the instance
        self._static_files: dict[tuple[str, str], EventFile] | None = None
        self.known_files: dict[str, set[str]] = {}  # files in events/ ("") and its systems that were ever looked up
        self.enablings = 0  # how often an event was enabled
        self.knobs: dict[str, bytes] = {}  # numbers written to files that nothing simulated depends on
        self.pids: set[int] | None = None
        self.no_pids: set[int] | None = None
        self.ftrace_pids: set[int] | None = None
        self.ftrace_no_pids: set[int] | None = None
        self.readers: Readers = Readers()
        self.spare_readers: Readers = Readers()  # of the snapshot
        self.open_files = 0
        self.removed = False
        self.started = 0  # time_start of the buffer

    # facts that the renderer asks for

    @property
    def cmdlines(self) -> SavedCmdlines:
        return self.kernel.cmdlines

    @property
    def release(self) -> str:
        return self.kernel.release

    @property
    def preempt_model(self) -> str:
        return self.kernel.profile.preempt_model

    @property
    def render_state(self) -> tuple[object, ...]:
        """Something that is another whenever the same entries may have other texts."""
        kernel = self.kernel
        return (
            self.current_tracer,
            self.options.version,
            kernel.cmdlines.version,
            kernel.probes.version,
            len(kernel.symbols),
            self.clock.name,
        )

    # events

    def add_event(self, event: DynamicEvent) -> None:
        """An event exists now: give it a file in this instance."""
        self.probe_files[event] = EventFile(self, event)

    def remove_event(self, event: DynamicEvent) -> None:
        """The event is gone; an instance in which it was ever enabled loses its whole trace."""
        file = self.probe_files.pop(event, None)
        if file is not None:
            file.freed = True
            if event.system in self.known_files and event.system not in self.event_names():
                del self.known_files[event.system]
            if file.was_enabled:
                self.clear()
                self.spare.reset()

    @property
    def static_files(self) -> dict[tuple[str, str], EventFile]:
        """The files of the static events, by (system, name); made when they are first asked for."""
        if self._static_files is None:
            static = self.kernel.events.static
            self._static_files = {key: EventFile(self, event) for key, event in static.items()}
        return self._static_files

    def static_file(self, key: tuple[str, str]) -> EventFile | None:
        """Return the file of a static event if somebody has ever asked for one: else it isn't enabled."""
        return self._static_files.get(key) if self._static_files else None

    def enabled_files(self) -> Iterator[EventFile]:
        """Yield the files of the events that are enabled."""
        yield from (file for file in self.probe_files.values() if file.enabled)
        yield from (file for file in (self._static_files or {}).values() if file.enabled)

    def enabled_before(self, system: str, prefix: str, other: str, other_prefix: str) -> bool:
        """True if an event of the one system and beginning of a name was enabled before any of the other."""

        def first(system: str, prefix: str) -> int:
            there = (f for f in self.enabled_files() if f.event.system == system and f.event.name.startswith(prefix))
            return min((file.since for file in there), default=self.enablings + 1)

        return first(system, prefix) < first(other, other_prefix)

    def event_files(self) -> Iterator[EventFile]:
        """Yield the event files as the kernel lists them (tr->events).

        What came last stands first; but what is older than the instance stands in its order, static events before.
        """
        yield from reversed([file for event, file in self.probe_files.items() if event not in self.elders])
        yield from self.static_files.values()
        yield from (file for event, file in self.probe_files.items() if event in self.elders)

    def event_names(self, system: str | None = None) -> Iterator[str]:
        """Yield the names of a system's events, None: of all systems, in the order of their directories' making.

        That of the static ones was the kernel's, and is the reverse of it in an instance, dynamic ones first.
        """
        static = self.kernel.events.static_systems(backwards=bool(self.name))
        names = static if system is None else static.get(system, ())
        known = [event for event in self.probe_files if system in (None, event.system)]
        named = [(event.system if system is None else event.name, event in self.elders) for event in known]
        yield from dict.fromkeys(
            [
                *(name for name, is_elder in reversed(named) if is_elder),
                *names,
                *(name for name, is_elder in named if not is_elder),
            ]
        )

    def find(self, system: str, name: str) -> EventFile | None:
        """Return the file of an event, or None."""
        event = self.kernel.probes.event(system, name)
        if event is not None:
            return self.probe_files.get(event)
        return self.static_files.get((system, name))

    def traces(self, task: Task) -> bool:
        """True unless set_event_pid or set_event_notrace_pid excludes the task."""
        if self.pids is not None and task.pid not in self.pids:
            return False
        return self.no_pids is None or task.pid not in self.no_pids

    def follow_fork(self, parent: int, child: int) -> None:
        """Let the pid filters cover a new child, where event-fork is set; function-fork for those of functions."""
        if self.options["function-fork"]:
            for pids in (self.ftrace_pids, self.ftrace_no_pids):
                if pids is not None and parent in pids:
                    pids.add(child)
        if self.options["event-fork"]:
            for pids in (self.pids, self.no_pids):
                if pids is not None and parent in pids:
                    pids.add(child)

    def follow_exit(self, pid: int) -> None:
        """Let the pid filters forget a task that is gone, where event-fork is set; function-fork likewise."""
        if self.options["function-fork"]:
            for pids in (self.ftrace_pids, self.ftrace_no_pids):
                if pids is not None:
                    pids.discard(pid)
        if self.options["event-fork"]:
            for pids in (self.pids, self.no_pids):
                if pids is not None:
                    pids.discard(pid)

    # the buffer

    def write(self, cpu: int, data: bytes, at: int | None = None, *, buffer: RingBuffer | None = None) -> bool:
        """Put a record into the buffer, unless tracing is off there; wake whoever waits for data.

        `buffer` is where the record was reserved, if a snapshot may have swapped the buffers since.
        """
        if not self.records or cpu in self.masked:
            return False
        stored = (buffer or self.buffer).write(cpu, self.clock.stamp(at), data)
        if stored:
            self.kernel.wake()
        return stored

    def print(self, cpu: int, address: int, text: bytes, header: bytes, at: int | None) -> None:
        """Put a text of the tracer's own into the buffer (trace_array_puts)."""
        data = struct.pack("<H", TRACE_PRINT) + header[2:8] + struct.pack("<Q", address) + text + b"\0"
        self.write(cpu, data, at)

    def write_stack(self, cpu: int, header: bytes, addresses: Sequence[int], at: int | None) -> None:
        """Put a kernel stack behind an event, as options/stacktrace does."""
        data = struct.pack("<H", TRACE_STACK) + header[2:8] + struct.pack("<II", len(addresses), 0)
        self.write(cpu, data + b"".join(struct.pack("<Q", address) for address in addresses), at)

    def write_user_stack(self, cpu: int, header: bytes, task: Task, at: int | None) -> None:
        """Put where a task is in its program behind an event, as options/userstacktrace does: never in an NMI."""
        if header[2] & TRACE_FLAG_NMI:
            return
        kind = self.kernel.events.static["ftrace", "user_stack"].id
        tgid = task.pid if task.tgid is None else task.tgid
        frames = [*task.user_stack, *(0,) * _USER_FRAMES][:_USER_FRAMES]
        data = struct.pack("<H", kind) + header[2:8] + struct.pack(f"<II{_USER_FRAMES}Q", tgid, 0, *frames)
        self.write(cpu, data, at)

    # the snapshot

    def allocate_snapshot(self) -> None:
        """Give the spare buffer the size of the buffer, so that the two can be swapped."""
        for spare, used in zip(self.spare.cpus, self.buffer.cpus, strict=True):
            spare.resize(used.nr_pages)
        self.has_snapshot = True

    def free_snapshot(self) -> None:
        """Drop the spare buffer's entries and pages."""
        self.spare.reset()
        self.spare.resize(1)
        self.has_snapshot = False

    def swap_snapshot(self, cpu: int | None = None) -> None:
        """Take a snapshot, of one CPU or all: the spare buffer, with whatever it holds, is written to from now on."""
        if cpu is None:
            self.buffer, self.spare = self.spare, self.buffer
        else:
            used, spare = self.buffer.cpus, self.spare.cpus
            used[cpu], spare[cpu] = spare[cpu], used[cpu]
        self.kernel.wake()

    def clear(self, cpu: int | None = None) -> None:
        """Empty the buffer of one CPU, or of all."""
        self.buffer.reset(cpu)
        self.started = self.kernel.clock()

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

    def size_of(self, cpu: int) -> int:
        """Return the bytes that one CPU's buffer can hold."""
        return self.buffer.cpus[cpu].nr_pages * PAGE_DATA

    def set_tracing(self, on: bool) -> None:
        """Switch recording on or off; a reader that waits looks again."""
        self._is_on = on
        self.records = on and not self.readers.stops
        self.kernel.wake()

    @property
    def tracing_on(self) -> bool:
        """Whether recording is on, as the kernel tells it: who stops it for reading may be seen, or not."""
        return self._is_on if self.kernel.gates.stops_are_hidden else self.records

    def open_trace(self, cpu: int | None) -> None:
        """Let `trace` be looked at; the option pause-on-trace stops recording meanwhile."""
        self.readers.look(cpu)
        if self.options["pause-on-trace"]:
            self.readers.stops += 1
            self.records = False

    def close_trace(self, cpu: int | None) -> None:
        """Let it be looked at no more; one stop less, whoever made it."""
        self.readers.look_away(cpu)
        self.readers.stops -= bool(self.readers.stops)
        self.records = self._is_on and not self.readers.stops

    def set_tracer(self, name: str) -> None:
        """Choose the tracer, which starts with an empty buffer and brings options of its own.

        Raises OSError EBUSY while a consuming reader of the instance is open.
        """
        if name == self.current_tracer:
            return
        if self.readers.consuming:
            raise refuse(errno.EBUSY)
        there = self.kernel.profile.directory("options")
        old = OPTIONS_OF_TRACERS.get(self.current_tracer, ())
        new = [option for option in OPTIONS_OF_TRACERS.get(name, ()) if option in there]
        recorded = {option: self.kernel.profile.file_text(f"options/{option}") == b"1\n" for option in new}
        self.options.change_tracer(old, recorded)
        self.current_tracer = name
        self.clear()
        self.kernel.hits.rearm()

    def set_option(self, name: str, value: bool) -> None:
        """Set an option and do what it entails; OSError EINVAL if it can't be."""
        if name == "trace_printk_dest" and value != self.options[name]:
            self._move_printk(value)
        if name == "copy_trace_marker" and value != self.options[name]:
            if value:
                self.kernel.marked.insert(0, self)
            else:
                self.kernel.marked.remove(self)
        self.options.set(name, value)
        if name in TRACER_OPTIONS:  # the tracer has one set of options for all instances
            for other in self.kernel.all_instances():
                other.options.set(name, value)
        if name == "overwrite":
            self.buffer.overwrite = self.spare.overwrite = value

    def _move_printk(self, here: bool) -> None:
        # one instance always has it, and the top one can't give it away (trace.c 6.12: set_tracer_flag)
        if not here and not self.name:
            raise refuse(errno.EINVAL)
        for other in self.kernel.all_instances():
            other.options.set("trace_printk_dest", not here and other is self.kernel.top)

    def set_clock(self, name: str) -> None:
        """Choose the trace clock; the buffer is cleared, since stamps of two clocks can't be compared."""
        if name not in self.kernel.profile.clocks:
            raise refuse(errno.EINVAL)
        self.clock = TraceClock(self.kernel.clock, name)
        self.clear()
        self.spare.reset()


def _pages(size: int) -> int:
    return -(-size // PAGE_DATA)
