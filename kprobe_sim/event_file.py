"""An event as one instance sees it: enabled or not, its filter (struct trace_event_file)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kprobe_sim.predicate import Predicate

if TYPE_CHECKING:
    from kprobe_sim.event import Event
    from kprobe_sim.instance import Instance


class EventFile:
    """The state of one event in one instance."""

    __slots__ = ("enabled", "event", "filter", "filter_text", "freed", "instance", "was_enabled")

    def __init__(self, instance: Instance, event: Event) -> None:
        self.instance = instance
        self.event = event
        self.enabled = False
        self.was_enabled = False
        self.freed = False
        self.filter: Predicate | None = None
        self.filter_text = b"none\n"

    def enable(self, on: bool) -> None:
        """Enable or disable the event; idempotent."""
        if on:
            self.was_enabled = True
        self.enabled = on
