"""The users of ftrace that a function calls at its entry, and since when: it calls the newest first.

All kprobes at entries are one user, from when the first of their events is enabled until the last is disabled.  Since
6.17 so are all fprobes on entries, and all fprobes on returns.  On 6.16 all fprobes are one user from when the first is
made; before that each is a separate user.  The tracer function_graph is a user since 5.16; before that it comes after
all of them.  Source: add_ftrace_ops() in kernel/trace/ftrace.c of 6.12; traces of 6.12, 7.2 and 7.3.
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
    """The users of ftrace, and when they and their events came."""

    def __init__(self, instances: Instances, probes: ProbeRegistry) -> None:
        self._instances = instances
        self._probes = probes
        self._machine = instances.top.machine
        self._events: dict[str, dict[DynamicEvent, Moment]] = {KPROBES: {}, ENTRIES: {}, RETURNS: {}}
        self._since: dict[str, Moment] = {}
        self._count = 0

    @property
    def trampoline(self) -> int:
        """The address that fprobes on returns put in place of a return address."""
        machine = self._machine
        found = machine.symbols.lookup("return_to_handler") if machine.gates.fprobes_late else ()
        return found[0].address if found else machine.return_trampoline

    @property
    def graph_is_first(self) -> bool:
        """True if a function calls the tracer function_graph before kprobes."""
        return self._machine.gates.graph_is_user and NEVER < self.since(KPROBES) < self.since(GRAPH)

    @property
    def graph_return(self) -> int:
        """The address that the tracer function_graph puts in place of a return address."""
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

    def note(self, event: Event | None) -> None:
        """Note whether an event is enabled now."""
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
        addresses = [probe.address for probe in probes.kprobes.of(event)]
        return KPROBES if any(address is not None and traceable(address) for address in addresses) else None
