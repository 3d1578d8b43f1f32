"""The events of a kernel by number, each with its reader and the kind of its records."""

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from kprobe_text.pages.bounds import ALL_FIELDS, COMPILED, SENTENCES
from kprobe_text.pages.fields import Compiled, Readers, compiled
from kprobe_text.pages.layout import event_layout
from kprobe_text.text.records import Value

Format: TypeAlias = tuple[str, str | bytes]
"""The group of an event, and the text of its format file."""

# Events of tracers and of trace_marker, with special records; all others are hits of events.
SPECIAL: Final = ("print", "raw_data", "kernel_stack", "user_stack", "function")
_NUMBER: Final = re.compile(rb"^ID: (\d{1,9})\s*$", re.M)


class Known(NamedTuple):
    """An event whose format is known; ``special`` is its name where its hits aren't Event records, else empty."""

    name: str
    group: str
    special: str
    reader: Compiled


class Events(dict[int, Known | None]):
    """Events by number, each compiled when first met; None for a number without a format.

    ``more`` is asked for the format of a number that ``formats`` lack.  ``problems`` are sentences on formats that
    can't be used, and on numbers without one.
    """

    def __init__(
        self,
        formats: Iterable[Format],
        order: str,
        symbol: Callable[[int], Value],
        *,
        long: int = 8,
        more: Callable[[int], Format | None] | None = None,
    ) -> None:
        super().__init__()
        self._order, self._symbol, self._long, self._more = order, symbol, long, more
        self._texts: dict[int, Format] = {}
        self._readers: Readers = {}  # readers of fields that several events share
        self._compiled = self._fields = 0
        self.problems: list[str] = []
        for group, text in formats:
            data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
            if (number := _NUMBER.search(data)) is None:
                raise ValueError(f"a format file of group {group!r} without an ID: {data[:60]!r}")
            self._texts.setdefault(int(number[1]), (group, data))

    def __missing__(self, number: int) -> Known | None:
        self[number] = found = self._compile(number)
        return found

    def _complain(self, words: str) -> None:
        if len(self.problems) < SENTENCES:
            self.problems.append(f"{words}: its records are shown as unnamed, with their bytes")

    def common(self) -> Compiled | None:
        """Return the reader of the fields that all events have, from any event; None without a usable format."""
        return next((known.reader for number in self._texts if (known := self[number]) is not None), None)

    def _compile(self, number: int) -> Known | None:
        found = self._texts.get(number)
        if found is None and self._more is not None:
            found = self._more(number)
        if found is None:
            self._complain(f"event {number} has no format")
            return None
        group, text = found
        try:
            layout = event_layout(text, long=self._long)
            fields = self._fields + len(layout.common) + len(layout.fields)
            if self._compiled == COMPILED or fields > ALL_FIELDS:
                raise ValueError(f"more than {COMPILED} events have records, or more than {ALL_FIELDS} fields")
            reader = compiled(layout, self._order, self._symbol, self._readers)
        except ValueError as error:
            self._complain(f"event {number}: {error}")
            return None
        self._compiled, self._fields = self._compiled + 1, fields
        special = layout.name if group == "ftrace" and layout.name in SPECIAL else ""
        return Known(layout.name, group, special, reader)
