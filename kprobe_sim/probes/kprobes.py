"""Kprobes: probes on instructions of the kernel and on returns of its functions (trace_kprobe.c).

Sources: docs/kernel/kprobe_events.md; fixtures/definitions.
"""

from __future__ import annotations

import errno
from collections.abc import Collection
from typing import ClassVar

from kprobe_sim.events.dyn_event import DynEvent
from kprobe_sim.events.event import Find
from kprobe_sim.language.fetch.direct import compile_direct
from kprobe_sim.language.fetch.evaluate import compile_arguments, compile_counted, compile_exactly
from kprobe_sim.language.fetch.faults import BY_RULE
from kprobe_sim.language.primitives.kstrto import ULONG_MAX
from kprobe_sim.language.primitives.refusal import Printed, refuse
from kprobe_sim.probes.command import Creation, read_creation
from kprobe_sim.probes.early_command import early_failure, read_early
from kprobe_sim.probes.probe_event import EventTraits, Probe, ProbeEvent
from kprobe_sim.probes.probe_kind import DynEventList, ProbeKind, not_registered
from kprobe_sim.probes.probe_point import MAX_ERRNO, ProbeLocation, Spot
from kprobe_sim.probes.probe_profile import ProbeProfile


def _unknown_machine(_event: ProbeEvent, _find: Find, _on: bool) -> None:
    raise refuse(errno.ENOSYS)  # hits on a 32-bit processor aren't simulated


class Kprobe(Probe):
    """A kprobe; `address` is None while it waits for its module, where `maxactive` is 0 if none was given.

    `is_aggregated`: there is or was another at its address, and the kernel calls it through aggr_pre_handler().
    """

    __slots__ = ("_hides_maxactive", "address", "is_aggregated", "maxactive", "spot")

    def __init__(self, kind: Kprobes, event: ProbeEvent, creation: Creation, point_text: str) -> None:
        super().__init__(kind, event, point_text, creation.arguments)
        self.spot: Spot = creation.spot
        self.maxactive = creation.maxactive
        self.address: int | None = None
        self._hides_maxactive = kind.dyn_events.gates.early
        self.is_aggregated = False

    @property
    def point(self) -> ProbeLocation:
        """The probe point as it was written."""
        return self.spot.point

    @property
    def letters(self) -> str:
        shown = 0 if self._hides_maxactive else self.maxactive
        return f"r{shown or ''}" if self.event.is_return else "p"

    def profile(self) -> str:
        """Return the probe's row of kprobe_profile, without newline."""
        return f"  {self.event.name:<44} {self.hits:15d} {self.misses:15d}"

    def note_faults(self, faults: int) -> None:
        """Note the number of page faults while fetching the arguments."""
        self.faults = faults

    @property
    def site(self) -> tuple[str | None, int]:
        """The symbol and offset: as in the kernel, all probe points without a symbol look the same."""
        return self.point.symbol, self.point.offset


class Kprobes(ProbeKind[Kprobe]):
    """The kprobes of one kernel."""

    location: ClassVar[str] = "trace_kprobe"

    def __init__(self, dyn_events: DynEventList) -> None:
        super().__init__(dyn_events)
        self._by_address: dict[int, dict[Kprobe, None]] = {}
        self.profile = ProbeProfile(dyn_events.table, self.probes)

    def at_address(self, address: int) -> Collection[Kprobe]:
        """Return the kprobes at an address, oldest first."""
        return self._by_address.get(address, ())

    def addresses(self) -> Collection[int]:
        """Return the addresses of all kprobes."""
        return self._by_address.keys()

    def create(self, line: str, words: list[str]) -> None:
        dyn_events = self.dyn_events
        read = read_early if dyn_events.gates.early else read_creation
        creation = read(words, dyn_events.points, self._pointer, dyn_events.gates)
        traits = EventTraits(creation.is_return, switch=None if dyn_events.gates.word_size == 8 else _unknown_machine)
        event = ProbeEvent(
            creation.group, creation.event, creation.arguments, dyn_events.symbols, dyn_events.gates, traits
        )
        self.admit(Kprobe(self, event, creation, self._shown_point(creation.point)))

    def register(self, probe: Kprobe) -> None:
        dyn_events = self.dyn_events
        is_return = probe.event.is_return
        try:
            registered = dyn_events.points.register(probe.spot, probe.arguments, is_return=is_return)
        except OSError as error:
            number = error.errno or errno.EINVAL
            symbol = probe.point.symbol
            if dyn_events.gates.early:
                self._not_placed(probe, number)
                return
            waits = symbol is None or (":" in symbol and not dyn_events.points.module_is_loaded(symbol))
            if number == errno.ENOENT and waits:
                return  # its module may come yet
            raise not_registered(number) from None
        probe.address, probe.arguments = registered
        if probe.point.symbol is None:  # registration has moved an entry's address after its ENDBR
            probe.point_text = self._pointer(registered.address)
        others = self._by_address.setdefault(registered.address, {})
        if others:
            next(iter(others)).is_aggregated = probe.is_aggregated = True  # of more than two all are already
        others[probe] = None
        stack_size = dyn_events.machine.profile.thread_size
        compiled = (registered.arguments, probe.event.start, dyn_events.symbols, dyn_events.gates, stack_size)
        probe.evaluate = compile_arguments(*compiled)
        rule = BY_RULE.get(dyn_events.gates.read_faults)
        if rule is not None and any(argument.expression.derefs for argument in registered.arguments):
            probe.evaluate = compile_counted(probe.evaluate, compile_exactly(*compiled), rule, probe.note_faults)
        probe.direct = None if is_return else compile_direct(registered.arguments, probe.event.start, dyn_events.gates)
        if is_return and not probe.maxactive and not dyn_events.gates.early:
            probe.maxactive = (
                max(10, 2 * dyn_events.machine.cpus) if dyn_events.gates.maxactive_floor else dyn_events.machine.cpus
            )

    def _not_placed(self, probe: Kprobe, number: int) -> None:
        """Keep a probe that can't be placed, or raise Printed, as kernels before 4.20 do."""
        dyn_events, address = self.dyn_events, probe.spot.address or 0
        notrace = dyn_events.points.is_untraced(probe.spot)
        if number == errno.ENOENT and not dyn_events.gates.place_said:
            number = errno.EINVAL
        failure = early_failure(probe.point, number, self._pointer(address), dyn_events.gates, is_notrace=notrace)
        if not failure.kept:
            raise Printed(errno.EINVAL if number == errno.EILSEQ else number, "", before=failure.lines)
        dyn_events.print(self.location, failure.lines)

    def free(self, entry: DynEvent) -> None:
        super().free(entry)
        assert isinstance(entry, Kprobe)
        if entry.address is not None:
            del self._by_address[entry.address][entry]
            if not self._by_address[entry.address]:
                del self._by_address[entry.address]

    def _pointer(self, address: int) -> str:
        """Return an address as 0x%p prints it: hashed, but error pointers as they are."""
        bare = address > ULONG_MAX - MAX_ERRNO or not self.dyn_events.gates.pointers_hashed
        shown = address if bare else self.dyn_events.machine.hashed_pointer(address)
        size = self.dyn_events.gates.word_size
        return f"0x{shown & (1 << 8 * size) - 1:0{2 * size}x}"

    def _shown_point(self, point: ProbeLocation) -> str:
        if point.symbol is None:
            return self._pointer(point.address)
        return f"{point.symbol}+{point.offset}" if point.offset else point.symbol
