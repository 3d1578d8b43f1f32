"""An event as one instance sees it: enabled or not, its filter, its triggers (struct trace_event_file).

A trigger acts on the instance whose `trigger` file it was written to.  Sources: kernel/trace/trace_events_trigger.c of
6.1; fixtures/triggers.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from kprobe_sim.events.event import Event
from kprobe_sim.events.trace_array import TraceArray
from kprobe_sim.language.primitives.kstrto import LONG_MAX, ULONG_MAX
from kprobe_sim.named_tuple import NamedTuple

if TYPE_CHECKING:
    from kprobe_sim.language.filters.predicate import Predicate

UNLIMITED = ULONG_MAX  # -1 as the kernel counts
_NUMBER = attrgetter("instance.number")


class Hit(NamedTuple):
    """One hit of an event, as triggers see it."""

    cpu: int
    comm: bytes
    head: bytes  # of the event's record: type, flags, preempt count, pid
    frames: Sequence[int]  # return addresses, the tracer's own first
    timestamp: int | None  # in ns of the machine's time; None means now
    in_nmi: bool = False
    held: bool = False  # the record is held on a scratch page, with preemption off once more, until it is kept or not


class Trigger:
    """A trigger of one event in one instance.

    `count` is how often it may still act, None if none was given: then nothing is counted.
    """

    needs_record: ClassVar[bool] = False  # reads the record
    group: ClassVar[str]  # an event can have one trigger of each group (and target)
    follows_record: ClassVar[bool] = False  # acts after the event's record is written
    paused = False

    def __init__(self, file: EventFile, name: str, count: int | None) -> None:
        self.file = file
        self.name = name
        self.count = count
        self.filter: Predicate | None = None
        self.filter_text = ""
        self.target: EventFile | None = None

    @property
    def head(self) -> str:
        """The trigger as the file shows it, up to the count."""
        return self.name

    def line(self) -> str:
        """Return the trigger as its file lists it, without newline."""
        count = UNLIMITED if self.count is None else self.count
        signed = count - (1 << 64) if count > LONG_MAX else count
        text = f"{self.head}:unlimited" if count == UNLIMITED else f"{self.head}:count={signed}"
        return f"{text} if {self.filter_text}" if self.filter_text else text

    def conflicts_with(self, other: Trigger) -> bool:
        """Return True if an event can't have both."""
        return self.group == other.group and self.target is other.target

    def wants(self, record: bytes, hit: Hit) -> bool:
        """Return True unless its filter rejects the record."""
        return self.filter is None or self.filter.match(record, cpu=hit.cpu, comm=hit.comm)

    def end(self) -> None:
        """Release what the trigger held: it is gone."""

    def prepare(self) -> None:
        """Do what the kernel does for the trigger before it checks whether the event may have it."""

    def fire(self, hit: Hit, record: bytes) -> None:
        """Act, if the count allows."""
        if self.count == 0 or (self.count is not None and self.is_idle()):
            return
        if self.count is not None and self.count != UNLIMITED:
            self.count -= 1
        self.act(hit)

    def is_idle(self) -> bool:
        """Return True if acting would change nothing: then it doesn't count."""
        return False

    def act(self, hit: Hit) -> None:
        raise NotImplementedError

    @property
    def instance(self) -> TraceArray:
        return self.file.instance


class EventFile:
    """The state of one event in one instance.

    `enabled` is true while anything wants its hits, even just a trigger; `soft_disabled` says that hits aren't recorded
    even so; `soft_users` counts the triggers that keep the event enabled.  `find` gives the files of the other events
    in the instance; `files` are those of all instances.
    """

    __slots__ = (
        "__weakref__",
        "enabled",
        "event",
        "files",
        "filter",
        "filter_text",
        "find",
        "freed",
        "instance",
        "since",
        "soft_disabled",
        "soft_users",
        "triggers",
        "triggers_need_record",
        "was_enabled",
    )

    def __init__(
        self, instance: TraceArray, event: Event, find: Callable[[str, str], EventFile | None], files: EventFiles
    ) -> None:
        self.instance = instance
        self.event = event
        self.find = find
        self.files = files
        self.enabled = False
        self.soft_disabled = False
        self.soft_users = 0
        self.was_enabled = False
        self.since = 0  # greater in a file that was enabled later
        self.freed = False
        self.filter: Predicate | None = None
        self.filter_text = b"none\n"
        self.triggers: list[Trigger] = []  # newest first, then those of histograms, oldest first
        self.triggers_need_record = False  # some trigger has a filter or acts after the record

    def enable(self, on: bool, *, soft: bool = False) -> None:
        """Enable or disable the event; `soft`: for a trigger, which leaves the user's choice alone.

        Source: __ftrace_event_enable_disable() in kernel/trace/trace_events.c (6.1).
        """
        if on:
            if not soft:
                self.soft_disabled = False
            else:
                self.soft_users += 1
                if self.soft_users > 1:
                    return
                self.instance.tracing.scratch.need(True)
            if not self.enabled:
                self.event.switch(self.find, True)
                self.soft_disabled = soft
                self.enabled = self.was_enabled = True
                self.instance.enablings += 1
                self.since = self.instance.enablings
                self.files.switch(self, on=True)
                self.instance.tracing.rearm(self.event)
            return
        if soft:
            self.soft_users -= 1
            if self.soft_users:
                return
            self.instance.tracing.scratch.need(False)
            disable = self.soft_disabled
        else:
            disable = not self.soft_users
        if disable and self.enabled:
            self.enabled = False
            self.files.switch(self, on=False)
            self.event.switch(self.find, False)
            self.instance.tracing.rearm(self.event)
        self.soft_disabled = self.soft_users > 0

    def add_trigger(self, trigger: Trigger, *, last: bool = False) -> None:
        """Let a trigger act on the event's hits, before all others or after them."""
        self.triggers.insert(len(self.triggers) if last else 0, trigger)
        self.enable(True, soft=True)
        self._note_triggers()

    def drop_trigger(self, trigger: Trigger) -> None:
        """End a trigger; what it kept enabled is disabled with it."""
        self.triggers.remove(trigger)
        self.enable(False, soft=True)
        self._note_triggers()
        trigger.end()
        if trigger.target is not None:
            trigger.target.enable(False, soft=True)

    def _note_triggers(self) -> None:
        self.triggers_need_record = any(
            trigger.filter is not None or trigger.follows_record or trigger.needs_record for trigger in self.triggers
        )

    @property
    def state(self) -> bytes:
        """The text of the file `enable`, without the newline."""
        state = b"1" if self.enabled and not self.soft_disabled else b"0"
        return state + b"*" if self.soft_disabled or self.soft_users else state


class EventFiles:
    """The event files of all instances, made when somebody first uses them.

    So an event's cost doesn't grow with the number of instances, nor an instance's with that of events.
    """

    __slots__ = ("_enabled", "_enabled_of", "_of_event", "_of_instance")

    def __init__(self) -> None:
        self._of_event: dict[Event, dict[TraceArray, EventFile]] = {}
        self._of_instance: dict[TraceArray, dict[Event, EventFile]] = {}
        self._enabled: dict[Event, list[EventFile]] = {}  # in the order of the instances
        self._enabled_of: dict[TraceArray, dict[EventFile, None]] = {}  # in the order in which they were enabled

    def find(self, instance: TraceArray, event: Event) -> EventFile | None:
        """Return the file of an event in an instance, None if nobody has used it."""
        files = self._of_instance.get(instance)
        return None if files is None else files.get(event)

    def of(self, instance: TraceArray) -> list[EventFile]:
        """Return the files of an instance, in the order of their first use."""
        return list(self._of_instance.get(instance, {}).values())

    def add(self, file: EventFile) -> None:
        """Add a new file."""
        self._of_event.setdefault(file.event, {})[file.instance] = file
        self._of_instance.setdefault(file.instance, {})[file.event] = file

    def enabled(self, event: Event) -> Sequence[EventFile]:
        """Return the files of an event where it is enabled, in the order of the instances."""
        return self._enabled.get(event, ())

    def enabled_of(self, instance: TraceArray) -> Collection[EventFile]:
        """Return the files of the events that are enabled in an instance, in the order in which they were enabled."""
        return self._enabled_of.get(instance, {}).keys()

    def enabled_events(self) -> Collection[Event]:
        """Return the events that are enabled somewhere."""
        return self._enabled.keys()

    def all_enabled(self) -> Iterator[EventFile]:
        """Yield the files of all events where they are enabled."""
        return chain.from_iterable(self._enabled.values())

    def switch(self, file: EventFile, *, on: bool) -> None:
        """Note that a file was enabled or disabled."""
        if file.instance.removed:  # and its files with it
            return
        if on:
            insort(self._enabled.setdefault(file.event, []), file, key=_NUMBER)
            self._enabled_of.setdefault(file.instance, {})[file] = None
        else:
            self._disabled(file)

    def remove_event(self, event: Event) -> list[EventFile]:
        """Forget an event that is gone; return its files."""
        files = self._of_event.pop(event, {})
        for instance in files:
            del self._of_instance[instance][event]
        return list(files.values())

    def remove_instance(self, instance: TraceArray) -> None:
        """Forget an instance that is gone."""
        for event, file in self._of_instance.pop(instance, {}).items():
            del self._of_event[event][instance]
            if file.enabled:
                self._disabled(file)
                instance.tracing.rearm(event)

    def _disabled(self, file: EventFile) -> None:
        of_instance = self._enabled_of[file.instance]
        del of_instance[file]
        if not of_instance:
            del self._enabled_of[file.instance]
        files = self._enabled[file.event]
        files.remove(file)
        if not files:
            del self._enabled[file.event]


def run_triggers(file: EventFile, hit: Hit, record: bytes) -> list[Trigger]:
    """Let the triggers whose filters the record passes act; return those that act after it is written."""
    later = []
    for trigger in list(file.triggers):
        if trigger.paused or not trigger.wants(record, hit):
            continue
        if trigger.follows_record:
            later.append(trigger)
        else:
            trigger.fire(hit, record)
    return later
