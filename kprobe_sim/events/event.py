"""An event as the tracefs has it (struct trace_event_call), and the static events of the profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kprobe_sim.records.field import Field

Find = Callable[[str, str], object]  # (system, name) -> the file of that event in an instance, or None


class Event(Protocol):
    """What the tracefs needs to know of an event (struct trace_event_call)."""

    @property
    def system(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> int: ...

    @property
    def can_enable(self) -> bool:
        """False for the events of system `ftrace`, which have no files enable, filter and trigger."""
        ...

    def format(self) -> bytes:
        """Return the text of the event's `format` file."""
        ...

    def filter_fields(self) -> Iterable[Field]:
        """Return the fields a filter may name, the common ones excluded."""
        ...

    def switch(self, find: Find, on: bool) -> None:
        """Enable or disable it in the instance whose files `find` gives; raise OSError if that can't be done."""
        ...


def listed(event: Event) -> bytes:
    """Return the line of an event in available_events and set_event."""
    return f"{event.system}:{event.name}\n".encode("latin-1")


class StaticEvent:
    """A tracepoint event that the profile recorded; its format text is read when it is first needed."""

    __slots__ = ("_fields", "_format", "can_enable", "files", "id", "name", "system")

    def __init__(
        self, system: str, name: str, number: int, format_text: Callable[[], bytes], files: Iterable[str]
    ) -> None:
        self.system = system
        self.name = name
        self.id = number
        self.files = tuple(files)
        self.can_enable = "enable" in self.files
        self._format = format_text
        self._fields: tuple[Field, ...] | None = None

    def switch(self, find: Find, on: bool) -> None:
        """Tracepoints can always be switched."""

    def format(self) -> bytes:
        """Return the recorded text of `format`."""
        return self._format()

    def filter_fields(self) -> tuple[Field, ...]:
        """Read the fields back from the recorded format text."""
        if self._fields is None:
            fields = read_fields(self._format().decode())
            self._fields = tuple([field for field in fields if not field.name.startswith("common_")])
        return self._fields


def read_fields(text: str) -> list[Field]:
    """Read the field lines of a `format` text."""
    fields = []
    for line in text.splitlines():
        if not line.startswith("\tfield:"):
            continue
        declaration, offset, size, signed = (part.split(":", 1)[1] for part in line.strip().rstrip(";").split(";\t"))
        kind, _, name = declaration.rpartition(" ")
        if name.endswith("]") and "[" in name:
            name, bracket, length = name.partition("[")
            kind += bracket + length
        fields.append(Field(kind, name, int(offset), int(size), signed == "1"))
    return fields
