"""A probe event and the probes that feed it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from kprobe_sim.builds.gates import Gates
from kprobe_sim.events.dyn_event import Deletion, Operations, Symbolized
from kprobe_sim.events.event import Find
from kprobe_sim.events.event_format import argument_field, counted, format_text, head_fields, print_format
from kprobe_sim.language.fetch.argument import FetchArg
from kprobe_sim.language.fetch.direct import Direct
from kprobe_sim.language.fetch.evaluate import Evaluate
from kprobe_sim.language.fetch.text import ArgumentsText
from kprobe_sim.machine.state import State
from kprobe_sim.machine.symbol_text import Covering, TextCache
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.records.columns import Part, Rows, Shown
from kprobe_sim.records.field import Field
from kprobe_sim.records.trace_seq import Put


def _never_hit(_: State, head: tuple[int, ...]) -> bytes:
    raise RuntimeError("a probe that isn't in place isn't hit")


class Probe:
    """One probe of any kind: a probe point, what it fetches, and its hits and misses (struct trace_probe).

    `letters` is what its line begins with, `point_text` how it shows its probe point.  `evaluate` makes a record, which
    begins with the numbers that it is given: type, flags, preemption depth, pid and the probe's addresses.  `direct`
    makes the same from a call's arguments alone, None where they don't suffice.  `made` is the version of the list of
    dynamic events that the probe came with, greater in a younger probe.  `faults` are those of the last hit.
    """

    __slots__ = ("arguments", "direct", "evaluate", "event", "faults", "hits", "kind", "made", "misses", "point_text")

    def __init__(self, kind: Operations, event: ProbeEvent, point_text: str, arguments: Sequence[FetchArg]) -> None:
        self.kind = kind
        self.event = event
        self.point_text = point_text
        self.arguments = tuple(arguments)
        self.evaluate: Evaluate = _never_hit
        self.direct: Direct | None = None
        self.hits = 0
        self.misses = 0
        self.faults = 0
        self.made = 0

    @property
    def letters(self) -> str:
        return "r" if self.event.is_return else "p"

    def line(self) -> str:
        """Return the probe as dynamic_events lists it, without newline."""
        event = self.event
        words = [f"{self.letters}:{event.system}/{event.name}", self.point_text]
        words += [f"{argument.name}={argument.text}" for argument in self.arguments]
        return " ".join(words)

    def matches(self, deletion: Deletion) -> bool:
        """Return True if a delete means this probe."""
        event = self.event
        if deletion.event and deletion.event != event.name:
            return False
        if deletion.group is not None and deletion.group != event.system:
            return False
        if not deletion.words:
            return True
        written = [f"{argument.name}={argument.text}"[: deletion.compared] for argument in self.arguments]
        words = list(deletion.words[1:])
        return self.is_on(deletion.words[0]) and written[: len(words)] == words

    def is_on(self, point: str) -> bool:
        """Return True if the probe point of a delete means this probe's."""
        return point == self.point_text

    @property
    def site(self) -> Hashable:
        """What the kernel compares to tell whether two probes of one event are on the same probe point."""
        return self.point_text

    @property
    def identity(self) -> Hashable:
        """What tells it from the other probes of its event: the probe point and the expressions."""
        return (self.site, *[argument.text for argument in self.arguments])


OnSwitch = Callable[["ProbeEvent", Find, bool], None]  # what a kind does when an event is switched on or off


class EventTraits(NamedTuple):
    """What sets the events of one kind of probe apart from those of the others.

    `attached_to` is the event whose name the trace shows in place of an address, None where records hold an address.
    `in_program`: addresses are those of a program, whose symbols nobody knows.
    """

    is_return: bool = False
    is_attachable: bool = False
    attached_to: bytes | None = None
    in_program: bool = False
    switch: OnSwitch | None = None


class ProbeEvent:
    """An event that one or more probes feed; all have the same arguments by name, type and count.

    The host sets `id` when the event is added.  `start` is where the arguments begin in the record; `args_text`
    turns a record into what the trace shows after the probe's address; `label` is the name as the trace shows it.
    """

    __slots__ = (
        "_array_length",
        "_counted",
        "_padding",
        "_switch",
        "args_text",
        "attached_to",
        "fields",
        "id",
        "in_program",
        "is_attachable",
        "is_return",
        "label",
        "name",
        "print_fmt",
        "references",
        "start",
        "system",
    )

    can_enable = True

    def __init__(
        self,
        system: str,
        name: str,
        arguments: Sequence[FetchArg],
        symbols: Covering,
        gates: Gates,
        traits: EventTraits,
    ) -> None:
        attached_to = traits.attached_to
        self.system = system
        self.name = name
        self.is_return = traits.is_return
        self.is_attachable = traits.is_attachable
        self.attached_to = attached_to
        self.in_program = traits.in_program
        self._switch = traits.switch
        self.id = 0
        self.references = 0
        head = head_fields(gates.word_size, is_return=self.is_return) if attached_to is None else ()
        self.start = 8 + gates.word_size * len(head)
        self.fields: tuple[Field, ...] = (*head, *[argument_field(a, self.start) for a in arguments])
        self.print_fmt = print_format(arguments, head)
        self.label = self.name.encode("latin-1")
        self.args_text = ArgumentsText(arguments, self.start, symbols, joined=gates.early)
        self._array_length = gates.array_length_in_format
        self._padding = gates.third_common if gates.common_padding else ""
        self._counted = gates.number_texts == "untyped" and attached_to is None

    def switch(self, find: Find, on: bool) -> None:
        """Enable or disable the event in the instance whose files `find` gives; may raise OSError."""
        if self._switch is not None:
            self._switch(self, find, on)

    def body(self, symbol: Symbolized) -> Shown:
        """Return what makes the lines that records have in the trace, from the event's name on."""
        values, columns = self.args_text.values, self.args_text.columns
        places = self._places(symbol)
        lead: TextCache[bytes, bytes] = TextCache(lambda addresses: b"%b: (%b)" % (self.label, places[addresses]))
        template = b"%%b%b\n" % self.args_text.template

        def line(record: bytes) -> bytes:
            shown = values(record)
            shown[0] = lead[shown[0]]
            return template % (*shown,)

        def parts(rows: Rows) -> list[Part]:
            return [*columns(rows, lead.__getitem__), b"\n"]

        return Shown(line, parts, self.args_text.fixed)

    def pieces(self, symbol: Symbolized) -> Callable[[bytes], list[bytes]]:
        """Return what makes the same line in the pieces that the kernel writes: any of them may not fit."""
        label, places, arguments = self.label, self._places(symbol), self.args_text.pieces
        return lambda data: [b"%b: (%b)" % (label, places[data[8 : self.start]]), *arguments(data), Put(b"\n")]

    def _places(self, symbol: Symbolized) -> TextCache[bytes, bytes]:
        """Return what lines show as probe points, by the addresses in the records."""

        def shown(words: bytes) -> bytes:
            if self.attached_to is not None:
                return self.attached_to
            *function, hit = (int.from_bytes(words[start : start + 8], "little") for start in range(0, len(words), 8))
            if self.in_program:
                return b" <- ".join([b"0x%x" % address for address in (hit, *function)])
            return b" <- ".join([symbol(hit, True), *[symbol(address, False) for address in function]])

        return TextCache(shown)

    def format(self) -> bytes:
        """Return the text of the `format` file."""
        fields = counted(self.fields) if self._counted else self.fields
        return format_text(
            self.name, self.id, fields, self.print_fmt, array_length=self._array_length, padding=self._padding
        )

    def padded(self, record: bytes) -> bytes:
        """Return a record laid out as the `format` file says, on a kernel whose format has fields that nobody uses."""
        fields, moved = self.fields, 8
        count = b""
        if self._counted:
            count = (len(fields) - (self.start - 8) // 8).to_bytes(8, "little")
            moved += len(count)
        arguments = bytearray(record[self.start :])
        for field in fields:
            if field.type.startswith("__data_loc"):
                start = field.offset - self.start
                location = int.from_bytes(arguments[start : start + 4], "little")
                if location:
                    arguments[start : start + 4] = (location + moved).to_bytes(4, "little")
        return record[:8] + bytes(8) + record[8 : self.start] + count + bytes(arguments)

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
