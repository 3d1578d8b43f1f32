"""A probe registry without the kernel around it, on the recorded symbols of 6.1."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest

from kprobe_sim.builds.gates import gates_for
from kprobe_sim.builds.profile import Profile, load
from kprobe_sim.builds.symbols import SymbolTable
from kprobe_sim.events.dyn_event import DynamicEvent
from kprobe_sim.events.event import Event
from kprobe_sim.events.event_table import EventTable
from kprobe_sim.events.static_table import StaticEvents
from kprobe_sim.language.filters.predicate import Predicate
from kprobe_sim.language.primitives.errlog import ErrorLog
from kprobe_sim.machine.simulated import SimulatedMachine
from kprobe_sim.probes.kprobes import Kprobe
from kprobe_sim.probes.registry import ProbeRegistry

VERSIONS = {"5.10": (5, 10, 262), "6.1": (6, 1, 190), "6.12": (6, 12, 117), "7.2": (7, 2, 13), "7.3": (7, 3, 0)}


class Host:
    """The kernel around a registry: the events that have directories, and a set of busy events."""

    def __init__(self) -> None:
        self.busy: set[tuple[str, str]] = set()
        self.present: list[DynamicEvent] = []

    def compile_filter(self, event: Event, text: str) -> Predicate:
        raise NotImplementedError

    def add_event(self, event: DynamicEvent) -> None:
        self.present.append(event)

    def remove_event(self, event: DynamicEvent) -> None:
        self.present.remove(event)

    def is_busy(self, event: DynamicEvent) -> bool:
        return (event.system, event.name) in self.busy


def hash_pointer(address: int) -> int:
    """A stand-in for the boot's secret hash."""
    return (address * 0x9E3779B1 + 0x1234567) & 0xFFFFFFFF


class Registry(ProbeRegistry):
    """A registry with what a test wants to see of it."""

    def __init__(self, series: str, symbols: SymbolTable, cpus: int) -> None:
        self.host = Host()
        machine = SimulatedMachine(profile_of(series), cpus, None)
        machine.symbols = symbols
        machine.gates = self.gates = gates_for(VERSIONS[series])
        machine.hashed_pointer = hash_pointer
        self.log = ErrorLog(lambda: 27_094_289_123, self.gates.error_log_command_size)
        self.table = EventTable(StaticEvents(machine.profile), 1396, reuse_ids=False)
        super().__init__(machine, self.table, self.host, self.log)

    def __iter__(self) -> Iterator[Kprobe]:
        return self.kprobes.probes()

    def events(self) -> list[DynamicEvent]:
        return list(self.table.named.values())

    def event(self, system: str, name: str) -> DynamicEvent | None:
        return self.table.event(system, name)

    def lines(self) -> list[str]:
        return self.listing().decode("latin-1").splitlines()


@functools.cache
def profile_of(series: str) -> Profile:
    return load(series)


@pytest.fixture(scope="session")
def symbols() -> SymbolTable:
    return profile_of("6.1").symbols


@pytest.fixture
def registry(symbols: SymbolTable) -> Registry:
    return Registry("6.1", symbols, 2)


@pytest.fixture
def registry_of() -> Callable[[str, int], Registry]:
    """Make a registry of a series on its own symbols: (series, cpus)."""
    return lambda series, cpus: Registry(series, profile_of(series).symbols, cpus)
