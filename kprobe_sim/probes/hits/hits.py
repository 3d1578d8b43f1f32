"""Calls on the simulated machine that hit probes: hits become records in the instances that want them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kprobe_sim.builds.added import FENTRY_SIZE
from kprobe_sim.events.event import Event
from kprobe_sim.events.event_file import EventFile, Hit
from kprobe_sim.events.instance import Instance
from kprobe_sim.events.instances import Instances
from kprobe_sim.events.recording import Recorder
from kprobe_sim.machine.clock import VirtualClock
from kprobe_sim.machine.state import NOWHERE, UNMAPPED, State
from kprobe_sim.machine.task import Task
from kprobe_sim.machine.tracer_frames import Way
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.fprobes import Fprobe
from kprobe_sim.probes.hits.call import Call, CallResolver, with_return_address
from kprobe_sim.probes.hits.function_calls import FunctionCalls
from kprobe_sim.probes.hits.function_hits import NO_USERS, Attached, FunctionHits
from kprobe_sim.probes.hits.function_users import FunctionUsers
from kprobe_sim.probes.hits.graph_calls import FUNCTION_GRAPH, Frame, GraphCalls
from kprobe_sim.probes.hits.sites import Armed, HandlerContext, Site, Sites
from kprobe_sim.probes.hits.task_memory import TaskMemory
from kprobe_sim.probes.kprobes import Kprobe
from kprobe_sim.probes.registry import ProbeRegistry

_Hit = TypeVar("_Hit", Armed, Attached)


class Entered(NamedTuple):
    """A call that met more than plain probes when it was entered, until it returns; `state` is that at its entry."""

    site: Site
    state: State
    chain: tuple[int, ...]  # return addresses, the caller's first
    returning: Sequence[Armed]  # in the order of their arming
    fprobes: FunctionHits
    frame: Frame | None = None  # of the tracer function_graph


class Hits:
    """Runs calls against the registered probes."""

    def __init__(self, instances: Instances, probes: ProbeRegistry, recorder: Recorder) -> None:
        machine, tracing = instances.top.machine, instances.top.tracing
        self._machine = machine
        self._instances = instances
        self._kprobes = probes.kprobes
        self._tracing: tuple[Instance, ...] = ()  # instances whose tracer is `function`
        self._functions = FunctionCalls(instances, recorder)
        self._graph: GraphCalls | None = None  # what the tracer `function_graph` follows
        self._resolver = CallResolver(machine)
        self._named: tuple[Task | None, bytes] = (None, b"")  # the task that called last, and its name
        self._tasks = TaskMemory(machine)
        self._depths: dict[int, int] = {}  # thread id -> how many of its calls are made within each other now
        self._breakpoint = HandlerContext(*machine.gates.breakpoint)
        self._returned = HandlerContext(*machine.gates.plain_return)
        self._users = FunctionUsers(instances, probes)
        plain = HandlerContext(*machine.gates.plain_entry)
        self._sites = Sites(instances, probes, self._resolver, self._users, plain, self._breakpoint)
        self._skips_caller = "FRAME_POINTER" in machine.profile.config
        self._recorder = recorder
        self._frames = tracing.tracer_frames
        tracing.listen(self._rearm)

    def _rearm(self, event: Event | None) -> None:
        """Look again what is wanted: an event was enabled or disabled, or, if it is None, a tracer came or went."""
        if event is None:
            self._tracing = self._functions.rearm()
            top = self._instances.top
            is_graphed = top.current_tracer == FUNCTION_GRAPH
            if not is_graphed:
                self._graph = None
            elif self._graph is None:
                self._graph = GraphCalls(top, self._recorder)
            self._sites.graph = top if is_graphed else None
            self._users.graph(is_there=is_graphed)
        self._sites.rearm(event)

    def looks_at(self, function: str) -> bool:
        """Return whether anybody would see a call of a function, named as in /proc/kallsyms."""
        if self._tracing or self._graph:
            return True
        return any(self._sites.is_probed(symbol.address) for symbol in self._machine.symbols.lookup(function)[:1])

    def run(self, call: Call, within: Callable[[], None] | None = None) -> None:
        """Run one call: its entry (or the instruction at its offset), what is done within, then its return."""
        entered = self.enter(call)
        if within is not None:
            self._within(call.task.pid, within)
        if call.returns is None:
            if entered is not None and entered.frame is not None and self._graph is not None:
                self._graph.forget(call, entered.frame)
            return
        if entered is None:
            self._pass(call)
        elif within is None:
            self._return(call, entered)
        else:
            self.leave(call, entered)

    def _within(self, pid: int, within: Callable[[], None]) -> None:
        """Do what a call does, deeper in the stack of its task."""
        depth = self._depths.get(pid, 0)
        self._depths[pid] = depth + 1
        try:
            within()
        finally:
            if depth:
                self._depths[pid] = depth
            else:
                del self._depths[pid]

    def leave(self, call: Call, entered: Entered | None) -> None:
        """Let a call return that others may have come after: only what is still armed is hit."""
        if entered is None:
            return
        fprobes = entered.fprobes
        if fprobes is not NO_USERS:
            fprobes = fprobes._replace(returns=_enabled(fprobes.returns), last_returns=_enabled(fprobes.last_returns))
        self._return(call, entered._replace(returning=_enabled(entered.returning), fprobes=fprobes))

    def check(self, call: Call) -> None:
        """Raise ValueError for names, CPUs and registers that there aren't."""
        self._resolver.resolve(call)

    def enter(self, call: Call) -> Entered | None:
        """Run the entry of a call, or the instruction at its offset; None if its return is nothing to anybody.

        Raises ValueError for names, CPUs and registers that there aren't.
        """
        if call.cpu or call.registers:
            self._resolver.check(call)
        site = self._sites.of(call)
        chain = self._resolver.chain(call)
        if self._tracing and not call.offset:
            self._functions.record(call, site.here, chain)
        callee = site.callee
        if callee is None:
            return None
        task, cpu = call.task, call.cpu
        current = self._tasks.at(task, cpu) if self._tasks.is_seen else NOWHERE
        comm = self._name(task)
        if not site.reads_state:
            state = tuple.__new__(State, ({}, UNMAPPED, (), comm, 0, current, b"", None, None))
        elif site.is_direct and not call.registers and not call.memory:
            for one in site.hits:
                self._hit(one, call, site, comm, site.here, one.context, chain, call.at)
            return None
        else:
            state = self._resolver.state(call, callee, site.here, chain, comm, current, self._depths.get(task.pid, 0))
        if not site.is_plain:
            returning, frame = self._meet(call, site, state, chain)
            return tuple.__new__(Entered, (site, state, chain, returning, site.fprobes, frame))
        for one in site.hits:
            self._hit(one, call, state, comm, site.here, one.context, chain, call.at)
        return None

    def _meet(
        self, call: Call, site: Site, state: State, chain: tuple[int, ...]
    ) -> tuple[Sequence[Armed], Frame | None]:
        """Let a call hit the probes of a site; return the return probes that wait for it, in the order of arming."""
        machine, here, fprobes, at = self._machine, site.here, site.fprobes, call.at
        # the newest probe of an address runs first; a return probe armed there has replaced the return address
        # (`seen` has what is there instead) for those that run after it
        seen = with_return_address(state, self._users.trampoline) if fprobes.last_returns else state
        graph = self._graph
        frame = None if graph is None else self._graphed(graph, call, site, is_first=True)
        if frame is not None:
            seen = with_return_address(seen, self._users.graph_return)
        returning: list[Armed] = []
        if fprobes.first_entries:
            self._enter(fprobes.first_entries, call, seen, site, chain)
        for one in site.hits:
            if not one.is_return:
                self._hit(one, call, seen, seen.comm, here, one.context, chain, at)
                continue
            if not returning:
                seen = with_return_address(state, machine.return_trampoline)
                if not (machine.gates.returns_unwound or self._skips_caller):
                    chain = (machine.return_trampoline,)
            returning.append(one)
        if fprobes.entries:
            self._enter(fprobes.entries, call, seen, site, chain)
        if graph is not None and frame is None:
            frame = self._graphed(graph, call, site, is_first=False)
        if site.after:
            self._go_on(call, site, seen, chain)
        return returning, frame

    def _go_on(self, call: Call, site: Site, state: State, chain: tuple[int, ...]) -> None:
        """Let a call hit the probes after the call to __fentry__."""
        address = site.here + FENTRY_SIZE
        for one in site.after:
            seen = state._replace(registers={**state.registers, "ip": address + 1})
            self._hit(one, call, seen, seen.comm, address, self._breakpoint, chain, call.at)

    def _graphed(self, graph: GraphCalls, call: Call, site: Site, *, is_first: bool) -> Frame | None:
        """Let the tracer function_graph see the entry of a call; `is_first`: now is before its probes."""
        if site.graph_depth is None or self._users.graph_is_first is not is_first:
            return None
        return graph.enter(call, site.here, site.graph_depth, is_first=is_first)

    def _enter(self, fprobes: Sequence[Attached], call: Call, state: State, site: Site, chain: tuple[int, ...]) -> None:
        here, way = site.here, site.fprobes.way
        for attached in fprobes:
            context = HandlerContext(0, attached.depth)
            one = Armed(attached.probe, False, attached.files, context, here, way)
            self._hit(one, call, state, state.comm, here, context, chain, call.at)

    def _pass(self, call: Call) -> None:
        """Let the time of a call pass."""
        if call.at is None and call.duration is not None and isinstance(self._machine.clock, VirtualClock):
            self._machine.clock.advance(call.duration)

    def _return(self, call: Call, entered: Entered) -> None:
        """Let a call return, from the last probe at its entry on."""
        if call.duration is not None:
            self._pass(call)
        site, fprobes, probes = entered.site, entered.fprobes, entered.returning
        at = None if call.at is None else call.at + (1_000 if call.duration is None else call.duration)
        frame, graph = entered.frame, self._graph
        if frame is not None and graph is not None and not frame.is_first:
            graph.leave(call, frame, at)
        if site.callee is not None and (probes or fprobes.returns or fprobes.last_returns):
            self._return_probes(call, entered, at)
        if frame is not None and graph is not None and frame.is_first:
            graph.leave(call, frame, at)

    def _return_probes(self, call: Call, entered: Entered, at: int | None) -> None:
        site, fprobes, probes = entered.site, entered.fprobes, entered.returning
        assert site.callee is not None
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
        chain = self._left(entered.chain)

        def leave(some: Sequence[Attached], ip: int) -> None:
            for attached in some:
                one = Armed(attached.probe, True, attached.files, HandlerContext(0, attached.depth), here)
                self._hit(one, call, state, state.comm, ip, one.context, chain, at, func=here)

        lost = bool(probes) and machine.gates.fprobes_late  # return probes have replaced what an fprobe would show
        leave(fprobes.returns, machine.return_trampoline if lost else caller)
        for one in reversed(probes):
            ip = caller
            if one is probes[0] and entered.frame is not None and entered.frame.is_first:
                ip = self._users.graph_return
            elif one is probes[0] and fprobes.last_returns:
                ip = self._users.trampoline
            elif one is not probes[0] and not machine.gates.nested_returns_know:
                ip = machine.return_trampoline
            self._hit(one, call, state, state.comm, ip, self._returned, chain, at, func=one.address)
        leave(fprobes.last_returns, caller)

    def _left(self, chain: tuple[int, ...]) -> tuple[int, ...]:
        """Return the stack at a return, whose caller's address a probe has replaced."""
        gates, trampoline = self._machine.gates, self._machine.return_trampoline
        if gates.return_stack == "usual":
            return chain if gates.returns_unwound else (trampoline,)
        return (trampoline, *chain[1:]) if gates.return_stack == "both" else chain[1:]

    def _name(self, task: Task) -> bytes:
        last, name = self._named
        if task is not last:
            name = task.name
            self._named = task, name
        return name

    def _hit(
        self,
        one: Armed,
        call: Call,
        state: State | Site,
        comm: bytes,
        ip: int,
        context: HandlerContext,
        chain: tuple[int, ...],
        at: int | None,
        func: int | None = None,
    ) -> None:
        """Let a call hit a probe; in place of a state the site, if all that is looked at are the call's arguments."""
        probe = one.probe
        probe.hits += 1
        probe.faults = 0
        recorder, task, cpu = self._recorder, call.task, call.cpu
        record = b""
        for file in one.files:
            if not recorder.wants(file, task, cpu):
                continue
            if not record:
                flags, depth = call.context or context
                number = probe.event.id
                head = (
                    (number, flags, depth, task.pid, ip) if func is None else (number, flags, depth, task.pid, func, ip)
                )
                if isinstance(state, State):
                    record = probe.evaluate(state, head)
                else:
                    record = self._record(one, call, state, comm, chain, head)
            if probe.faults:
                self._miss(one)
            if file.triggers or file.soft_disabled:
                self._trigger(one, file, call, comm, record, ip, context, chain, at, func)
            elif recorder.record(file, task, record, cpu, comm, at):
                after = at if at is None else at + call.unwinding
                recorder.stacks(file.instance, task, record, cpu, self._stack(one, ip, chain, func), after)

    def _miss(self, one: Armed) -> None:
        """Count the faults of a hit for an instance, each of which evaluates the arguments, as misses of the place."""
        others = () if one.is_return else self._kprobes.at(one.address)
        for probe in others or (one.probe,):
            probe.misses += one.probe.faults

    def _record(
        self, one: Armed, call: Call, site: Site, comm: bytes, chain: tuple[int, ...], head: tuple[int, ...]
    ) -> bytes:
        """Make a record of a call's arguments, or of the whole state if they don't suffice."""
        callee, direct = site.callee, one.probe.direct
        assert callee is not None
        assert direct is not None
        record = direct(call.args, callee.arguments, comm, head)
        if record is None:
            depth = self._depths.get(call.task.pid, 0)
            state = self._resolver.state(call, callee, site.here, chain, comm, NOWHERE, depth)
            record = one.probe.evaluate(state, head)
        return record

    def _trigger(
        self,
        one: Armed,
        file: EventFile,
        call: Call,
        comm: bytes,
        record: bytes,
        ip: int,
        context: HandlerContext,
        chain: Sequence[int],
        at: int | None,
        func: int | None,
    ) -> None:
        """Let the triggers of an event see a hit."""
        frames = self._tracer_stack(one, context, ip, chain, func)
        hit = Hit(call.cpu, comm, record[:8], frames, at, context is self._breakpoint)
        self._recorder.trigger(file, call.task, record, hit, lambda: self._stack(one, ip, chain, func))

    def _tracer_stack(
        self, one: Armed, context: HandlerContext, ip: int, chain: Sequence[int], func: int | None
    ) -> list[int]:
        frames, gates = self._frames, self._machine.gates
        if isinstance(one.probe, Fprobe):
            if func is None:
                return frames.fentry(ip, one.way, chain)
            return frames.fexit(chain if gates.fprobe_returns_unwound else ())
        if func is not None:
            return frames.returning(chain if gates.returns_unwound else ())
        if context is self._breakpoint:
            return frames.breakpoint(ip, chain)
        return frames.entry(ip, isinstance(one.probe, Kprobe) and one.probe.is_aggregated, one.way, chain)

    def _stack(self, one: Armed, ip: int, chain: Sequence[int], func: int | None) -> list[int]:
        """Return the stack that the option stacktrace records."""
        if not isinstance(one.probe, Fprobe):
            return list(chain) if func is not None else self._entered(ip, chain)
        gates = self._machine.gates
        if func is not None:
            return list(chain) if gates.fprobe_returns_unwound else [ip]
        if gates.fprobe_stacks_whole and one.way is not Way.LISTED:
            return self._frames.fentry(ip, one.way, chain)
        return [ip + FENTRY_SIZE, *chain]

    def _entered(self, ip: int, chain: Sequence[int]) -> list[int]:
        """Return the stack at an entry; without a frame of its own yet, frame pointers lead past the caller."""
        if self._skips_caller:
            chain = chain[1:]
        return [ip + 1, *chain] if self._machine.gates.entry_stack == "function" else list(chain)


def _enabled(hits: Sequence[_Hit]) -> tuple[_Hit, ...]:
    """Return those that some instance wants still."""
    found = []
    for one in hits:
        files = tuple(file for file in one.files if file.enabled)
        if files:
            found.append(one._replace(files=files))
    return tuple(found)
