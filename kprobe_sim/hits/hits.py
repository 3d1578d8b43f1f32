"""Calls of the simulated machine meeting probes: hits become records in the instances that want them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

from kprobe_sim.events.event import Event
from kprobe_sim.events.event_file import EventFile, Hit
from kprobe_sim.events.instance import Instance
from kprobe_sim.events.instances import Instances
from kprobe_sim.events.recording import Recorder
from kprobe_sim.hits.call import Call, Callee, CallResolver, with_return_address
from kprobe_sim.hits.function_hits import NO_USERS, Attached, FunctionHits, function_hits
from kprobe_sim.hits.function_users import FunctionUsers
from kprobe_sim.hits.task_memory import TaskMemory
from kprobe_sim.machine.clock import VirtualClock
from kprobe_sim.machine.state import NOWHERE, State
from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.kprobes import Kprobe
from kprobe_sim.probes.probe_event import Probe
from kprobe_sim.probes.registry import ProbeRegistry
from kprobe_sim.records.entry_type import TRACE_FN

_FUNCTION = struct.Struct("<HBBiQQ")
_FENTRY_SIZE = 5
_AGE = attrgetter("made")
_MAX_SITES = 4096


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


class _Site(NamedTuple):
    """What a call of a function meets, at `here`: its entry, or the instruction at an offset.

    `after` are the probes after the call to __fentry__, whose address a call comes to with the same registers.
    `callee` is None where there is nothing to meet.
    """

    entry: int
    here: int
    hits: tuple[_Armed, ...] = ()  # newest first
    after: tuple[_Armed, ...] = ()
    fprobes: FunctionHits = NO_USERS
    callee: Callee | None = None


class Entered(NamedTuple):
    """A call that probes were hit by when it was entered, until it returns; `state` is that at its entry."""

    site: _Site
    state: State
    chain: tuple[int, ...]  # return addresses, the caller's first
    returning: Sequence[_Armed]  # in the order of their arming
    fprobes: FunctionHits


class Hits:
    """Runs calls against the registered probes."""

    def __init__(self, instances: Instances, probes: ProbeRegistry, recorder: Recorder) -> None:
        machine, tracing = instances.top.machine, instances.top.tracing
        self._machine = machine
        self._instances = instances
        self._probes = probes
        self._events = tracing.events
        self._sites: dict[str | tuple[str, int], _Site] = {}  # as long as no event and no symbol changes
        self._events_seen, self._symbols_seen = -1, -1  # their versions then
        self._tracing: tuple[Instance, ...] = ()  # instances whose tracer is `function`
        self._fprobes: Mapping[int, FunctionHits] = {}
        self._symbols = machine.symbols
        self._resolver = CallResolver(machine)
        self._named: tuple[Task | None, bytes] = (None, b"")  # the task that called last, and its name
        self._tasks = TaskMemory(machine)
        self._has_current = machine.gates.current
        self._breakpoint = _Context(*machine.gates.breakpoint)
        self._returned = _Context(*machine.gates.plain_return)
        self._users = FunctionUsers(instances, probes)
        self._entries: dict[int, int] = {}  # where a function's entry is probed, after its ENDBR
        self._recorder = recorder
        self._frames = tracing.tracer_frames
        tracing.listen(self._rearm)

    def _rearm(self, event: Event | None) -> None:
        """Look again what is wanted: an event was enabled or disabled, or, if it is None, a tracer came or went."""
        self._events_seen = -1
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
            if self._wanted(here) or self._wanted(here + _FENTRY_SIZE):
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
            self._return(call, entered)

    def leave(self, call: Call, entered: Entered | None) -> None:
        """Let a call return that others may have come after: only what is still armed is hit."""
        if entered is None:
            return
        fprobes = entered.fprobes
        if fprobes is not NO_USERS:
            fprobes = fprobes._replace(returns=_enabled(fprobes.returns), last_returns=_enabled(fprobes.last_returns))
        self._return(call, entered._replace(returning=_enabled(entered.returning), fprobes=fprobes))

    def enter(self, call: Call) -> Entered | None:
        """Run the entry of a call, or the instruction at its offset; None if no probe is there.

        Raises ValueError for names, CPUs and registers that there aren't.
        """
        if call.cpu or call.registers:
            self._resolver.check(call)
        if self._events.version != self._events_seen or self._symbols.version != self._symbols_seen:
            self._renew()
        key = (call.function, call.offset) if call.offset else call.function
        site = self._sites.get(key) or self._add_site(call, key)
        chain = self._resolver.chain(call)
        if self._tracing and not call.offset:
            self._trace(call, site.entry, chain)
        if site.callee is None:
            return None
        current = self._tasks.at(call.task, call.cpu) if self._has_current else NOWHERE
        state = self._resolver.state(call, site.callee, site.here, chain, self._name(call.task), current)
        returning = self._meet(call, site, state, chain)
        return tuple.__new__(Entered, (site, state, chain, returning, site.fprobes))

    def _meet(self, call: Call, site: _Site, state: State, chain: tuple[int, ...]) -> Sequence[_Armed]:
        """Let a call hit the probes of a site; return the return probes that wait for it, in the order of arming."""
        machine, here, fprobes, at = self._machine, site.here, site.fprobes, call.at
        # the newest probe of an address runs first; a return probe armed there has replaced the return address
        # (`seen` has what is there instead) for those that run after it
        seen = with_return_address(state, self._users.trampoline) if fprobes.last_returns else state
        returning: list[_Armed] = []
        if fprobes.first_entries:
            self._enter(fprobes.first_entries, call, seen, here, chain)
        for one in site.hits:
            if not one.is_return:
                self._hit(one, call, seen, here, one.context, chain, at)
                continue
            if not returning:
                seen = with_return_address(state, machine.return_trampoline)
                if not machine.gates.returns_unwound:
                    chain = (machine.return_trampoline,)
            returning.append(one)
        if fprobes.entries:
            self._enter(fprobes.entries, call, seen, here, chain)
        if site.after:
            address = here + _FENTRY_SIZE
            seen = seen._replace(registers={**seen.registers, "ip": address + 1})
            for one in site.after:
                self._hit(one, call, seen, address, self._breakpoint, chain, at)
        return returning

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

    def _renew(self) -> None:
        """Forget what was made of other events or symbols."""
        self._sites.clear()
        self._events_seen, self._symbols_seen = self._events.version, self._symbols.version
        self._fprobes = function_hits(self._instances, self._probes.fprobes, self._entry, self._armed, self._users)

    def _add_site(self, call: Call, key: str | tuple[str, int]) -> _Site:
        """Look what a call meets."""
        entry = self._resolver.entry(call.function)
        if len(self._sites) >= _MAX_SITES:
            self._sites.clear()
        site = self._sites[key] = self._site(call, entry)
        return site

    def _site(self, call: Call, entry: int) -> _Site:
        if call.offset:
            here = entry + call.offset
            hits = self._armed(here)
            return _Site(entry, here, hits, callee=self._resolver.callee(call.function) if hits else None)
        here = self._entry(entry)
        fprobes = self._fprobes.get(here, NO_USERS)
        hits, after = self._armed(here), self._armed(here + _FENTRY_SIZE)
        if not hits and not after and fprobes is NO_USERS:
            return _Site(entry, here)
        if fprobes.is_shared:
            hits = tuple([one._replace(context=_NESTED) if one.context is _PLAIN else one for one in hits])
        is_traceable = self._symbols.is_traceable(here)
        after = tuple([one for one in after if is_traceable and not one.is_return])
        return _Site(entry, here, hits, after, fprobes, self._resolver.callee(call.function))

    def _armed(self, address: int) -> tuple[_Armed, ...]:
        """Return the probes at an address whose events some instance wants, newest first."""
        probes = self._wanted(address)
        if not probes:
            return ()
        context = _PLAIN if self._symbols.is_traceable(address) else self._breakpoint
        enabled = self._instances.enabled
        return tuple(
            [_Armed(one, one.event.is_return, tuple(enabled(one.event)), context, address) for one in reversed(probes)]
        )

    def _wanted(self, address: int) -> list[Kprobe]:
        """Return the kprobes at an address whose events some instance wants, oldest first; the fewer are looked at."""
        kprobes, instances = self._probes.kprobes, self._instances
        there, events = kprobes.at(address), instances.enabled_events()
        if len(there) <= len(events):
            return [probe for probe in there if instances.enabled(probe.event)]
        probes = [probe for event in events for probe in kprobes.of(event) if probe.address == address]
        return sorted(probes, key=_AGE)

    def _pass(self, call: Call) -> None:
        """Let the time of a call pass."""
        if call.at is None and call.duration is not None and isinstance(self._machine.clock, VirtualClock):
            self._machine.clock.advance(call.duration)

    def _return(self, call: Call, entered: Entered) -> None:
        """Let a call return, from the last probe at its entry on."""
        if call.duration is not None:
            self._pass(call)
        site, fprobes, probes = entered.site, entered.fprobes, entered.returning
        if site.callee is None or not (probes or fprobes.returns or fprobes.last_returns):
            return
        at = None if call.at is None else call.at + (1_000 if call.duration is None else call.duration)
        caller = entered.chain[0] if entered.chain else 0
        before = entered.state
        registers = self._resolver.at_return(call, site.callee, before.registers, entered.chain)
        state = State(
            registers,
            before.memory,
            before.stack[1:],
            self._name(call.task),
            registers["ax"],
            self._tasks.at(call.task, call.cpu),
            entry=before,
        )
        # the one that was armed last returns first, and only the one that was armed first knows the true caller
        machine, here = self._machine, site.here
        chain = entered.chain if machine.gates.returns_unwound else (machine.return_trampoline,)

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

    def _name(self, task: Task) -> bytes:
        last, name = self._named
        if task is not last:
            name = task.name
            self._named = task, name
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
        task, cpu = call.task, call.cpu
        probe.hits += 1
        record = b""

        def stack() -> list[int]:
            return list(chain) if func is not None else [ip + 1, *chain]

        def hit() -> Hit:
            frames = self._tracer_stack(probe, context, ip, chain, func)
            return Hit(cpu, state.comm, record[:8], frames, at, context is self._breakpoint)

        wants, emit = self._recorder.wants, self._recorder.emit
        for file in one.files:
            if not wants(file, task, cpu):
                continue
            if not record:
                head = (probe.event.id, context.flags, context.preempt_count, task.pid)
                record = probe.evaluate(state, (*head, ip) if func is None else (*head, func, ip))
            emit(file, task, record, hit, stack, cpu=cpu, comm=state.comm, at=at)

    def _tracer_stack(
        self, probe: Probe, context: _Context, ip: int, chain: Sequence[int], func: int | None
    ) -> list[int]:
        frames = self._frames
        if func is not None:
            return frames.returning(chain if self._machine.gates.returns_unwound else ())
        if context is self._breakpoint:
            return frames.breakpoint(ip, chain)
        return frames.entry(ip, isinstance(probe, Kprobe) and probe.is_aggregated, chain)


def _enabled(hits: Sequence[_Hit]) -> tuple[_Hit, ...]:
    """Return those that some instance wants still."""
    found = []
    for one in hits:
        files = tuple(file for file in one.files if file.enabled)
        if files:
            found.append(one._replace(files=files))
    return tuple(found)
