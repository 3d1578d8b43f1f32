"""The simulated kernel: it owns the profile, symbols, tasks, clock, events and trace instances."""

from __future__ import annotations

import errno
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial

from kprobe_sim.call import Call
from kprobe_sim.clock import VirtualClock
from kprobe_sim.dyn_event import DynamicEvent
from kprobe_sim.emission import Context, Emission
from kprobe_sim.event import Event, EventTable, StaticEvent
from kprobe_sim.event_file import EventFile
from kprobe_sim.expose.inprocess import SimTracefs
from kprobe_sim.filter_gates import filter_gates
from kprobe_sim.filtering import compile_for
from kprobe_sim.gates import gates_for
from kprobe_sim.hist import HistTrigger
from kprobe_sim.hits import Hits
from kprobe_sim.instance import Instance
from kprobe_sim.machine_files import MachineFiles
from kprobe_sim.memory import Memory, banners
from kprobe_sim.node import refuse
from kprobe_sim.predicate import Predicate
from kprobe_sim.probes import ProbeRegistry
from kprobe_sim.profile import load as load_profile
from kprobe_sim.prototypes import PrototypeTable
from kprobe_sim.static_record import FieldValue
from kprobe_sim.symbols import Symbol
from kprobe_sim.task import SavedCmdlines, Task
from kprobe_sim.task_life import SystemCall, TaskLife
from kprobe_sim.tree import InstanceDir, Modes

_INIT = Task(1, "init")
_NAME_MAX = 255
_TRAMPOLINES = ("arch_rethook_trampoline", "__kretprobe_trampoline", "kretprobe_trampoline")  # 5.18 and later, before


class SimulatedKernel:
    """A kernel of the recorded build that `kernel` names: "6.1", "6.1.0-54-cloud-amd64", or "" for the newest.

    `cpus` is the number of CPUs (default: as recorded); `clock` gives the machine's time in nanoseconds (default: a
    `VirtualClock`, which moves only when it is read).  Raises ValueError if there is no such profile.  All methods may
    be called from any thread.
    """

    def __init__(self, kernel: str = "", *, cpus: int | None = None, clock: Callable[[], int] | None = None) -> None:
        self.profile = load_profile(kernel)
        self.release = self.profile.release
        self.symbols = self.profile.fresh_symbols()
        self.gates = gates_for(self.profile.number)
        self.filter_gates = filter_gates(self.profile.number)
        self.cpus = cpus or self.profile.cpus
        self.clock: Callable[[], int] = VirtualClock() if clock is None else clock
        self.condition = threading.Condition(threading.RLock())
        self.expanded = False  # ring_buffer_expanded: the buffers have their full size
        self.cmdlines = SavedCmdlines(self.profile.saved_cmdlines_size)
        self.memory = Memory(self.symbols, banners(self.profile.banner))
        self.writer: Task = _INIT  # the task that uses the tracefs (it marks the trace)
        self.tasks: dict[int, Task] = {}
        self.files = MachineFiles()  # that uprobes may be on
        self._subscribers: dict[object, Callable[[], None]] = {}
        self._hash_key = self.release.encode()
        self._functions = (-1, b"")  # number of symbols, text of available_filter_functions
        self._addresses = (-1, b"")  # the same of available_filter_functions_addrs
        self.events = EventTable(self._static_events, self.profile.first_dynamic_id, self.gates.lowest_free_id)
        self.instances: dict[str, Instance] = {}
        self.named_histograms: dict[str, HistTrigger] = {}
        self.top = Instance(self, "", dict(self.profile.options))
        self.marked: list[Instance] = [self.top]  # that marks of the top instance go to (copy_trace_marker)
        self.probes: ProbeRegistry = ProbeRegistry(
            self.symbols,
            self.gates,
            self.top.error_log,
            self,
            self.hashed_pointer,
            self.cpus,
            self._types,
            self.files,
            synthetic="synthetic_events" in self.profile.directory(""),
        )
        self.hits = Hits(self)
        self.statics = Emission(self)
        self.life = TaskLife(self)
        modes = Modes.of(self.profile)
        self.root = InstanceDir(self.top, modes)
        self.tracefs = SimTracefs(self)

    def _types(self) -> PrototypeTable | None:
        return self.profile.types

    # what the machine does

    def call(
        self,
        function: str,
        *,
        task: Task = _INIT,
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
    ) -> None:
        """Let a task call a function, and return from it.

        `args` are the function's arguments by the calling convention (a str or bytes is put into user memory, NUL
        behind, and its address passed); `registers` sets registers by the kernel's names on top of that; `memory` is
        mapped for the call; `stack` is the chain of return addresses from the caller outwards ("sym+0x5" or numbers),
        `caller` its first ("__x64_sys_openat" alone: where this build calls from there); `offset` lets the task hit
        that instruction instead of the entry.  `returns` None: it doesn't return.  `at` is the time of the entry in ns,
        `duration` the ns until the return; `within` is called between the two: what the function does.

        At the return, ax is what is returned and the registers that a function keeps (bx, bp, r12 to r15) are as
        they were.  The others hold made-up numbers that are no addresses, unless `registers` sets
        them.

        Raises ValueError for what the kernel has no symbol for, or a CPU that it hasn't.
        """
        words = tuple(args), returns, caller, dict(registers or {}), dict(memory or {}), tuple(stack)
        self.perform(Call(function, task, *words, offset, cpu, at, duration), within)

    def perform(self, call: Call, within: Callable[[], None] | None = None) -> None:
        """Let a call happen, all of which is told."""
        with self.condition:
            self.tasks[call.task.pid] = call.task
            self.hits.run(call, within)

    def emit(
        self,
        event: str,
        *,
        task: Task = _INIT,
        fields: Mapping[str, FieldValue] | None = None,
        cpu: int = 0,
        at: int | None = None,
        flags: int | None = None,
        preempt_count: int | None = None,
        stack: Sequence[int] = (),
    ) -> None:
        """Let a static event happen: "sched/sched_switch", with values by the names in its format file.

        A field without a value is zero or empty.  A string is taken for char arrays, strings of variable length and
        char pointers (the kernel's own strings), numbers in a sequence for other arrays.  `flags` and `preempt_count`
        are those of the record (default: what is usual for the event), `stack` the return addresses for stacktraces.

        Raises ValueError for an event, field or CPU that the kernel hasn't, a value that doesn't fit, and for an event
        whose text only the kernel's own code can make.
        """
        if not 0 <= cpu < self.cpus:
            raise ValueError(f"there is no CPU {cpu}")
        context = Context(flags, preempt_count)
        with self.condition:
            self.tasks[task.pid] = task
            self.statics.emit(event, task, fields or {}, cpu=cpu, at=at, context=context, stack=stack)

    def system_call(
        self,
        name: str,
        *,
        task: Task = _INIT,
        args: Sequence[int | str | bytes] = (),
        returns: int | None = 0,
        memory: Mapping[int, bytes] | None = None,
        cpu: int = 0,
    ) -> AbstractContextManager[SystemCall]:
        """Let a task make a system call: what happens in the `with` block happens within it.

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
            for instance in self.all_instances():
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
            for instance in self.all_instances():
                instance.follow_exit(task.pid)

    def switch(self, previous: Task, following: Task, *, state: int = 0, cpu: int = 0) -> None:
        """Let a CPU switch from one task to another: sched_switch; `state` is what the previous one waits in."""
        with self.condition:
            self.life.switch(previous, following, state, cpu)

    def threads(self, pid: int) -> list[int]:
        """Return the thread ids of a process, as far as its threads have done something; [] if unknown."""
        return sorted(
            task.pid for task in list(self.tasks.values()) if (task.pid if task.tgid is None else task.tgid) == pid
        )

    def add_function(self, name: str, size: int = 0x100, module: str = "") -> Symbol:
        """Add a function that the recorded kernel hasn't; return its symbol."""
        with self.condition:
            return self.symbols.add(name, size=size, module=module)

    # what the tracefs asks

    def all_instances(self) -> list[Instance]:
        """Return the top instance and all others."""
        return [self.top, *self.instances.values()]

    def add_instance(self, name: str) -> None:
        """Make an instance, as mkdir in instances/ does."""
        if len(name.encode()) > _NAME_MAX:
            raise refuse(errno.ENAMETOOLONG)
        if name in self.instances:
            raise refuse(errno.EEXIST)
        instance = Instance(self, name, self.top.options.inherited())
        for event in self.probes.events():
            instance.add_event(event)
        instance.elders = frozenset(instance.probe_files)
        self.instances[name] = instance

    def remove_instance(self, name: str) -> None:
        """Remove an instance, with what it had enabled."""
        instance = self.instances.pop(name)
        instance.removed = True
        self.marked = [other for other in self.marked if other is not instance]
        if instance.options["trace_printk_dest"]:
            self.top.options.set("trace_printk_dest", True)
        self.hits.rearm()

    def expand(self) -> None:
        """Give the top buffer its full size, which it gets when an event is first enabled (tracing_update_buffers)."""
        if not self.expanded:
            self.expanded = True
            self.top.resize(self.profile.trace_buffer_size)

    def hashed_pointer(self, address: int) -> int:
        """Return what printk's %p shows for an address: 32 bits of a keyed hash, the same for this kernel always."""
        digest = hashlib.blake2b(address.to_bytes(8, "little"), digest_size=4, key=self._hash_key[:64]).digest()
        return int.from_bytes(digest, "little")

    def symbol_text(self, address: int, offset: bool) -> bytes:
        """Return an address as sprint_symbol() does: NAME+0xOFF/0xSIZE [MODULE], or in hex without a symbol."""
        symbol = self.symbols.at(address)
        if symbol is None:
            return b"0x%08x" % address
        text = symbol.name
        if offset:
            text += f"+0x{address - symbol.address:x}/0x{symbol.size:x}"
        if symbol.module and offset:
            text += f" [{symbol.module}]"
        return text.encode()

    def is_trampoline(self, address: int) -> bool:
        """True where the kernel says that a return probe has replaced what was there: at its start, or all of it."""
        start = self.return_trampoline
        return address == start or (
            self.gates.trampoline_by_name and self.symbols.at(address) == self.symbols.at(start)
        )

    @cached_property
    def return_trampoline(self) -> int:
        """The address that return probes put in the place of a return address; 0 if there is no such symbol."""
        for name in _TRAMPOLINES:
            for symbol in self.symbols.lookup(name):
                return symbol.address
        return 0

    @property
    def marker_ip(self) -> int:
        """An address inside tracing_mark_write, as its records carry it."""
        return self.symbols.lookup("tracing_mark_write")[0].address + self.profile.marker_offset

    def available_events(self) -> bytes:
        """Return the text of available_events: newest first."""
        names = [f"{event.system}:{event.name}\n" for event in reversed(self.probes.events())]
        names += [f"{event.system}:{event.name}\n" for event in self.events.static.values() if event.can_enable]
        return "".join(names).encode()

    def available_functions(self) -> bytes:
        """Return the text of available_filter_functions; the same object until a function is added."""
        count = len(self.symbols)
        if self._functions[0] != count:
            self._functions = (count, "".join(f"{name}\n" for name in self.symbols.traceable_names()).encode())
        return self._functions[1]

    def function_addresses(self) -> bytes:
        """Return the text of available_filter_functions_addrs; the same object until a function is added."""
        count = len(self.symbols)
        if self._addresses[0] != count:
            lines = (f"{address:016x} {name}\n" for address, name in self.symbols.traceable_places())
            self._addresses = (count, "".join(lines).encode())
        return self._addresses[1]

    def event_by_id(self, number: int) -> DynamicEvent | None:
        """Return the probe event with that id."""
        return self.events.dynamic(number)

    def has_system(self, name: str) -> bool:
        """True if some event is in that system."""
        return name in self.events.static_systems() or any(event.system == name for event in self.probes.events())

    # EventHost: what the dynamic events ask

    def static_event(self, system: str, name: str) -> StaticEvent | None:
        """Return the static event of that name, or None."""
        return self.events.static.get((system, name))

    def compile_filter(self, event: Event, text: str) -> Predicate:
        """Compile a filter of an event's records; a refused one is logged, and raised as OSError."""
        return compile_for(self.top, event, text)

    def add_event(self, event: DynamicEvent) -> None:
        """Give a probe event its id and its files in every instance."""
        self.events.add(event)
        self.call("tracefs_create_dir", task=self.writer, args=(event.name,))
        for instance in self.all_instances():
            instance.add_event(event)

    def remove_event(self, event: DynamicEvent) -> None:
        """Take a probe event out of every instance; where it was ever enabled the trace is lost."""
        self.events.remove(event)
        for instance in self.all_instances():
            instance.remove_event(event)

    def is_busy(self, event: DynamicEvent) -> bool:
        """True if the event is enabled in some instance."""
        return any(file.enabled for file in self._files(event))

    def _files(self, event: DynamicEvent) -> Iterator[EventFile]:
        for instance in self.all_instances():
            file = instance.probe_files.get(event)
            if file is not None:
                yield file

    def _static_events(self) -> list[StaticEvent]:
        return [
            StaticEvent(
                facts.system,
                facts.name,
                facts.id,
                partial(self.profile.event_format, facts.system, facts.name),
                facts.files,
            )
            for facts in self.profile.static_events()
        ]

    # waking readers

    def wake(self) -> None:
        """Tell whoever waits for data to look again; called with the kernel's lock held."""
        self.condition.notify_all()
        for callback in list(self._subscribers.values()):
            callback()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever data may have come (it must not call back); return what ends that."""
        token = object()
        self._subscribers[token] = callback
        return lambda: self._subscribers.pop(token, None) and None
