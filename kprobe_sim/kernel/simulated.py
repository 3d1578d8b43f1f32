"""The simulated kernel: it owns the profile, symbols, tasks, clock, events and trace instances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING

from kprobe_sim.builds.gates import Gates
from kprobe_sim.builds.profile import Profile
from kprobe_sim.builds.profile import load as load_profile
from kprobe_sim.builds.symbol import Symbol
from kprobe_sim.events.dyn_event import DynamicEvent
from kprobe_sim.events.event import Event
from kprobe_sim.events.event_table import EventTable
from kprobe_sim.events.instances import Instances
from kprobe_sim.events.recording import Recorder
from kprobe_sim.events.static_table import StaticEvents
from kprobe_sim.events.tracing import Tracing
from kprobe_sim.machine.clock import TSC_KHZ
from kprobe_sim.machine.simulated import INIT, SimulatedMachine
from kprobe_sim.machine.task import Task
from kprobe_sim.probes.hits.call import Call
from kprobe_sim.probes.hits.hits import Hits
from kprobe_sim.probes.hits.program_call import PROGRAM_BASE, ProgramCall
from kprobe_sim.probes.kprobes import Kprobes
from kprobe_sim.probes.probe_kind import DynEventList
from kprobe_sim.probes.registry import ProbeRegistry
from kprobe_sim.tree.files.inprocess import SimTracefs
from kprobe_sim.tree.files.operation import Listener
from kprobe_sim.tree.modes import Modes, TreeParts
from kprobe_sim.tree.tree import InstanceDir

if TYPE_CHECKING:
    from kprobe_sim.events.hist.files import HistFiles
    from kprobe_sim.events.static.emission import Emission
    from kprobe_sim.events.static.static_record import FieldValue
    from kprobe_sim.events.static.task_life import SystemCall, TaskLife
    from kprobe_sim.language.filters.predicate import Predicate
    from kprobe_sim.probes.hits.program_hits import ProgramHits
    from kprobe_sim.tree.files.node import Node


class SimulatedKernel:
    """A kernel of the recorded build that `kernel` names: "6.1", "6.1.0-54-cloud-amd64", "" for the newest.

    It may also be the path of a profile ("tests/mine.kprofile"), a file or a directory, or a loaded profile.  `cpus`
    is the number of CPUs (default: as recorded).  `clock` gives the machine's time in nanoseconds (default: a
    `VirtualClock`, which moves only when it is read).  `tsc_khz` is the rate of the TSC, which the trace clock x86-tsc
    shows; at 1,000,000 it counts nanoseconds, as `at` does.  Any thread may call any method.

    Raises ValueError for a profile that doesn't exist or is damaged, and for a TSC that doesn't count.
    """

    def __init__(
        self,
        kernel: str | Profile = "",
        *,
        cpus: int | None = None,
        clock: Callable[[], int] | None = None,
        tsc_khz: int = TSC_KHZ,
    ) -> None:
        profile = self.profile = load_profile(kernel) if isinstance(kernel, str) else kernel
        machine = self.machine = SimulatedMachine(profile, cpus, clock, tsc_khz)
        self.release = machine.release
        self.symbols = machine.symbols
        self.gates = machine.gates
        self.cpus = machine.cpus
        self.clock = machine.clock
        self.condition = machine.condition
        self.listener: Listener | None = None  # is told each operation by which a program changes something
        self.memory = machine.memory
        self.tasks = machine.tasks
        self.files = machine.files
        self.events = EventTable(
            StaticEvents.of(profile),
            profile.first_dynamic_id,
            profile.reuses_ids,
            keeps_removed=self.gates.first_language,
        )
        tracing = Tracing(machine, self.events)
        self.instances = Instances(tracing)
        self.top = self.instances.top
        self.probes = ProbeRegistry(machine, self.events, self, self.top.error_log, _kprobes(self.gates))
        self._recorder = Recorder(tracing)
        self.hits = Hits(self.instances, self.probes, self._recorder)
        parts = TreeParts(Modes.of(self.profile), self.instances, self.probes, lambda: self.hists)
        self.root = InstanceDir(self.top, parts)
        self.tracefs = SimTracefs(self)

    # parts that few kernels need are imported when they are first used

    @cached_property
    def statics(self) -> Emission:
        """The emitter of static events."""
        from kprobe_sim.events.static.emission import Emission

        return Emission(self.instances, self._recorder)

    @cached_property
    def programs(self) -> ProgramHits:
        """The hits of uprobes in programs."""
        from kprobe_sim.probes.hits.program_hits import ProgramHits

        return ProgramHits(self.instances, self.probes.uprobes, self._recorder)

    @cached_property
    def life(self) -> TaskLife:
        """The static events of what tasks do."""
        from kprobe_sim.events.static.task_life import TaskLife

        return TaskLife(self.top, self.statics)

    @cached_property
    def hists(self) -> HistFiles:
        """The histograms behind trigger and hist files."""
        from kprobe_sim.events.hist.files import HistFiles
        from kprobe_sim.events.hist.synthetic import SyntheticTargets
        from kprobe_sim.tree.trigger_file import set_filter

        return HistFiles(SyntheticTargets(self.instances, self._recorder), set_filter)

    @cached_property
    def sysctls(self) -> dict[str, Node]:
        """The files of /proc/sys that switch tracing, by their paths."""
        from kprobe_sim.tree.sysctls import sysctls

        return sysctls(self.machine, self._switch_ftrace)

    def _switch_ftrace(self, on: bool) -> None:
        self.machine.ftrace_enabled = on
        self.top.tracing.rearm()

    @property
    def writer(self) -> Task:
        """The task that writes to the tracefs; marks carry its pid."""
        return self.machine.writer

    @writer.setter
    def writer(self, task: Task) -> None:
        self.machine.writer = task

    # what the machine does

    def call(
        self,
        function: str,
        *,
        task: Task = INIT,
        args: Sequence[int | str | bytes] = (),
        returns: int | None = 0,
        caller: str = "",
        registers: Mapping[str, int] | None = None,
        memory: Mapping[int, bytes] | None = None,
        stack: Sequence[str | int] = (),
        offset: int = 0,
        cpu: int = 0,
        at: int | None = None,
        duration: int | None = None,
        within: Callable[[], None] | None = None,
        context: tuple[int, int] | None = None,
        unwinding: int = 0,
    ) -> None:
        """Let a task call a function, and return from it.

        `args` are the function's arguments by the calling convention; a str or bytes is put into user memory, with a
        NUL after it, and its address is passed.  `registers` then sets further registers by the kernel's names, and
        `memory` is mapped for the call.  `stack` is the chain of return addresses from the caller outwards ("sym+0x5"
        or numbers), `caller` the first of them ("__x64_sys_openat" alone: where this build calls from in there).
        `offset` is that of the instruction that is hit instead of the entry.  `returns` None: the function doesn't
        return.  `at` is the time of the entry in ns, and `duration` the ns until the return; `within`, what the
        function does, is called between them.  `context` is the records' common_flags and common_preempt_count
        (default: a task's plain context), `unwinding` the ns until the record of a stack, where `at` is given.

        At the return, ax has the result, and the registers that a function preserves (bx, bp, r12 to r15) are as they
        were.  The others hold made-up numbers that aren't addresses, unless `registers` sets them.

        Raises ValueError for a symbol, register or CPU that the kernel lacks.
        """
        registers, memory = dict(registers) if registers else {}, dict(memory) if memory else {}
        args, stack, returned = tuple(args), tuple(stack), None
        # in the order of Call's fields, under their names (a test compares them); Call(…) would take twice as long
        fields = (
            function, task, args, returns, caller, registers, memory, stack, offset, cpu, at, duration, returned,
            context, unwinding,
        )  # fmt: skip
        self.perform(tuple.__new__(Call, fields), within)

    def perform(self, call: Call, within: Callable[[], None] | None = None) -> None:
        """Make a call that is given as one value."""
        with self.machine.lock:
            self.tasks[call.task.pid] = call.task
            self.hits.run(call, within)

    def program_call(
        self,
        path: str,
        offset: int,
        *,
        task: Task = INIT,
        args: Sequence[int | str | bytes] = (),
        returns: int | None = 0,
        caller: int = 0,
        registers: Mapping[str, int] | None = None,
        memory: Mapping[int, bytes] | None = None,
        base: int = PROGRAM_BASE,
        cpu: int = 0,
        at: int | None = None,
        duration: int | None = None,
        within: Callable[[], None] | None = None,
        context: tuple[int, int] | None = None,
    ) -> None:
        """Let a task reach an instruction of a program or library, and return from the function that begins there.

        Uprobes at `offset` of the file `path` are hit.  `base` is the address where its first byte is mapped, `caller`
        the one that the function returns to.  The other arguments are as for `call`, but all memory is the program's.
        `returns` None: the instruction is reached, and nothing returns.

        Raises ValueError for a file, register or CPU that the machine lacks.
        """
        arguments = (path, offset, task, tuple(args), returns, caller, registers or {}, memory or {})
        with self.machine.lock:
            self.tasks[task.pid] = task
            self.programs.run(ProgramCall(*arguments, base, cpu, at, duration, context), within)

    def calls(self, batch: Iterable[Call]) -> None:
        """Make many calls, one after the other; it does the same as `call` for each, but faster.

        The kernel is locked until the last one is made, and also while the next is computed: a generator must not wait
        for another thread.  Raises ValueError as `call` does; by then the calls before it are made.
        """
        tasks, run = self.tasks, self.hits.run
        with self.machine.lock:
            for call in batch:
                tasks[call.task.pid] = call.task
                run(call)

    def emit(
        self,
        event: str,
        *,
        task: Task = INIT,
        fields: Mapping[str, FieldValue] | None = None,
        cpu: int = 0,
        at: int | None = None,
        flags: int | None = None,
        preempt_count: int | None = None,
        stack: Sequence[int] = (),
    ) -> None:
        """Emit a static event: "sched/sched_switch", with values by the names in its format file.

        A field without a value is zero or empty.  Char arrays, strings of variable length and char pointers (to the
        kernel's own strings) take a string, other arrays a sequence of numbers.  `flags` and `preempt_count` are those
        of the record (default: usual ones for the event), `stack` has the return addresses for stack traces.

        Raises ValueError for an event, field or CPU that the kernel lacks, a value that doesn't fit, and an event whose
        text only the kernel's own code can make.
        """
        if not 0 <= cpu < self.cpus:
            raise ValueError(f"there is no CPU {cpu}")
        from kprobe_sim.events.static.emission import Context

        context = Context(flags, preempt_count, cpu, at, stack)
        with self.condition:
            self.tasks[task.pid] = task
            self.statics.emit(event, task, fields or {}, context)

    def system_call(
        self,
        name: str,
        *,
        task: Task = INIT,
        args: Sequence[int | str | bytes] = (),
        returns: int | None = 0,
        memory: Mapping[int, bytes] | None = None,
        cpu: int = 0,
    ) -> AbstractContextManager[SystemCall]:
        """Let a task make a system call, within which the `with` block runs.

        The events of raw_syscalls and syscalls fire at its entry and exit; use `call` for the functions.  The name is
        the kernel's ("newfstat"); a str or bytes among `args` is put into user memory, and `memory` adds to that by
        address.  `returns` None: it doesn't return; the block may set the result.  Raises ValueError if there is no
        such system call.
        """
        return self.life.system_call(name, task, args, returns, memory or {}, cpu)

    def fork(self, parent: Task, child: Task, *, flags: int = 0x1200000, cpu: int = 0) -> None:
        """Let a task fork: its static events fire, and pid filters with event-fork follow the child.

        `flags` are those of clone(2) (default: as fork of C libraries sets them); use `call` for the functions.
        """
        with self.condition:
            self.tasks[child.pid] = child
            self.life.fork(parent, child, flags, cpu)
            for instance in self.instances:
                instance.follow_fork(parent.pid, child.pid)

    def exec(
        self, task: Task, filename: str | bytes, *, comm: str | bytes = "", cpu: int = 0, old_pid: int | None = None
    ) -> Task:
        """Let a task execute a program: its static events fire; return the task with its new name.

        `comm` is that name (default: the file's), `old_pid` the thread that called (default: the task).
        """
        with self.condition:
            new = self.life.exec(task, filename, comm, cpu, old_pid)
            self.tasks[new.pid] = new
            return new

    def exit(self, task: Task, *, cpu: int = 0, last: bool | None = None) -> None:
        """Let a task end: its static event fires, and pid filters with event-fork forget it.

        `last`: it is the last thread of its process (default: it is the first).
        """
        with self.condition:
            self.life.exit(task, cpu, last)
            for instance in self.instances:
                instance.follow_exit(task.pid)

    def switch(self, previous: Task, following: Task, *, state: int = 0, cpu: int = 0) -> None:
        """Let a CPU switch from one task to another: sched_switch; `state` is that of the previous task."""
        with self.condition:
            self.life.switch(previous, following, state, cpu)

    def threads(self, pid: int) -> list[int]:
        """Return the ids of those threads of a process that have done something; [] if it is unknown."""
        return self.machine.threads(pid)

    def add_function(self, name: str, size: int | None = None, module: str = "") -> Symbol:
        """Declare a function of that name and size in bytes; return its symbol.

        A function of the recorded kernel gets the new size, at its old address if it fits there; without `size` it
        stays as it is.  Any other is added (default: 256 bytes).  `module` is the one that it belongs to.

        Raises ValueError for a size that isn't positive, and for one that moves a function on which there are probes.
        """
        with self.condition:
            moved = None if size is None else self.symbols.is_moved(name, size, module)
            if moved is not None and self.probes.stand_in(range(moved.address, moved.address + moved.size)):
                raise ValueError(
                    f"{name} has 0x{moved.size:x} bytes and probes: it can't have 0x{size:x}, which moves it; "
                    "say its size before it is probed"
                )
            return self.symbols.declare(name, size, module)

    # EventHost: what the dynamic events need

    def compile_filter(self, event: Event, text: str) -> Predicate:
        """Compile a filter of an event's records; a refusal is logged, and raised as OSError."""
        from kprobe_sim.tree.filtering import compile_for

        return compile_for(self.top, event, text)

    def add_event(self, event: DynamicEvent) -> None:
        """Give a probe event its directory, by a function of the kernel that may itself be probed."""
        self.tasks[self.writer.pid] = self.writer
        if self.hits.is_seen("tracefs_create_dir"):
            self.call("tracefs_create_dir", task=self.writer, args=(event.name,))

    def remove_event(self, event: DynamicEvent) -> None:
        """Take a probe event out of every instance; an instance where it was ever enabled loses its trace."""
        self.instances.remove_event(event)

    def enable_event(self, event: DynamicEvent, on: bool) -> None:
        """Enable or disable an event in the top instance, as the patch of 2009 does on its own."""
        self.top.expand()
        self.top.file(event).enable(on)

    def is_busy(self, event: DynamicEvent) -> bool:
        """Return True if the event is enabled in some instance."""
        return bool(self.instances.enabled(event))


def _kprobes(gates: Gates) -> Callable[[DynEventList], Kprobes]:
    """Return the class of the kprobes of a kernel."""
    if not gates.first_language:
        return Kprobes
    from kprobe_sim.probes.patch_2009.kprobes import FirstKprobes

    return FirstKprobes
