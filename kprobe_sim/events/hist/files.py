"""hist triggers as a write to a trigger file sets, changes and removes them; the hist file.

Sources: event_hist_trigger_parse(), hist_register_trigger(), hist_unregister_trigger(), hist_unreg_all() and
hist_show() in kernel/trace/trace_events_hist.c of 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from kprobe_sim.events.event_file import EventFile, Trigger
from kprobe_sim.events.hist.data import HistData, histograms_of
from kprobe_sim.events.hist.fault import HistFault, refused
from kprobe_sim.events.hist.maker import HistMaker
from kprobe_sim.events.hist.synthetic import SyntheticTarget, SyntheticTargets
from kprobe_sim.events.hist.text import histogram_text
from kprobe_sim.events.hist.trigger import ErrorReporter, HistTrigger
from kprobe_sim.events.trigger import HistSwitch
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.probes.synthetic import SyntheticEvent


class HistFiles:
    """The histograms of trigger files; the host of all hist triggers of one kernel."""

    def __init__(self, targets: SyntheticTargets, set_filter: Callable[[Trigger, str | None], None]) -> None:
        self._targets = targets
        self._set_filter = set_filter

    def set_filter(self, trigger: Trigger, condition: str | None) -> None:
        """Give a trigger the filter that `if FILTER` means.  Raises OSError."""
        self._set_filter(trigger, condition)

    def target(self, name: str) -> SyntheticTarget | None:
        """Return the synthetic event of that name, or None."""
        return self._targets.find(name)

    def put(
        self, file: EventFile, parameters: str, *, removes: bool = False, outer: ErrorReporter | None = None
    ) -> None:
        """Take what follows `hist:` or `!hist:`; `outer` makes a trigger that needs this one.  Raises OSError."""
        maker = HistMaker(file, parameters, self, removes=removes, outer=outer)
        trigger = maker.trigger()
        self._set_filter(trigger, maker.condition)
        if removes:
            _remove(file, trigger)
            return
        named = _named(file, maker.attributes.name)
        if _updated(file, trigger, named):
            return
        data = trigger.data
        gates = file.instance.machine.gates
        holders = file.instance.hist_vars
        try:
            if gates.hist_actions_first:
                holds = _holds(data)
                if holds:
                    holders.insert(0, data)
                maker.create_actions()
                _prepare(file, maker, trigger, named)
            else:
                _prepare(file, maker, trigger, named)
                if named is None:
                    maker.create_actions()
                holds = named is None and _holds(data)
                if holds:
                    holders.insert(0, data)
            _register(file, trigger, named)
        except OSError:
            self._end(data, leaves_fields=gates.hist_refused_fields)
            raise
        if trigger.data is not data:  # it counts into the histogram of its name
            self._end(data)
            if holds and gates.hist_held_by_names:
                holders.append(trigger)

    def end(self, trigger: HistTrigger) -> None:
        """End a removed trigger, and its histogram if no other trigger counts into it."""
        data, holders = trigger.data, trigger.instance.hist_vars
        if trigger in holders:
            holders.remove(trigger)
        data.users -= 1
        if not data.users:
            trigger.instance.tracing.named_triggers.pop(data.attributes.name, None)
            self._end(data)

    def _end(self, data: HistData, *, leaves_fields: bool = False) -> None:
        """Release what a histogram holds, and, unless it leaves them, remove the triggers that were made for it."""
        for action in data.actions:
            action.end()
        if data in data.file.instance.hist_vars:
            data.file.instance.hist_vars.remove(data)
        for file, parameters in () if leaves_fields else data.field_variable_triggers:
            self.put(file, parameters, removes=True)
        data.field_variable_triggers.clear()


def _named(file: EventFile, name: str) -> HistTrigger | None:
    found = file.instance.tracing.named_triggers.get(name) if name else None
    return found if isinstance(found, HistTrigger) else None


def _holds(data: HistData) -> bool:
    """Return True if a histogram may depend on others, or others on it."""
    return bool(data.variables or data.references or data.actions)


def _prepare(file: EventFile, maker: HistMaker, trigger: HistTrigger, named: HistTrigger | None) -> None:
    """Check whether a histogram can be added, and set its clock.  Raises OSError."""
    attributes = maker.attributes
    words = attributes.words
    if named is not None and not trigger.is_like(named, with_filter=False):
        raise refused(maker.complain, HistFault.NAMED_MISMATCH, f"name={attributes.name}")
    if any(trigger.conflicts_with(other) for other in file.triggers):
        raise refused(maker.complain, HistFault.TRIGGER_EEXIST)
    if "cont" in words or "clear" in words:
        raise refused(maker.complain, HistFault.TRIGGER_ENOENT_CLEAR)
    trigger.paused = "pause" in words
    if trigger.data.has_time:
        try:
            file.instance.set_clock(attributes.clock)
        except OSError:
            maker.complain(HistFault.SET_CLOCK_FAIL, attributes.clock)
            raise


def _register(file: EventFile, trigger: HistTrigger, named: HistTrigger | None) -> None:
    name = trigger.data.attributes.name
    if named is not None:
        trigger.data = named.data
    elif name:
        file.instance.tracing.named_triggers[name] = trigger
    trigger.data.users += 1
    file.add_trigger(trigger, last=file.instance.machine.gates.hist_added_last)
    _hold_event(file, 1)


def _updated(file: EventFile, trigger: HistTrigger, named: HistTrigger | None) -> bool:
    """Pause, continue or clear an existing histogram; return True if there is one."""
    attributes = trigger.data.attributes
    if not attributes.words or (attributes.name and (named is None or not trigger.is_like(named, with_filter=False))):
        return False
    for other in file.triggers:
        if isinstance(other, HistTrigger) and trigger.conflicts_with(other):
            if "pause" in attributes.words:
                other.paused = True
            elif "cont" in attributes.words:
                other.paused = False
            else:
                other.data.map.clear()
            return True
    return False


def _remove(file: EventFile, like: HistTrigger) -> None:
    """Remove the described histogram; an unknown name counts as none (hist_unregister_trigger)."""
    name = like.data.attributes.name
    known_name = name if name in file.instance.tracing.named_triggers else ""
    for trigger in file.triggers:
        if (
            isinstance(trigger, HistTrigger)
            and (trigger.data.attributes.name or "") == known_name
            and like.is_like(trigger)
        ):
            if trigger.data.is_referred_to():
                raise refuse(errno.EBUSY)
            file.drop_trigger(trigger)
            _hold_event(file, -1)
            return


def drop_hist_triggers(file: EventFile) -> None:
    """Remove the triggers of histograms, as opening with O_TRUNC does; others stay (event_trigger_regex_open).

    If another histogram refers to one of them, all stay, except those that only pause or continue one.
    """
    kept = any(data.is_referred_to() for data in histograms_of(file))
    for trigger in list(file.triggers):
        if isinstance(trigger, HistSwitch):
            file.drop_trigger(trigger)
        elif isinstance(trigger, HistTrigger) and not kept:
            file.drop_trigger(trigger)
            _hold_event(file, -1)


def _hold_event(file: EventFile, by: int) -> None:
    """Count the histograms of a synthetic event, which can't be removed while it has any."""
    if isinstance(file.event, SyntheticEvent):
        file.event.users += by


def hist_text(file: EventFile) -> bytes:
    """Return the text of the hist file."""
    texts = [
        histogram_text(trigger.data, trigger.line()) for trigger in file.triggers if isinstance(trigger, HistTrigger)
    ]
    return "\n\n".join(texts).encode("latin-1")
