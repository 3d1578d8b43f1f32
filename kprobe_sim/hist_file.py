"""hist triggers as a write to a trigger file sets, changes and removes them; the hist file.

Sources: event_hist_trigger_parse(), hist_register_trigger(), hist_unregister_trigger(), hist_unreg_all() and
hist_show() in kernel/trace/trace_events_hist.c of 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.hist import HistMaker, HistTrigger
from kprobe_sim.hist_synthetic import target_of
from kprobe_sim.hist_text import histogram_text
from kprobe_sim.node import refuse
from kprobe_sim.trigger import HistSwitch, Trigger

if TYPE_CHECKING:
    from kprobe_sim.event_file import EventFile

SetFilter = Callable[[Trigger, str | None], None]


def put_hist(
    file: EventFile, rest: str, set_filter: SetFilter, *, removes: bool = False, outer: HistMaker | None = None
) -> None:
    """Take what follows `hist:` or `!hist:`; `outer` makes a trigger that needs this one.  Raises OSError."""
    maker = HistMaker(file, rest, set_filter, removes=removes, outer=outer)
    trigger = maker.trigger()
    set_filter(trigger, maker.condition)
    if removes:
        _remove(file, trigger)
        return
    named = file.instance.kernel.named_histograms.get(maker.attributes.name) if maker.attributes.name else None
    if _updated(file, trigger, named):
        return
    data = trigger.data
    if data.variables or data.references or data.actions:
        file.instance.histograms.insert(0, data)
    try:
        maker.create_actions()
        _register(file, maker, trigger, named)
    except OSError:
        trigger.data = data
        _end(trigger)
        raise


def _register(file: EventFile, maker: HistMaker, trigger: HistTrigger, named: HistTrigger | None) -> None:
    attributes = maker.attributes
    words = attributes.words
    if named is not None and not trigger.is_like(named, with_filter=False):
        maker.fail(
            "Named hist trigger doesn't match existing named trigger (includes variables)", f"name={attributes.name}"
        )
    if any(trigger.is_rival(other) for other in file.triggers):
        maker.complain("Hist trigger already exists", "")
        raise refuse(errno.EEXIST)
    if "cont" in words or "clear" in words:
        maker.complain("Can't clear or continue a nonexistent hist trigger", "")
        raise refuse(errno.ENOENT)
    trigger.paused = "pause" in words
    if trigger.data.has_time:
        try:
            file.instance.set_clock(attributes.clock)
        except OSError:
            maker.complain("Couldn't set trace_clock", attributes.clock)
            raise
    if named is not None:
        trigger.data = named.data
    elif attributes.name:
        file.instance.kernel.named_histograms[attributes.name] = trigger
    trigger.data.users += 1
    file.add_trigger(trigger, last=True)
    _hold_event(file, 1)


def _updated(file: EventFile, trigger: HistTrigger, named: HistTrigger | None) -> bool:
    """Pause, continue or clear a histogram that is there; True if there is one."""
    attributes = trigger.data.attributes
    if not attributes.words or (attributes.name and (named is None or not trigger.is_like(named, with_filter=False))):
        return False
    for other in file.triggers:
        if isinstance(other, HistTrigger) and trigger.is_rival(other):
            if "pause" in attributes.words:
                other.paused = True
            elif "cont" in attributes.words:
                other.paused = False
            else:
                other.data.map.clear()
            return True
    return False


def _remove(file: EventFile, like: HistTrigger) -> None:
    """Remove the histogram described; a name that none has counts as no name (hist_unregister_trigger)."""
    name = like.data.attributes.name
    wanted = name if name in file.instance.kernel.named_histograms else ""
    for trigger in file.triggers:
        if (
            isinstance(trigger, HistTrigger)
            and (trigger.data.attributes.name or "") == wanted
            and like.is_like(trigger)
        ):
            if trigger.data.is_referred_to():
                raise refuse(errno.EBUSY)
            file.drop_trigger(trigger)
            _hold_event(file, -1)
            return


def drop_hist_triggers(file: EventFile) -> None:
    """Remove the triggers of histograms, as opening with O_TRUNC does; others stay (event_trigger_regex_open).

    Where one is referred to all of them stay, but not those that only pause or continue one.
    """
    kept = any(data.is_referred_to() for data in file.histograms())
    for trigger in list(file.triggers):
        if isinstance(trigger, HistSwitch):
            file.drop_trigger(trigger)
        elif isinstance(trigger, HistTrigger) and not kept:
            file.drop_trigger(trigger)
            _hold_event(file, -1)


def _hold_event(file: EventFile, by: int) -> None:
    """A synthetic event with a histogram can't be removed."""
    if file.event.system == "synthetic":
        target = target_of(file.instance.kernel, file.event.name)
        if target is not None:
            target.hold(by)


def _end(trigger: HistTrigger) -> None:
    """Let go of what a histogram holds, with the triggers that were made for it."""
    data = trigger.data
    for action in data.actions:
        action.end()
    if data in data.file.instance.histograms:
        data.file.instance.histograms.remove(data)
    for file, rest in data.companions:
        put_hist(file, rest, trigger.set_filter, removes=True)
    data.companions.clear()


def end_trigger(trigger: HistTrigger) -> None:
    """A trigger is gone; so is its histogram, if no other of that name counts into it."""
    data = trigger.data
    data.users -= 1
    if not data.users:
        trigger.instance.kernel.named_histograms.pop(data.attributes.name, None)
        _end(trigger)


def hist_text(file: EventFile) -> bytes:
    """Return what the hist file reads."""
    texts = [
        histogram_text(trigger.data, trigger.line()) for trigger in file.triggers if isinstance(trigger, HistTrigger)
    ]
    return "\n\n".join(texts).encode("latin-1")
