"""An event as one instance sees it: enabled or not, its filter, its triggers (struct trace_event_file)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kprobe_sim.predicate import Predicate

if TYPE_CHECKING:
    from kprobe_sim.event import Event
    from kprobe_sim.hist_data import HistData
    from kprobe_sim.instance import Instance
    from kprobe_sim.trigger import Trigger


class EventFile:
    """The state of one event in one instance.

    `enabled` is true as soon as something wants its hits, be it only a trigger; `soft_disabled` says that they aren't
    recorded all the same; `soft_users` counts the triggers that hold the event on.
    """

    __slots__ = (
        "enabled",
        "event",
        "filter",
        "filter_text",
        "freed",
        "instance",
        "since",
        "soft_disabled",
        "soft_users",
        "triggers",
        "triggers_need_record",
        "was_enabled",
    )

    def __init__(self, instance: Instance, event: Event) -> None:
        self.instance = instance
        self.event = event
        self.enabled = False
        self.soft_disabled = False
        self.soft_users = 0
        self.was_enabled = False
        self.since = 0  # what was enabled later has a greater number
        self.freed = False
        self.filter: Predicate | None = None
        self.filter_text = b"none\n"
        self.triggers: list[Trigger] = []  # newest first, then those of histograms, oldest first
        self.triggers_need_record = False  # some trigger has a filter or acts behind the record

    def enable(self, on: bool, *, soft: bool = False) -> None:
        """Enable or disable the event; `soft`: for a trigger, which leaves alone what the user has chosen.

        Source: __ftrace_event_enable_disable() in kernel/trace/trace_events.c (6.1).
        """
        if on:
            if not soft:
                self.soft_disabled = False
            else:
                self.soft_users += 1
                if self.soft_users > 1:
                    return
                self.instance.kernel.hits.recorder.scratch.need(True)
            if not self.enabled:
                self.event.switch(self.instance, True)
                self.soft_disabled = soft
                self.enabled = self.was_enabled = True
                self.instance.enablings += 1
                self.since = self.instance.enablings
                self.instance.kernel.hits.rearm(self.event)
            return
        if soft:
            self.soft_users -= 1
            if self.soft_users:
                return
            self.instance.kernel.hits.recorder.scratch.need(False)
            disable = self.soft_disabled
        else:
            disable = not self.soft_users
        if disable and self.enabled:
            self.enabled = False
            self.event.switch(self.instance, False)
            self.instance.kernel.hits.rearm(self.event)
        self.soft_disabled = self.soft_users > 0

    def add_trigger(self, trigger: Trigger, *, last: bool = False) -> None:
        """Let a trigger act on the event's hits, before all others or behind them."""
        self.triggers.insert(len(self.triggers) if last else 0, trigger)
        self.enable(True, soft=True)
        self._look_at_triggers()

    def drop_trigger(self, trigger: Trigger) -> None:
        """End a trigger; what it held on goes off with it."""
        self.triggers.remove(trigger)
        self.enable(False, soft=True)
        self._look_at_triggers()
        trigger.end()
        if trigger.target is not None:
            trigger.target.enable(False, soft=True)

    def histograms(self) -> list[HistData]:
        """Return the histograms that the event's triggers count into."""
        return [trigger.data for trigger in self.triggers if trigger.data is not None]

    def _look_at_triggers(self) -> None:
        self.triggers_need_record = any(
            trigger.filter is not None or trigger.follows_record or trigger.needs_record for trigger in self.triggers
        )

    @property
    def state(self) -> bytes:
        """What the file `enable` reads, without the newline."""
        state = b"1" if self.enabled and not self.soft_disabled else b"0"
        return state + b"*" if self.soft_disabled or self.soft_users else state
