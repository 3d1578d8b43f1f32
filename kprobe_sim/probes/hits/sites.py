"""The probes at a function's entry and at its instructions that a call hits, and who wants their hits.

They are looked up once for each function, and again when an event, a symbol or a tracer has changed.
"""

from __future__ import annotations

from kprobe_sim.builds.added import FENTRY_SIZE
from kprobe_sim.events.event import Event
from kprobe_sim.events.instance import Instance
from kprobe_sim.events.instances import Instances
from kprobe_sim.machine.tracer_frames import Way
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.hits.armed import Armed, HandlerContext
from kprobe_sim.probes.hits.call import Call, Callee, CallResolver
from kprobe_sim.probes.hits.function_hits import NO_USERS, FunctionHits, function_hits
from kprobe_sim.probes.hits.function_users import FunctionUsers
from kprobe_sim.probes.kprobes import Kprobe
from kprobe_sim.probes.registry import ProbeRegistry

_MAX_SITES = 4096


_NESTED = HandlerContext(0, 1)


class Site(NamedTuple):
    """What a call of a function meets, at `here`: its entry, or the instruction at an offset.

    `after` are the probes after the call to __fentry__, which a call reaches with the same registers.  `callee` is None
    where there is nothing to meet.  `is_plain`: there is nothing but `hits`, none of them on the return.
    `reads_state`: some probe reads registers or memory.  `is_direct`: probes read nothing but the call's arguments.
    `graph_depth` is the preemption depth at which the tracer function_graph sees the entry, None if it doesn't.
    """

    entry: int
    here: int
    hits: tuple[Armed, ...] = ()  # newest first
    after: tuple[Armed, ...] = ()
    fprobes: FunctionHits = NO_USERS
    callee: Callee | None = None
    is_plain: bool = False
    reads_state: bool = True
    is_direct: bool = False
    graph_depth: int | None = None


class Sites:
    """The sites of one kernel; they tell `users` of every event that is enabled or disabled."""

    def __init__(
        self, instances: Instances, probes: ProbeRegistry, resolver: CallResolver, users: FunctionUsers
    ) -> None:
        tracing = instances.top.tracing
        self._instances = instances
        self._probes = probes
        self._resolver = resolver
        self._users = users
        # Entries go through ftrace, from 4.10 on in the task's own context; other addresses go through int3, which runs
        # like an NMI since 5.10; returns go through a trampoline.
        gates = tracing.machine.gates
        self._plain = HandlerContext(*gates.plain_entry)
        self.breakpoint = HandlerContext(*gates.breakpoint)
        self._returned = HandlerContext(*gates.plain_return)
        self._events = tracing.events
        self._machine = tracing.machine
        self._symbols = tracing.machine.symbols
        self._has_fprobes = gates.fprobes
        self._sites: dict[str | tuple[str, int], Site] = {}  # while no event and no symbol changes
        self._events_seen, self._symbols_seen = -1, -1  # their versions then
        self.graph: Instance | None = None  # whose tracer is function_graph
        self._has_preemption = bool(tracing.machine.profile.preemption)
        self._graph_is_user = gates.graph_is_user
        self._entries: dict[int, int] = {}  # where a function's entry is probed, after its ENDBR

    def rearm(self, event: Event | None) -> None:
        """Forget what calls meet: an event was enabled or disabled, or, if it is None, a tracer came or went."""
        self._events_seen = -1
        if self._has_fprobes or self._graph_is_user:
            self._users.note(event)

    def is_probed(self, function: int) -> bool:
        """Return whether a call of the function at an address hits a kprobe, or may hit an fprobe."""
        here = self._entry(function)
        kprobes = self._enabled(here) or self._enabled(here + FENTRY_SIZE)
        return bool(kprobes or self._probes.fprobes.attached_to(function))

    def of(self, call: Call) -> Site:
        """Return what a call meets.  Raises ValueError if there is no such function."""
        if self._events.version != self._events_seen or self._symbols.version != self._symbols_seen:
            self._renew()
        key = (call.function, call.offset) if call.offset else call.function
        return self._sites.get(key) or self._add(call, key)

    def _renew(self) -> None:
        """Forget the sites of other events or symbols."""
        self._sites.clear()
        self._events_seen, self._symbols_seen = self._events.version, self._symbols.version

    def _add(self, call: Call, key: str | tuple[str, int]) -> Site:
        """Find and remember what a call meets."""
        entry = self._resolver.entry(call.function)
        if len(self._sites) >= _MAX_SITES:
            self._sites.clear()
        site = self._sites[key] = self._site(call, entry)
        return site

    def _site(self, call: Call, entry: int) -> Site:
        if call.offset:
            here = entry + call.offset
            hits = self._armed(here)
            return self._met(call, Site(entry, here, hits)) if hits else Site(entry, here)
        here = self._entry(entry)
        hits, after = self._armed(here), self._armed(here + FENTRY_SIZE)
        fprobes = NO_USERS
        if self._machine.ftrace_enabled:
            fprobes = function_hits(entry, here, self._instances, self._probes.fprobes, self._users, kprobes=bool(hits))
        is_graphed = self._is_graphed(call.function, here)
        if not (hits or after or is_graphed) and fprobes is NO_USERS:
            return Site(entry, here)
        depth = None
        if is_graphed:
            depth = (1 + bool(hits)) * (self._graph_is_user and self._has_preemption)
        if fprobes.is_shared or depth == 2:
            hits = tuple([hit._replace(context=_NESTED) if hit.context is self._plain else hit for hit in hits])
        if fprobes.way is not Way.ALONE:
            hits = tuple([hit._replace(way=fprobes.way) for hit in hits])
        is_traceable = self._symbols.is_traceable(here)
        after = tuple([hit for hit in after if is_traceable and not hit.is_return])
        return self._met(call, Site(entry, here, hits, after, fprobes, graph_depth=depth))

    def _is_graphed(self, function: str, here: int) -> bool:
        graph = self.graph if self._machine.ftrace_enabled else None
        return graph is not None and self._symbols.is_traceable(here) and graph.functions.traces(function)

    def _met(self, call: Call, site: Site) -> Site:
        """Add what a call needs to know of a site where there is something."""
        returns = any(armed.is_return for armed in site.hits)
        is_plain = not (returns or site.after or site.graph_depth is not None or site.fprobes is not NO_USERS)
        return site._replace(
            callee=self._resolver.callee(call.function, site.here),
            is_plain=is_plain,
            reads_state=not is_plain or any(armed.probe.arguments for armed in site.hits),
            is_direct=is_plain and all(armed.probe.direct is not None for armed in site.hits),
        )

    def _armed(self, address: int) -> tuple[Armed, ...]:
        """Return the probes that a call hits at an address and that some instance has enabled, newest first."""
        probes = self._enabled(address)
        by_ftrace = self._symbols.is_traceable(address)
        if not probes or (by_ftrace and not self._machine.ftrace_enabled):
            return ()
        context = self._plain if by_ftrace else self.breakpoint
        armed = []
        for probe in reversed(probes):
            is_return, files = probe.event.is_return, tuple(self._instances.enabled(probe.event))
            armed.append(Armed(probe, is_return, files, self._returned if is_return else context, address))
        return tuple(armed)

    def _enabled(self, address: int) -> list[Kprobe]:
        """Return the enabled kprobes at an address, oldest first."""
        kprobes = self._probes.kprobes
        return kprobes.enabled(kprobes.at_address(address), self._instances)

    def _entry(self, function: int) -> int:
        here = self._entries.get(function)
        if here is None:
            here = self._entries[function] = self._probes.entry(function)
        return here
