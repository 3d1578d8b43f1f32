"""What the trace instances of one kernel share: the machine, all events, and values made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import count

from kprobe_sim.events.event import Event
from kprobe_sim.events.event_table import EventTable
from kprobe_sim.machine.simulated import SimulatedMachine
from kprobe_sim.machine.tracer_frames import TracerFrames
from kprobe_sim.records.graph_record import GraphRecords
from kprobe_sim.records.scratch_page import ScratchPages


class Tracing:
    """What the instances share.

    `is_expanded` says that the top buffer has its full size, which it gets when an event is first enabled
    (ring_buffer_expanded).  `named_triggers` are the hist triggers that have a name.  `numbers` gives each new instance
    its number.
    """

    def __init__(self, machine: SimulatedMachine, events: EventTable) -> None:
        self.machine = machine
        self.events = events
        self.scratch: ScratchPages = ScratchPages(machine.cpus)
        self.tracer_frames = TracerFrames(machine.profile, machine.symbols)
        self.named_triggers: dict[str, object] = {}
        self.full_names = ""  # of the histogram variables shown since the kernel started
        self.numbers = count()
        self.is_expanded = False
        self._listeners: list[Callable[[Event | None], None]] = []

    @cached_property
    def user_stack_type(self) -> int:
        """The type of the entries that the option userstacktrace makes."""
        event = self.events.static.find("ftrace", "user_stack")
        return 0 if event is None else event.id

    @cached_property
    def graph_records(self) -> GraphRecords:
        """How the records of the tracer function_graph are laid out."""
        events = [self.events.static.find("ftrace", f"funcgraph_{end}") for end in ("entry", "exit")]
        return GraphRecords(*[None if event is None else (event.id, event.filter_fields()) for event in events])

    def listen(self, callback: Callable[[Event | None], None]) -> None:
        """Call `callback` with each event that is enabled or disabled, and with None when a tracer comes or goes."""
        self._listeners.append(callback)

    def rearm(self, event: Event | None = None) -> None:
        """Tell the listeners that an event was enabled or disabled, or, with None, that a tracer came or went."""
        for callback in self._listeners:
            callback(event)
