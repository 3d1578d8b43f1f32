"""Calls on the simulated machine that hit probes: hits become records in the instances that want them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial

from kprobe_sim.builds.added import FENTRY_SIZE
from kprobe_sim.events.event import Event
from kprobe_sim.events.event_file import Hit
from kprobe_sim.events.instance import Instance
from kprobe_sim.events.instances import Instances
from kprobe_sim.events.recording import Recorder
from kprobe_sim.machine.clock import VirtualClock
from kprobe_sim.machine.state import NOWHERE, UNMAPPED, State
from kprobe_sim.machine.task import Task
from kprobe_sim.machine.tracer_frames import Way
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.fprobes import Fprobe
from kprobe_sim.probes.hits.armed import Armed
from kprobe_sim.probes.hits.call import Call, CallResolver, with_return_address
from kprobe_sim.probes.hits.function_hits import NO_USERS, FunctionHits
from kprobe_sim.probes.hits.function_users import FunctionUsers
from kprobe_sim.probes.hits.graph_calls import FUNCTION_GRAPH, Frame, GraphCalls
from kprobe_sim.probes.hits.sites import Site, Sites
from kprobe_sim.probes.hits.task_memory import TaskMemory
from kprobe_sim.probes.kprobes import Kprobe
from kprobe_sim.probes.registry import ProbeRegistry
from kprobe_sim.records.entry_type import TRACE_FN

_BARE = State({}, UNMAPPED)


_FUNCTION = struct.Struct("<HBBiQQ")


class FunctionCalls:
    """The calls that the tracer sees in the instances that have it."""

    def __init__(self, instances: Instances, recorder: Recorder) -> None:
        self._all = instances
        self._machine = instances.top.machine
        self._symbols = self._machine.symbols
        self._recorder = recorder
        self.instances: tuple[Instance, ...] = ()

    def rearm(self) -> tuple[Instance, ...]:
        """Find again which instances have the tracer, and return them; none while ftrace is off."""
        on = self._machine.ftrace_enabled
        self.instances = tuple([one for one in self._all if on and one.current_tracer == "function"])
        return self.instances

    def record(self, call: Call, here: int, chain: Sequence[int]) -> None:
        """Record a call, at the address that calls ftrace (function_trace_call in trace_functions.c, 6.1)."""
        for instance in self.instances:
            pids, no_pids = instance.ftrace_pids, instance.ftrace_no_pids
            if (pids is not None and call.task.pid not in pids) or (no_pids is not None and call.task.pid in no_pids):
                continue
            if self._symbols.is_traceable(here) and instance.functions.traces(call.function):
                self._recorder.remember(call.task, instance)
                data = _FUNCTION.pack(TRACE_FN, 0, 0, call.task.pid, here, chain[0] if chain else 0)
                instance.write(call.cpu, data, call.at)


class Entered(NamedTuple):
    """A call that met more than plain probes when it entered, until it returns; `state` is that at its entry."""

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
        self._last: tuple[Task | None, State] = (None, _BARE)  # the task that called last, and a state with its name
        self._tasks = TaskMemory(machine)
        self._depths: dict[int, int] = {}  # thread id -> how many of its calls are under way
        self._users = FunctionUsers(instances, probes)
        self._sites = Sites(instances, probes, self._resolver, self._users)
        self._skips_caller = "FRAME_POINTER" in machine.profile.config
        self._recorder = recorder
        self._frames = tracing.tracer_frames
        tracing.listen(self._rearm)

    def _rearm(self, event: Event | None) -> None:
        """Find again who wants hits: an event was enabled or disabled, or, if it is None, a tracer came or went."""
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

    def is_seen(self, function: str) -> bool:
        """Return whether a probe or a tracer would see a call of a function, named as in /proc/kallsyms."""
        if self._tracing or self._graph:
            return True
        return any(self._sites.is_probed(symbol.address) for symbol in self._machine.symbols.lookup(function)[:1])

    def run(self, call: Call, within: Callable[[], None] | None = None) -> None:
        """Run one call: its entry (or the instruction at its offset), what happens within it, then its return."""
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
        """Do what happens within a call, deeper in the stack of its task."""
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
        """Let a call return after others may have run: it hits only what is still armed."""
        if entered is None:
            return
        fprobes = entered.fprobes
        if fprobes is not NO_USERS:
            fprobes = fprobes._replace(returns=_enabled(fprobes.returns), last_returns=_enabled(fprobes.last_returns))
        self._return(call, entered._replace(returning=_enabled(entered.returning), fprobes=fprobes))

    def check(self, call: Call) -> None:
        """Raise ValueError for names, CPUs and registers that don't exist."""
        self._resolver.resolve(call)

    def enter(self, call: Call) -> Entered | None:
        """Run the entry of a call, or the instruction at its offset; return None if nobody waits for its return.

        Raises ValueError for names, CPUs and registers that don't exist.
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
        current = self._tasks.current(call.task, call.cpu) if self._tasks.is_seen else NOWHERE
        state: State | Site
        if not site.reads_state:
            state = self._bare(call.task)
        elif site.is_direct and not call.registers and not call.memory:
            state = site
        else:
            comm, depth = self._bare(call.task).comm, self._depths.get(call.task.pid, 0)
            state = self._resolver.state(call, callee, chain, comm, current, depth)
            if not site.is_plain:
                return self._meet(call, site, state, chain)
        for armed in site.hits:
            self._hit(armed, call, state, site.here, chain, call.at)
        return None

    def _meet(self, call: Call, site: Site, entry: State, chain: tuple[int, ...]) -> Entered:
        """Let a call that enters with a state hit the probes of a site; return what waits for its return."""
        machine, here, fprobes, came_by = self._machine, site.here, site.fprobes, chain
        # the newest probe of an address runs first; a return probe armed there has replaced the return address
        # (`state` has what is there instead) for those that run after it
        state = with_return_address(entry, self._users.trampoline) if fprobes.last_returns else entry
        graph = self._graph
        frame = None if graph is None else self._graphed(graph, call, site, is_first=True)
        if frame is not None:
            state = with_return_address(state, self._users.graph_return)
        returning: list[Armed] = []
        for armed in fprobes.first_entries:
            self._hit(armed, call, state, here, chain, call.at)
        for armed in site.hits:
            if not armed.is_return:
                self._hit(armed, call, state, here, chain, call.at)
                continue
            if not returning:
                state = with_return_address(state, machine.return_trampoline)
                if not (machine.gates.returns_unwound or self._skips_caller):
                    chain = (machine.return_trampoline,)
            returning.append(armed)
        for armed in fprobes.entries:
            self._hit(armed, call, state, here, chain, call.at)
        if graph is not None and frame is None:
            frame = self._graphed(graph, call, site, is_first=False)
        for armed in site.after:
            moved = state._replace(registers={**state.registers, "ip": armed.address + 1})
            self._hit(armed, call, moved, armed.address, chain, call.at)
        return Entered(site, entry, came_by, returning, fprobes, frame)

    def _graphed(self, graph: GraphCalls, call: Call, site: Site, *, is_first: bool) -> Frame | None:
        """Let the tracer function_graph see the entry of a call; `is_first`: now is before its probes."""
        if site.graph_depth is None or self._users.graph_is_first is not is_first:
            return None
        return graph.enter(call, site.here, site.graph_depth, is_first=is_first)

    def _pass(self, call: Call) -> None:
        """Let the time of a call pass."""
        if call.at is None and call.duration is not None and isinstance(self._machine.clock, VirtualClock):
            self._machine.clock.advance(call.duration)

    def _return(self, call: Call, entered: Entered) -> None:
        """Let a call return, from the last probe at its entry on."""
        if call.duration is not None:
            self._pass(call)
        site, fprobes, probes = entered.site, entered.fprobes, entered.returning
        timestamp = None if call.at is None else call.at + (1_000 if call.duration is None else call.duration)
        frame, graph = entered.frame, self._graph
        if frame is not None and graph is not None and not frame.is_first:
            graph.leave(call, frame, timestamp)
        if site.callee is not None and (probes or fprobes.returns or fprobes.last_returns):
            self._return_probes(call, entered, timestamp)
        if frame is not None and graph is not None and frame.is_first:
            graph.leave(call, frame, timestamp)

    def _return_probes(self, call: Call, entered: Entered, timestamp: int | None) -> None:
        site, fprobes, probes = entered.site, entered.fprobes, entered.returning
        assert site.callee is not None
        caller = entered.chain[0] if entered.chain else 0
        before = entered.state
        registers = self._resolver.at_return(call, site.callee, before.registers, entered.chain)
        state = State(
            registers,
            before.memory,
            before.stack[1:],
            self._bare(call.task).comm,
            registers["ax"],
            self._tasks.current(call.task, call.cpu),
            entry=before,
        )
        # the one that was armed last returns first, and only the one that was armed first knows the true caller
        machine = self._machine
        chain = self._left(entered.chain)
        lost = bool(probes) and machine.gates.fprobes_late  # return probes have replaced what an fprobe would show
        for armed in fprobes.returns:
            self._hit(armed, call, state, machine.return_trampoline if lost else caller, chain, timestamp)
        for armed in reversed(probes):
            ip = caller
            if armed is probes[0] and entered.frame is not None and entered.frame.is_first:
                ip = self._users.graph_return
            elif armed is probes[0] and fprobes.last_returns:
                ip = self._users.trampoline
            elif armed is not probes[0] and not machine.gates.nested_returns_know:
                ip = machine.return_trampoline
            self._hit(armed, call, state, ip, chain, timestamp)
        for armed in fprobes.last_returns:
            self._hit(armed, call, state, caller, chain, timestamp)

    def _left(self, chain: tuple[int, ...]) -> tuple[int, ...]:
        """Return the stack at a return, where a probe has replaced the caller's address."""
        gates, trampoline = self._machine.gates, self._machine.return_trampoline
        if gates.return_stack == "usual":
            return chain if gates.returns_unwound else (trampoline,)
        return (trampoline, *chain[1:]) if gates.return_stack == "both" else chain[1:]

    def _bare(self, task: Task) -> State:
        """Return the state of a task of which nothing but its name is known."""
        last, state = self._last
        if task is not last:
            state = _BARE._replace(comm=task.name)
            self._last = task, state
        return state

    def _hit(
        self, armed: Armed, call: Call, state: State | Site, ip: int, chain: tuple[int, ...], timestamp: int | None
    ) -> None:
        """Let a call hit a probe; instead of a state the site, if the probe reads nothing but the call's arguments."""
        probe = armed.probe
        probe.hits += 1
        probe.faults = 0
        recorder, task, cpu = self._recorder, call.task, call.cpu
        record = comm = b""
        for file in armed.files:
            if not recorder.wants(file, task, cpu):
                continue
            if not record:
                flags, depth = call.context or armed.context
                number = probe.event.id
                if armed.is_return:
                    head: tuple[int, ...] = (number, flags, depth, task.pid, armed.address, ip)
                else:
                    head = (number, flags, depth, task.pid, ip)
                if isinstance(state, State):
                    comm = state.comm
                    record = probe.evaluate(state, head)
                else:
                    comm = self._bare(task).comm
                    record = self._record(armed, call, state, comm, chain, head)
            if probe.faults:
                self._miss(armed)
            if file.triggers or file.soft_disabled:
                frames = self._tracer_stack(armed, ip, chain)
                hit = Hit(cpu, comm, record[:8], frames, timestamp, armed.context is self._sites.breakpoint)
                recorder.trigger(file, task, record, hit, partial(self._stack, armed, ip, chain))
            elif recorder.record(file, task, record, cpu, comm, timestamp):
                later = timestamp if timestamp is None else timestamp + call.unwinding
                recorder.stacks(file.instance, task, record, cpu, self._stack(armed, ip, chain), later)

    def _miss(self, armed: Armed) -> None:
        """Count the faults of a hit as misses of all probes at its address, for each instance that evaluates it."""
        others = () if armed.is_return else self._kprobes.at_address(armed.address)
        for probe in others or (armed.probe,):
            probe.misses += armed.probe.faults

    def _record(
        self, armed: Armed, call: Call, site: Site, comm: bytes, chain: tuple[int, ...], head: tuple[int, ...]
    ) -> bytes:
        """Make a record of a call's arguments, or of the whole state if they don't suffice."""
        callee, direct = site.callee, armed.probe.direct
        assert callee is not None
        assert direct is not None
        record = direct(call.args, callee.arguments, comm, head)
        if record is None:
            depth = self._depths.get(call.task.pid, 0)
            record = armed.probe.evaluate(self._resolver.state(call, callee, chain, comm, NOWHERE, depth), head)
        return record

    def _tracer_stack(self, armed: Armed, ip: int, chain: Sequence[int]) -> list[int]:
        """Return the stack that a trigger sees, the tracer's own frames first."""
        frames, gates = self._frames, self._machine.gates
        if isinstance(armed.probe, Fprobe):
            if not armed.is_return:
                return frames.fentry(ip, armed.way, chain)
            return frames.fexit(chain if gates.fprobe_returns_unwound else ())
        if armed.is_return:
            return frames.returning(chain if gates.returns_unwound else ())
        if armed.context is self._sites.breakpoint:
            return frames.breakpoint(ip, chain)
        return frames.entry(ip, isinstance(armed.probe, Kprobe) and armed.probe.is_aggregated, armed.way, chain)

    def _stack(self, armed: Armed, ip: int, chain: Sequence[int]) -> list[int]:
        """Return the stack that the option stacktrace records."""
        if not isinstance(armed.probe, Fprobe):
            return list(chain) if armed.is_return else self._entered(ip, chain)
        gates = self._machine.gates
        if armed.is_return:
            return list(chain) if gates.fprobe_returns_unwound else [ip]
        if gates.fprobe_stacks_whole and armed.way is not Way.LISTED:
            return self._frames.fentry(ip, armed.way, chain)
        return [ip + FENTRY_SIZE, *chain]

    def _entered(self, ip: int, chain: Sequence[int]) -> list[int]:
        """Return the stack at an entry: the function has no frame yet, so frame pointers lead past its caller."""
        if self._skips_caller:
            chain = chain[1:]
        return [ip + 1, *chain] if self._machine.gates.entry_stack == "function" else list(chain)


def _enabled(hits: Sequence[Armed]) -> tuple[Armed, ...]:
    """Return the probes that some instance still wants."""
    enabled = [(armed, tuple([file for file in armed.files if file.enabled])) for armed in hits]
    return tuple(armed._replace(files=files) for armed, files in enabled if files)
