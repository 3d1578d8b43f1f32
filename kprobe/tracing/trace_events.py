"""The events of a trace alone, without its other records."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import Protocol, Self

    from kprobe_text.text import Event, Record

    class Recorded(Protocol):
        """The part of a `Trace` that its events need."""

        def __iter__(self) -> Iterator[Record]: ...
        def __aiter__(self) -> AsyncIterator[Record]: ...


class TraceEvents:
    """The events of a trace, as they come: for `for`, `next` and `async for`; other records are skipped.

    The first one begins a trace that hasn't begun, which then ends with the iteration.
    """

    __slots__ = ("_records", "_trace")

    def __init__(self, trace: Recorded) -> None:
        self._trace = trace
        self._records: Iterator[Record] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        from kprobe_text.text import Event

        if self._records is None:
            self._records = iter(self._trace)
        for record in self._records:
            if isinstance(record, Event):
                return record
        raise StopIteration

    async def __aiter__(self) -> AsyncIterator[Event]:
        from kprobe_text.text import Event

        async for record in self._trace:
            if isinstance(record, Event):
                yield record
