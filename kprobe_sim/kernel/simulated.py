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
from kprobe_sim.tree.files.operation import Heard
from kprobe_sim.tree.modes import Modes
from kprobe_sim.tree.tree import InstanceDir
from kprobe_sim.tree.tree_parts import TreeParts

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

    A path ("tests/mine.kprofile") is that of a profile, a file or a directory; or `kernel` is a loaded profile.
    `cpus` is the number of CPUs (default: as recorded); `clock` gives the machine's time in nanoseconds (default: a
    `VirtualClock`, which moves only when it is read), `tsc_khz` what its TSC, the trace clock x86-tsc, counts in a
    millisecond: with 1,000,000 a count is a nanosecond, as `at` is.  Raises ValueError if there is no such profile, for
    one that isn't sound, and for a TSC that doesn't count.  All methods may be called from any thread.
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
        self.heard: Heard | None = None  # is told of each change that a program makes
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

    # what few kernels need: imported when it is first asked for

    @cached_property
    def statics(self) -> Emission:
        """What emits static events."""
        from kprobe_sim.events.static.emission import Emission

        return Emission(self.instances, self._recorder)

    @cached_property
    def programs(self) -> ProgramHits:
        """What programs do."""
        from kprobe_sim.probes.hits.program_hits import ProgramHits

        return ProgramHits(self.instances, self.probes.uprobes, self._recorder)

    @cached_property
    def life(self) -> TaskLife:
        """The static events of what tasks do."""
        from kprobe_sim.events.static.task_life import TaskLife

        return TaskLife(self.top, self.statics)

    @cached_property
    def hists(self) -> HistFiles:
        """What trigger files do with histograms."""
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
        """The task that uses the tracefs: it marks the trace."""
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

        `args` are the function's arguments by the calling convention (a str or bytes is put into user memory, NUL
        after, and its address passed); `registers` sets registers by the kernel's names on top of that; `memory` is
        mapped for the call; `stack` is the chain of return addresses from the caller outwards ("sym+0x5" or numbers),
        `caller` its first ("__x64_sys_openat" alone: where this build calls from there); `offset` lets the task hit
        that instruction instead of the entry.  `returns` None: it doesn't return.  `at` is the time of the entry in ns,
        `duration` the ns until the return; `within` is called between the two: what the function does.
        `context` is common_flags and common_preempt_count of the records (default: those of a task's plain context),
        `unwinding` the ns until the record of a stack, where `at` is given.

        At the return, ax is what is returned and the registers that a function keeps (bx, bp, r12 to r15) are as
        they were.  The others hold made-up numbers that are no addresses, unless `registers` sets
        them.

        Raises ValueError for what the kernel has no symbol for, or a CPU that it hasn't.
        """
        set_, mapped = dict(registers) if registers else {}, dict(memory) if memory else {}
        call = Call(
            function,
            task,
            tuple(args),
            returns,
            caller,
            set_,
            mapped,
            tuple(stack),
            offset,
            cpu,
            at,
            duration,
            None,
            context,
            unwinding,
        )
        self.perform(call, within)

    def perform(self, call: Call, within: Callable[[], None] | None = None) -> None:
        """Make a call that is given as a whole."""
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
        """Let a task come to an instruction of a program or library, and return from the function that begins there.

        Uprobes at `offset` of the file `path` are hit.  `base` is where its first byte is mapped, `caller` the address
        that the function returns to; the rest is as at `call`, but that all memory is the program's.  `returns` None:
        the instruction is met, and nothing returns.

        Raises ValueError for a file, register or CPU that the machine hasn't.
        """
        words = (path, offset, task, tuple(args), returns, caller, registers or {}, memory or {})
        with self.machine.lock:
            self.tasks[task.pid] = task
            self.programs.run(ProgramCall(*words, base, cpu, at, duration, context), within)

    def calls(self, batch: Iterable[Call]) -> None:
        """Make many calls, one after the other: the same as `call` for each of them, and faster.

        Nobody else gets at the kernel until the last is made, nor while the next is being thought up: a generator must
        not wait for another thread.  Raises ValueError as `call` does; the calls before that are made.
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

        A field without a value is zero or empty.  A string is taken for char arrays, strings of variable length and
        char pointers (the kernel's own strings), numbers in a sequence for other arrays.  `flags` and `preempt_count`
        are those of the record (default: what is usual for the event), `stack` the return addresses for stacktraces.

        Raises ValueError for an event, field or CPU that the kernel hasn't, a value that doesn't fit, and for an event
        whose text only the kernel's own code can make.
        """
        if not 0 <= cpu < self.cpus:
            raise ValueError(f"there is no CPU {cpu}")
        from kprobe_sim.events.static.emission import Context

        context = Context(flags, preempt_count)
        with self.condition:
            self.tasks[task.pid] = task
            self.statics.emit(event, task, fields or {}, cpu=cpu, at=at, context=context, stack=stack)

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
        """Let a task make a system call: what the `with` block does is done within it.

        The events of raw_syscalls and syscalls fire at its entry and exit; functions are up to `call`.  The name is the
        kernel's ("newfstat"); a str or bytes among `args` lies in user memory, `memory` is more of it by address.
        `returns` None: it doesn't return; the block may set it.  Raises ValueError if there is no such system call.
        """
        return self.life.system_call(name, task, args, returns, memory or {}, cpu)

    def fork(self, parent: Task, child: Task, *, flags: int = 0x1200000, cpu: int = 0) -> None:
        """Let a task fork: its static events fire, and pid filters with event-fork follow.

        `flags` are those of clone(2) (default: of fork in C libraries); the functions it calls are up to `call`.
        """
        with self.condition:
            self.tasks[child.pid] = child
            self.life.fork(parent, child, flags, cpu)
            for instance in self.instances:
                instance.follow_fork(parent.pid, child.pid)

    def exec(
        self, task: Task, filename: str | bytes, *, comm: str | bytes = "", cpu: int = 0, old_pid: int | None = None
    ) -> Task:
        """Let a task execute a program: its static events fire; return the task under its new name.

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
        """Let a CPU switch from one task to another: sched_switch; `state` is what the previous one waits in."""
        with self.condition:
            self.life.switch(previous, following, state, cpu)

    def threads(self, pid: int) -> list[int]:
        """Return the thread ids of a process, as far as its threads have done something; [] if unknown."""
        return self.machine.threads(pid)

    def add_function(self, name: str, size: int | None = None, module: str = "") -> Symbol:
        """Have a function of that name and size in bytes; return its symbol.

        One that the recorded kernel has gets that size, at its address if it fits there, and without `size` stays as
        it is; one that it hasn't is added (default: 256 bytes).  `module` is the one that it is in.

        Raises ValueError for a size that isn't positive, or one that moves a function on which probes stand.
        """
        with self.condition:
            moved = None if size is None else self.symbols.is_moved(name, size, module)
            if moved is not None and self.probes.stand_in(range(moved.address, moved.address + moved.size)):
                raise ValueError(
                    f"{name} has 0x{moved.size:x} bytes and probes: it can't have 0x{size:x}, which moves it; "
                    "say its size before it is probed"
                )
            return self.symbols.declare(name, size, module)

    # EventHost: what the dynamic events ask

    def compile_filter(self, event: Event, text: str) -> Predicate:
        """Compile a filter of an event's records; a refused one is logged, and raised as OSError."""
        from kprobe_sim.tree.filtering import compile_for

        return compile_for(self.top, event, text)

    def add_event(self, event: DynamicEvent) -> None:
        """Give a probe event its directory: the kernel calls a function for that, which may be probed."""
        self.tasks[self.writer.pid] = self.writer
        if self.hits.looks_at("tracefs_create_dir"):
            self.call("tracefs_create_dir", task=self.writer, args=(event.name,))

    def remove_event(self, event: DynamicEvent) -> None:
        """Take a probe event out of every instance; where it was ever enabled the trace is lost."""
        self.instances.remove_event(event)

    def enable_event(self, event: DynamicEvent, on: bool) -> None:
        """Enable or disable an event at the top, as the patch of 2009 does by itself."""
        self.top.expand()
        self.top.file(event).enable(on)

    def is_busy(self, event: DynamicEvent) -> bool:
        """True if the event is enabled in some instance."""
        return bool(self.instances.enabled(event))


def _kprobes(gates: Gates) -> Callable[[DynEventList], Kprobes]:
    """Return what makes the kprobes of a kernel."""
    if not gates.first_language:
        return Kprobes
    from kprobe_sim.probes.of_2009.kprobes import FirstKprobes

    return FirstKprobes
