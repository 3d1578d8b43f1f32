"""The users of ftrace that are called at a function's entry, and since when: the newest is called first.

All kprobes at entries are one user, from when the first of their events is enabled until the last is disabled; so are,
since 6.17, all fprobes on entries, and all fprobes on returns.  Before that each fprobe is a user of its own from when
it is made, on 6.16 they are one from when the first is made.  The tracer function_graph is a user since 5.16; before
that it comes after all of them.  Source: add_ftrace_ops() in kernel/trace/ftrace.c of
6.12; traces of 6.12, 7.2 and 7.3.
"""

from __future__ import annotations

from kprobe_sim.events.dyn_event import DynamicEvent
from kprobe_sim.events.event import Event
from kprobe_sim.events.instances import Instances
from kprobe_sim.probes.probe_event import ProbeEvent
from kprobe_sim.probes.registry import ProbeRegistry

KPROBES, ENTRIES, RETURNS, GRAPH = "kprobes", "entries", "returns", "graph"
Moment = tuple[int, int]  # the version of the list of probes, and a number that goes up
NEVER: Moment = (-1, 0)


class FunctionUsers:
    """The users of ftrace, and the moments when they and their events came."""

    def __init__(self, instances: Instances, probes: ProbeRegistry) -> None:
        self._instances = instances
        self._probes = probes
        self._machine = instances.top.machine
        self._events: dict[str, dict[DynamicEvent, Moment]] = {KPROBES: {}, ENTRIES: {}, RETURNS: {}}
        self._since: dict[str, Moment] = {}
        self._count = 0

    @property
    def trampoline(self) -> int:
        """The address that fprobes on returns put in the place of a return address."""
        machine = self._machine
        found = machine.symbols.lookup("return_to_handler") if machine.gates.fprobes_late else ()
        return found[0].address if found else machine.return_trampoline

    @property
    def graph_is_first(self) -> bool:
        """True if a function calls the tracer function_graph before kprobes."""
        return self._machine.gates.graph_is_user and NEVER < self.since(KPROBES) < self.since(GRAPH)

    @property
    def graph_return(self) -> int:
        """The address that the tracer function_graph puts in the place of a return address."""
        found = self._machine.symbols.lookup("return_to_handler")
        return found[0].address if found else 0

    def graph(self, *, is_there: bool) -> None:
        """Let the tracer function_graph come or go."""
        if not is_there:
            self._since.pop(GRAPH, None)
        elif GRAPH not in self._since:
            self._count += 1
            self._since[GRAPH] = (self._instances.top.tracing.events.version, self._count)

    def since(self, user: str) -> Moment:
        """Return when a user came."""
        return self._since.get(user, NEVER)

    def enabled(self, event: DynamicEvent) -> Moment:
        """Return when the event of an fprobe was enabled."""
        return self._events[RETURNS if event in self._events[RETURNS] else ENTRIES].get(event, NEVER)

    def look(self, event: Event | None) -> None:
        """Look if an event is enabled."""
        user = self._user_of(event) if isinstance(event, ProbeEvent) else None
        if user is None or not isinstance(event, ProbeEvent):
            return
        events = self._events[user]
        if not self._instances.enabled(event):
            events.pop(event, None)
            if not events:
                self._since.pop(user, None)
        elif event not in events:
            self._count += 1
            events[event] = (self._instances.top.tracing.events.version, self._count)
            self._since.setdefault(user, events[event])

    def _user_of(self, event: ProbeEvent) -> str | None:
        probes = self._probes
        if probes.fprobes.of(event):
            return RETURNS if event.is_return else ENTRIES
        traceable = self._machine.symbols.is_traceable
        places = [probe.address for probe in probes.kprobes.of(event)]
        return KPROBES if any(place is not None and traceable(place) for place in places) else None
