"""What of a buffer nobody has read, in order of time: in columns, as a tuple for each record would cost more."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import overload

from kprobe_sim.records.ring_page import Page, RingEntry


class Unread(Sequence[RingEntry]):
    """Records, oldest first, of pages that nobody writes to or reads meanwhile; an entry is made when it is asked for.

    `pages` are those of each CPU that has any records, by its number; `in_order` says that in none of them a record is
    older than the one before it.
    """

    __slots__ = ("cpus", "data", "stamps")

    def __init__(self, pages: Iterable[tuple[int, Sequence[Page]]], *, in_order: bool) -> None:
        self.stamps: list[int] = []
        self.cpus: list[int] = []
        self.data: list[bytes] = []
        runs: list[range] = []
        for cpu, some in pages:
            start = len(self.stamps)
            self.stamps += chain.from_iterable([page.stamps[page.read :] for page in some])
            self.data += chain.from_iterable([page.records() for page in some])
            self.cpus += repeat(cpu, len(self.stamps) - start)
            runs.append(range(start, len(self.stamps)))
        if len(runs) > 1:
            stamp = self.stamps.__getitem__
            # of runs that are in order: sorting merges them, and faster than heapq does
            order = sorted(range(len(self.stamps)), key=stamp) if in_order else list(heapq.merge(*runs, key=stamp))
            self.stamps, self.cpus, self.data = (
                [self.stamps[place] for place in order],
                [self.cpus[place] for place in order],
                [self.data[place] for place in order],
            )

    def __len__(self) -> int:
        return len(self.stamps)

    def __iter__(self) -> Iterator[RingEntry]:
        return map(RingEntry, self.stamps, self.cpus, self.data)

    @overload
    def __getitem__(self, place: int) -> RingEntry: ...

    @overload
    def __getitem__(self, place: slice) -> list[RingEntry]: ...

    def __getitem__(self, place: int | slice) -> RingEntry | list[RingEntry]:
        if isinstance(place, slice):
            return list(map(RingEntry, self.stamps[place], self.cpus[place], self.data[place]))
        return RingEntry(self.stamps[place], self.cpus[place], self.data[place])
