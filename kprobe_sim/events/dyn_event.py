"""What dynamic_events needs of every kind of dynamic event (struct dyn_event, trace_dynevent.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol

from kprobe_sim.events.event import Event
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.records.columns import Shown

if TYPE_CHECKING:
    from kprobe_sim.language.filters.predicate import Predicate


class Deletion(NamedTuple):
    """A delete as it was read: `group` None for any, `event` "" for all of a group.

    `words` must match the probe point and the arguments; only `compared` characters of each count (None means all).
    """

    group: str | None
    event: str
    words: tuple[str, ...]
    compared: int | None = None


Symbolized = Callable[[int, bool], bytes]  # (address, with offset) -> as the trace shows it


class DynamicEvent(Event, Protocol):
    """An event that a line of text defined; its host sets `id`.

    `references` counts what is attached to it, which keeps it from being removed.
    """

    id: int
    references: int

    @property
    def is_attachable(self) -> bool:
        """Return True if event probes may be attached to it."""
        ...

    def body(self, symbol: Symbolized) -> Shown:
        """Return what makes the lines that records have in the trace, from the event's name on."""
        ...


class DynEvent(Protocol):
    """One line of dynamic_events."""

    @property
    def kind(self) -> Operations: ...

    @property
    def event(self) -> DynamicEvent: ...

    def line(self) -> str:
        """Return the line as dynamic_events lists it, without newline."""
        ...

    def matches(self, deletion: Deletion) -> bool:
        """Return True if a delete means this one."""
        ...


class Operations(Protocol):
    """What a kind of dynamic event can do (struct dyn_event_operations)."""

    location: ClassVar[str]  # what stands before an entry of the error log

    def create(self, line: str, words: list[str]) -> None:
        """Make the event of a line; raise Refusal, Declined if it is of another kind, or OSError (nothing to log)."""
        ...

    def is_busy(self, entry: DynEvent) -> bool:
        """Return True if it is in use, so that nothing may be truncated."""
        ...

    def free(self, entry: DynEvent) -> None:
        """Remove one of its lines; raise OSError EBUSY, and do nothing, if it is in use."""
        ...


class EventHost(Protocol):
    """What the dynamic events need of their kernel."""

    def add_event(self, event: DynamicEvent) -> None:
        """Give a new event its directory; refused registrations add and remove one too, as in the kernel."""
        ...

    def remove_event(self, event: DynamicEvent) -> None:
        """Remove an event, with the traces of the instances where it was ever enabled."""
        ...

    def enable_event(self, event: DynamicEvent, on: bool) -> None:
        """Enable or disable an event in the top instance, as the patch of 2009 does by itself."""
        ...

    def is_busy(self, event: DynamicEvent) -> bool:
        """Return True if the event is enabled anywhere, even softly, or something refers to it."""
        ...

    def compile_filter(self, event: Event, text: str) -> Predicate:
        """Compile a filter of an event's records; a refused one is logged, and raised as OSError."""
        ...
