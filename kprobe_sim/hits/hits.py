"""Calls of the simulated machine meeting probes: hits become records in the instances that want them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from kprobe_sim.events.event import Event
from kprobe_sim.events.event_file import EventFile, Hit
from kprobe_sim.events.instance import Instance
from kprobe_sim.events.instances import Instances
from kprobe_sim.events.recording import Recorder
from kprobe_sim.hits.call import Call, CallResolver, Frame
from kprobe_sim.hits.function_hits import NO_USERS, Attached, FunctionHits, function_hits
from kprobe_sim.hits.function_users import FunctionUsers
from kprobe_sim.hits.task_memory import TaskMemory
from kprobe_sim.machine.clock import VirtualClock
from kprobe_sim.machine.state import Current, State
from kprobe_sim.machine.task import Task
from kprobe_sim.probes.kprobes import Kprobe
from kprobe_sim.probes.probe_event import Probe
from kprobe_sim.probes.registry import ProbeRegistry
from kprobe_sim.records.entry_type import TRACE_FN

_ENTRY_HEAD = struct.Struct("<HBBiQ")
_RETURN_HEAD = struct.Struct("<HBBiQQ")
_FUNCTION = struct.Struct("<HBBiQQ")
_FENTRY_SIZE = 5


class _Context(NamedTuple):
    """How the CPU got into the probe's handler, as common_flags and common_preempt_count show it."""

    flags: int
    preempt_count: int


# Entries go through ftrace, in the task's own context; other places go through int3, which runs like an NMI, and
# returns through a trampoline: their contexts are the kernel version's (see gates).
_PLAIN = _Context(0, 0)
_NESTED = _Context(0, 1)


class _Armed(NamedTuple):
    """A probe whose event some instance wants, and the files of the event there."""

    probe: Probe
    is_return: bool
    files: tuple[EventFile, ...]
    context: _Context
    address: int


_Hit = TypeVar("_Hit", _Armed, Attached)


class Entered(NamedTuple):
    """A call that probes were hit by when it was entered, until it returns."""

    frame: Frame
    returning: tuple[_Armed, ...]  # in the order of their arming
    fprobes: FunctionHits
    here: int


class Hits:
    """Runs calls against the registered probes."""

    def __init__(self, instances: Instances, probes: ProbeRegistry, recorder: Recorder) -> None:
        machine, tracing = instances.top.machine, instances.top.tracing
        self._machine = machine
        self._instances = instances
        self._probes = probes
        self._events = tracing.events
        self._armed: dict[int, list[_Armed]] | None = None  # by address, newest first
        self._tracing: tuple[Instance, ...] = ()  # instances whose tracer is `function`
        self._resolver = CallResolver(machine)
        self._names: dict[Task, bytes] = {}
        self._tasks = TaskMemory(machine)
        self._version = -1  # of the registry when `_armed` was made
        self._breakpoint = _Context(*machine.gates.breakpoint)
        self._returned = _Context(*machine.gates.plain_return)
        self._functions: dict[int, FunctionHits] = {}
        self._users = FunctionUsers(instances, probes)
        self._entries: dict[int, int] = {}  # where a function's entry is probed, after its ENDBR
        self._recorder = recorder
        self._frames = tracing.tracer_frames
        tracing.listen(self._rearm)

    def _rearm(self, event: Event | None) -> None:
        """Look again what is wanted: an event was enabled or disabled, or, if it is None, a tracer came or went."""
        self._armed = None
        if event is None:
            self._tracing = tuple([one for one in self._instances if one.current_tracer == "function"])
        if self._machine.gates.fprobes:
            self._users.look(event)

    def looks_at(self, function: str) -> bool:
        """Return whether anybody would see a call of a function, named as in /proc/kallsyms."""
        if self._tracing:
            return True
        for symbol in self._machine.symbols.lookup(function)[:1]:
            here = self._entry(symbol.address)
            kprobes = (*self._probes.kprobes.at(here), *self._probes.kprobes.at(here + _FENTRY_SIZE))
            if any(self._instances.enabled(probe.event) for probe in kprobes):
                return True
            return bool(self._probes.fprobes.at(symbol.address))
        return False

    def run(self, call: Call, within: Callable[[], None] | None = None) -> None:
        """Run one call: its entry (or the instruction at its offset), what is done within, then its return."""
        entered = self.enter(call)
        if within is not None:
            within()
        if call.returns is None:
            return
        if entered is None:
            self._pass(call)
        else:
            self._return(call, entered.frame, entered.returning, entered.fprobes, entered.here)

    def leave(self, call: Call, entered: Entered | None) -> None:
        """Let a call return that others may have come after: only what is still armed is hit."""
        if entered is None:
            return
        fprobes = entered.fprobes
        if fprobes is not NO_USERS:
            fprobes = fprobes._replace(returns=_enabled(fprobes.returns), last_returns=_enabled(fprobes.last_returns))
        self._return(call, entered.frame, _enabled(entered.returning), fprobes, entered.here)

    def enter(self, call: Call) -> Entered | None:  # noqa: C901 - every call comes through here: parts would cost time
        """Run the entry of a call, or the instruction at its offset; None if no probe is there."""
        machine = self._machine
        entry = self._resolver.entry(call)
        chain = self._resolver.chain(call)
        armed = self._armed
        if armed is None or self._version != self._events.version:
            armed = self._arm()
        if self._tracing and not call.offset:
            self._trace(call, entry, chain)
        here = entry + call.offset if call.offset else self._entry(entry)
        hit = armed.get(here, ())
        # a call comes with the same registers to the address after the call to __fentry__
        after = () if call.offset else armed.get(here + _FENTRY_SIZE, ())
        fprobes = NO_USERS if call.offset else self._functions.get(here, NO_USERS)
        if not hit and not after and fprobes is NO_USERS:
            return None
        frame = self._resolver.frame(call, entry, chain)
        # the newest probe of an address runs first; a return probe armed there has replaced the return address
        # (`replaced` is what is there instead) for those that run after it
        replaced = self._users.trampoline if fprobes.last_returns else 0
        returning: list[_Armed] = []
        if fprobes.first_entries:
            self._enter(fprobes.first_entries, call, self._state(call, frame, here, replaced), here, chain)
        for one in hit:
            if one.is_return:
                replaced = machine.return_trampoline
                returning.append(one)
                if not machine.gates.returns_unwound:
                    chain = (machine.return_trampoline,)
            else:
                context = _NESTED if fprobes.is_shared and one.context is _PLAIN else one.context
                self._hit(one, call, self._state(call, frame, here, replaced), here, context, chain, call.at)
        if fprobes.entries:
            self._enter(fprobes.entries, call, self._state(call, frame, here, replaced), here, chain)
        for one in after:
            if not one.is_return and machine.symbols.is_traceable(here):
                address = here + _FENTRY_SIZE
                state = self._state(call, frame, address, replaced)
                self._hit(one, call, state, address, self._breakpoint, chain, call.at)
        return Entered(frame, tuple(returning), fprobes, here)

    def _enter(self, fprobes: Sequence[Attached], call: Call, state: State, here: int, chain: Sequence[int]) -> None:
        for attached in fprobes:
            context = _Context(0, attached.depth)
            one = _Armed(attached.probe, False, attached.files, context, here)
            self._hit(one, call, state, here, context, chain, call.at)

    def _trace(self, call: Call, entry: int, chain: Sequence[int]) -> None:
        """Let the function tracer record a call (function_trace_call in kernel/trace/trace_functions.c, 6.1)."""
        for instance in self._tracing:
            pids, no_pids = instance.ftrace_pids, instance.ftrace_no_pids
            if (pids is not None and call.task.pid not in pids) or (no_pids is not None and call.task.pid in no_pids):
                continue
            if self._machine.symbols.is_traceable(entry) and instance.functions.traces(call.function):
                self._recorder.remember(call.task, instance)
                data = _FUNCTION.pack(TRACE_FN, 0, 0, call.task.pid, entry, chain[0] if chain else 0)
                instance.write(call.cpu, data, call.at)

    def _entry(self, function: int) -> int:
        here = self._entries.get(function)
        if here is None:
            here = self._entries[function] = self._probes.entry(function)
        return here

    def _arm(self) -> dict[int, list[_Armed]]:
        machine = self._machine
        armed: dict[int, list[_Armed]] = {}
        for probe in reversed(list(self._probes.kprobes.probes())):
            files = tuple(self._instances.enabled(probe.event))
            if probe.address is not None and files:
                context = _PLAIN if machine.symbols.is_traceable(probe.address) else self._breakpoint
                armed.setdefault(probe.address, []).append(
                    _Armed(probe, probe.event.is_return, files, context, probe.address)
                )
        self._functions = function_hits(self._instances, self._probes.fprobes, self._entry, armed, self._users)
        self._armed = armed
        self._version = self._events.version
        return armed

    def _pass(self, call: Call) -> None:
        """Let the time of a call pass."""
        if call.at is None and call.duration is not None and isinstance(self._machine.clock, VirtualClock):
            self._machine.clock.advance(call.duration)

    def _return(self, call: Call, frame: Frame, probes: Sequence[_Armed], fprobes: FunctionHits, here: int) -> None:
        """Let a call return, from the last probe at its entry on; `probes` are in the order of their arming."""
        at = None if call.at is None else call.at + (1_000 if call.duration is None else call.duration)
        self._pass(call)
        if not probes and not fprobes.returns and not fprobes.last_returns:
            return
        caller = frame.chain[0] if frame.chain else 0
        registers = self._resolver.at_return(call, frame)
        name, current = self._name(call.task), self._current(call)
        entered = State(frame.registers, frame.memory, frame.stack, name, 0, current)
        state = State(registers, frame.memory, frame.stack[1:], name, registers["ax"], current, entry=entered)
        # the one that was armed last returns first, and only the one that was armed first knows the true caller
        machine = self._machine
        chain = frame.chain if machine.gates.returns_unwound else (machine.return_trampoline,)

        def leave(some: Sequence[Attached], ip: int) -> None:
            for attached in some:
                one = _Armed(attached.probe, True, attached.files, _Context(0, attached.depth), here)
                self._hit(one, call, state, ip, one.context, chain, at, func=here)

        lost = bool(probes) and machine.gates.fprobes_late  # return probes have replaced what an fprobe would show
        leave(fprobes.returns, machine.return_trampoline if lost else caller)
        for one in reversed(probes):
            ip = caller
            if one is probes[0] and fprobes.last_returns:
                ip = self._users.trampoline
            elif one is not probes[0] and not machine.gates.nested_returns_know:
                ip = machine.return_trampoline
            self._hit(one, call, state, ip, self._returned, chain, at, func=one.address)
        leave(fprobes.last_returns, caller)

    def _state(self, call: Call, frame: Frame, here: int, replaced: int) -> State:
        stack, memory = frame.stack, frame.memory
        registers = frame.registers
        if replaced:
            stack = (replaced, *stack[1:])
            memory = memory.overlaid(registers["sp"], replaced.to_bytes(8, "little"))
        if registers["ip"] != here + 1:
            registers = {**registers, "ip": here + 1}
        return State(registers, memory, stack, self._name(call.task), 0, self._current(call))

    def _current(self, call: Call) -> Current:
        return self._tasks.at(call.task, call.cpu)

    def _name(self, task: Task) -> bytes:
        name = self._names.get(task)
        if name is None:
            name = self._names[task] = task.name
        return name

    def _hit(
        self,
        one: _Armed,
        call: Call,
        state: State,
        ip: int,
        context: _Context,
        chain: Sequence[int],
        at: int | None,
        func: int | None = None,
    ) -> None:
        probe = one.probe
        task = call.task
        probe.hits += 1
        record = made = b""

        def stack() -> list[int]:
            return list(chain) if func is not None else [ip + 1, *chain]

        def hit() -> Hit:
            frames = self._tracer_stack(probe, context, ip, chain, func)
            return Hit(call.cpu, state.comm, record[:8], frames, at, context is self._breakpoint)

        emit = self._recorder.emit
        for file in one.files:
            if not self._recorder.wants(file, task, call.cpu):
                continue
            if not record:
                head = (probe.event.id, context.flags, context.preempt_count, task.pid)
                packed = _ENTRY_HEAD.pack(*head, ip) if func is None else _RETURN_HEAD.pack(*head, func, ip)
                made = probe.evaluate(state)
                record = packed + made
            emit(file, task, record, hit, stack, cpu=call.cpu, comm=state.comm, at=at, made=made)

    def _tracer_stack(
        self, probe: Probe, context: _Context, ip: int, chain: Sequence[int], func: int | None
    ) -> list[int]:
        frames = self._frames
        if func is not None:
            return frames.returning(chain if self._machine.gates.returns_unwound else ())
        if context is self._breakpoint:
            return frames.breakpoint(ip, chain)
        return frames.entry(ip, isinstance(probe, Kprobe) and probe.is_aggregated, chain)


def _enabled(hits: tuple[_Hit, ...]) -> tuple[_Hit, ...]:
    """Return those that some instance wants still."""
    found = []
    for one in hits:
        files = tuple(file for file in one.files if file.enabled)
        if files:
            found.append(one._replace(files=files))
    return tuple(found)
