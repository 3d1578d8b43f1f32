"""What the trace instances of one kernel share: the machine, all events, and what is made once for all of them."""

from __future__ import annotations

from collections.abc import Callable

from kprobe_sim.events.event import Event
from kprobe_sim.events.event_table import EventTable
from kprobe_sim.events.tracer_frames import TracerFrames
from kprobe_sim.machine.simulated import SimulatedMachine
from kprobe_sim.records.scratch_page import ScratchPages


class Tracing:
    """The shared half of tracing.

    `is_expanded` says that the top buffer has its full size, which it gets when an event is first enabled
    (ring_buffer_expanded).  `named_triggers` are the histograms that have a name, as triggers refer to them.
    """

    def __init__(self, machine: SimulatedMachine, events: EventTable) -> None:
        self.machine = machine
        self.events = events
        self.scratch: ScratchPages = ScratchPages(machine.cpus)
        self.tracer_frames = TracerFrames(machine.profile, machine.symbols)
        self.named_triggers: dict[str, object] = {}
        self.is_expanded = False
        self._listeners: list[Callable[[Event | None], None]] = []

    def listen(self, callback: Callable[[Event | None], None]) -> None:
        """Call `callback` with an event whenever that is enabled or disabled, with None when an instance is gone."""
        self._listeners.append(callback)

    def rearm(self, event: Event | None = None) -> None:
        """Let it be looked again which events are wanted: one was enabled or disabled; None: an instance is gone."""
        for callback in self._listeners:
            callback(event)
