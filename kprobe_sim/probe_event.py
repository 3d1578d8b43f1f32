"""A probe event and the probes that feed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kprobe_sim.command import Creation, Deletion
from kprobe_sim.event_format import argument_field, format_text, head_fields, print_format
from kprobe_sim.fetch import FetchArg
from kprobe_sim.fetch_text import compile_text
from kprobe_sim.field import Field
from kprobe_sim.gates import Gates
from kprobe_sim.probe_point import Place
from kprobe_sim.state import State
from kprobe_sim.symbol_text import Covering


class Probe:
    """One probe: a place, what it fetches, and how often it was hit or missed.

    `address` is None while the probe waits for its module; `maxactive` is 0 there when none was given.  `evaluate`
    gives a record's bytes from the event's `start` on; what stands before them is common to all events.
    """

    __slots__ = ("address", "arguments", "evaluate", "event", "hits", "maxactive", "misses", "place", "place_text")

    def __init__(self, event: ProbeEvent, creation: Creation, place_text: str) -> None:
        self.event = event
        self.place: Place = creation.place
        self.place_text = place_text
        self.arguments: tuple[FetchArg, ...] = creation.arguments
        self.maxactive = creation.maxactive
        self.address: int | None = None
        self.evaluate: Callable[[State], bytes] = _never_hit
        self.hits = 0
        self.misses = 0

    def line(self) -> str:
        """Return the probe as kprobe_events lists it, without newline."""
        event = self.event
        kind = f"r{self.maxactive or ''}" if event.is_return else "p"
        words = [f"{kind}:{event.system}/{event.name}", self.place_text]
        words += [f"{argument.name}={argument.text}" for argument in self.arguments]
        return " ".join(words)

    def profile(self) -> str:
        """Return the probe's row of kprobe_profile, without newline."""
        return f"  {self.event.name:<44} {self.hits:15d} {self.misses:15d}"

    def matches(self, deletion: Deletion) -> bool:
        """True when a delete means this probe."""
        event = self.event
        if deletion.event and deletion.event != event.name:
            return False
        if deletion.group is not None and deletion.group != event.system:
            return False
        if not deletion.rest:
            return True
        written = [f"{argument.name}={argument.text}" for argument in self.arguments]
        words = list(deletion.rest[1:])
        return deletion.rest[0] == self.place_text and written[: len(words)] == words

    def is_same_as(self, other: Probe) -> bool:
        """True for the same place and expressions; all address places look the same here, as in the kernel."""
        return (
            self.place.symbol == other.place.symbol
            and self.place.offset == other.place.offset
            and [argument.text for argument in self.arguments] == [argument.text for argument in other.arguments]
        )


def _never_hit(_: State) -> bytes:
    raise RuntimeError("a probe that waits for its module isn't hit")


class ProbeEvent:
    """An event that one or more probes feed; all have the same arguments by name, type and count.

    `id` is set by the host when the event is added.  `start` is where the arguments begin in the record; `args_text`
    turns a record into what the trace shows behind the probe's place; `label` is the name as the trace shows it.
    """

    __slots__ = (
        "_array_length",
        "args_text",
        "fields",
        "id",
        "is_return",
        "label",
        "name",
        "print_fmt",
        "probes",
        "start",
        "system",
    )

    can_enable = True

    def __init__(self, creation: Creation, symbols: Covering, gates: Gates) -> None:
        self.system = creation.group
        self.name = creation.event
        self.is_return = creation.is_return
        self.id = 0
        self.probes: list[Probe] = []
        head = head_fields(is_return=creation.is_return)
        self.start = 8 + 8 * len(head)
        self.fields: tuple[Field, ...] = (*head, *[argument_field(a, self.start) for a in creation.arguments])
        self.print_fmt = print_format(creation.arguments, is_return=creation.is_return)
        self.label = self.name.encode("latin-1")
        self.args_text = compile_text(creation.arguments, self.start, symbols)
        self._array_length = gates.array_length_in_format

    def format(self) -> bytes:
        """Return the text of the `format` file."""
        return format_text(self.name, self.id, self.fields, self.print_fmt, array_length=self._array_length)

    def filter_fields(self) -> tuple[Field, ...]:
        """Return the fields a filter may name, the common ones excluded."""
        return self.fields


def first_difference(new: Sequence[FetchArg], old: Sequence[FetchArg]) -> int:
    """Return the 1-based position at which two lists of arguments differ in name, type or count; 0 if nowhere."""
    if len(new) != len(old):
        return min(len(new), len(old)) + 1
    for position, (ours, theirs) in enumerate(zip(new, old, strict=True), 1):
        if ours.type is not theirs.type or ours.length != theirs.length or ours.name != theirs.name:
            return position
    return 0
