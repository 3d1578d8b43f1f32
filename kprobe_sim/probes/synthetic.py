"""Synthetic events: read, refused and listed (trace_events_synth.c of 6.1.190, 6.12.117 and 7.2.13; fixtures/kinds).

Histograms emit them (kprobe_sim.events.hist.action).
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from typing import ClassVar

from kprobe_sim.builds.messages import answer
from kprobe_sim.events.dyn_event import Deletion, DynEvent, Symbolized
from kprobe_sim.events.event import Find
from kprobe_sim.events.event_format import format_text
from kprobe_sim.language.primitives.kstrto import is_name, tokens
from kprobe_sim.language.primitives.refusal import Declined, refuse
from kprobe_sim.probes.probe_kind import DynEventList
from kprobe_sim.probes.synthetic_field import FieldFault, SyntheticField, read_early_fields, read_field
from kprobe_sim.probes.synthetic_record import text_of
from kprobe_sim.records.columns import Shown
from kprobe_sim.records.field import Field

SYSTEM = "synthetic"
_BLANKS = "\t\n\x0b\x0c\r \xa0"
_GAP = re.compile("[ \t]")


class SyntheticEvent:
    """A synthetic event; `users` counts the histograms that emit it."""

    system = SYSTEM
    can_enable = True
    is_attachable = True

    def __init__(self, name: str, fields: Sequence[SyntheticField], dyn_events: DynEventList) -> None:
        self.name = name
        self.id = 0
        self.references = 0
        self.users = 0
        self.own_fields = tuple(fields)
        self._array_length = dyn_events.gates.array_length_in_format
        self._gap = " " if dyn_events.gates.synthetic_spaces else ", "
        offset = 8
        laid_out = []
        for field in fields:
            laid_out.append(Field(field.declared, field.name, offset, field.size, field.signed))
            offset += field.room
        self.fields = tuple(laid_out)

    def switch(self, find: Find, on: bool) -> None:
        """Do nothing: only histograms emit the event."""

    def body(self, symbol: Symbolized) -> Shown:
        """Return what makes the lines that records have in the trace."""
        shown = text_of(self.name, self.own_fields, symbol)
        return Shown(shown, lambda rows: (rows.spread(list(map(shown, rows.rows))),))

    def format(self) -> bytes:
        """Return the text of the `format` file."""
        shown = self._gap.join(f"{field.name}={field.format}" for field in self.own_fields)
        print_fmt = ", ".join([f'"{shown}"', *(field.value for field in self.own_fields)])
        return format_text(self.name, self.id, self.fields, print_fmt, array_length=self._array_length)

    def filter_fields(self) -> tuple[Field, ...]:
        """Return the fields a filter may name, the common ones excluded."""
        return self.fields

    def definition(self) -> str:
        """Return the event as synthetic_events lists it, without newline."""
        return f"{self.name}\t{'; '.join(f'{field.type} {field.name}' for field in self.own_fields)}"


class SyntheticEntry:
    """The line of a synthetic event."""

    __slots__ = ("event", "kind")

    def __init__(self, kind: SyntheticEvents, event: SyntheticEvent) -> None:
        self.kind = kind
        self.event = event

    def line(self) -> str:
        """Return the line as dynamic_events lists it, without newline."""
        return f"s:{SYSTEM}/{self.event.definition()}"

    def matches(self, deletion: Deletion) -> bool:
        """Return True if a delete means this event: only its names count."""
        return deletion.event == self.event.name and deletion.group in (None, SYSTEM)


class SyntheticEvents:
    """The synthetic events of one kernel."""

    location: ClassVar[str] = "synthetic_events"

    def __init__(self, dyn_events: DynEventList) -> None:
        self.dyn_events = dyn_events
        self._by_name: dict[str, SyntheticEntry] = {}

    def create(self, line: str, words: list[str]) -> None:
        """Take a line of dynamic_events: s:[synthetic/]NAME FIELDS."""
        command = line.lstrip(_BLANKS)
        if not command.startswith("s:"):
            raise Declined
        if not self.dyn_events.gates.synthetic_checked:
            name = words[0].removeprefix("s:")
            if "/" in name and not name.startswith(f"{SYSTEM}/"):
                raise refuse(errno.EINVAL)
            self._define_unchecked(name.removeprefix(f"{SYSTEM}/"), words[1:])
            return
        gap = _GAP.search(command)
        if gap is None:
            raise self._refused(command, "INVALID_CMD")
        start = len("s:")
        if "/" in command:
            if not command.startswith(f"{SYSTEM}/", start):
                raise self._refused(command, "INVALID_DYN_CMD")
            start += len(SYSTEM) + 1
        self._check(command, command[start:])
        self._define(command, command[start : gap.start()], command[gap.start() :])

    def take(self, line: str) -> None:
        """Take a line of synthetic_events: NAME FIELDS, or !NAME to remove an event."""
        command = line.lstrip(_BLANKS)
        if not command:
            return None
        if not self.dyn_events.gates.synthetic_checked:
            name, *words = tokens(line)
            return self._remove(name[1:]) if name.startswith("!") else self._define_unchecked(name, words)
        self._check(command, command)
        gap = _GAP.search(command)
        end = len(command) if gap is None else gap.start()
        if command.startswith("!"):
            return self._remove(command[1:end])
        if gap is None:
            raise self._refused(command, "INVALID_CMD")
        return self._define(command, command[:end], command[end:])

    def listing(self) -> bytes:
        """Return what synthetic_events reads."""
        lines = [f"{entry.event.definition()}\n" for entry in self._by_name.values()]
        if self.dyn_events.gates.synthetic_newest_first:
            lines.reverse()
        return "".join(lines).encode("latin-1")

    def is_busy(self, entry: DynEvent) -> bool:
        assert isinstance(entry, SyntheticEntry)
        return entry.event.users > 0

    def free(self, entry: DynEvent) -> None:
        if self.is_busy(entry):
            raise refuse(errno.EBUSY)
        self.dyn_events.remove_event(entry.event)
        self.dyn_events.drop(entry)
        del self._by_name[entry.event.name]

    def _remove(self, name: str) -> None:
        if name not in self._by_name:
            raise refuse(errno.ENOENT)
        self.free(self._by_name[name])

    def _check(self, command: str, text: str) -> None:
        """Raise OSError unless a name and one whole field come before the first semicolon (check_command)."""
        head = text.partition(";")[0]
        if not head.startswith("!") and len(tokens(head)) < 3:
            raise self._refused(command, "INVALID_CMD")

    def _define(self, command: str, name: str, text: str) -> None:
        if not name:
            raise self._refused(command, "INVALID_CMD")
        if not is_name(name):
            raise self._refused(command, "BAD_NAME", name)
        if name in self._by_name:
            raise self._refused(command, "EVENT_EXISTS", name)
        self._enter(name, self._fields(command, text))

    def _define_unchecked(self, name: str, words: list[str]) -> None:
        gates = self.dyn_events.gates
        if not name or not words:
            raise refuse(errno.EINVAL)
        if name in self._by_name:
            raise refuse(errno.EEXIST)
        keeps = gates.synthetic_semicolon_kept
        fields = read_early_fields(words, gates.synthetic_fields, gates.synthetic_string, keeps=keeps)
        if not gates.synthetic_gfp and any(field.type == "gfp_t" for field in fields):
            raise refuse(errno.EINVAL)
        self._enter(name, fields)

    def _enter(self, name: str, fields: list[SyntheticField]) -> None:
        event = SyntheticEvent(name, fields, self.dyn_events)
        self.dyn_events.add_event(event)  # even under the name of another kind's event, which then hides it
        entry = self._by_name[name] = SyntheticEntry(self, event)
        self.dyn_events.add(entry)

    def _fields(self, command: str, text: str) -> list[SyntheticField]:
        fields: list[SyntheticField] = []
        for part in text.split(";"):
            words = tokens(part)
            while words:
                try:
                    field, used = read_field(words)
                except FieldFault as fault:
                    raise self._refused(command, fault.message, fault.word) from None
                if len(fields) == self.dyn_events.gates.synthetic_fields:
                    raise self._refused(command, "TOO_MANY_FIELDS")
                fields.append(field)
                words = words[used:]
        if not fields:
            raise self._refused(command, "INVALID_CMD")
        return fields

    def _refused(self, command: str, message: str, word: str = "") -> OSError:
        """Log a fault, with the caret where its word first occurs in the command; return the error to raise."""
        number, text = answer(message, self.dyn_events.gates)
        if text is not None:
            self.dyn_events.errlog.log(self.location, text, command, max(command.find(word), 0))
        return refuse(number)
