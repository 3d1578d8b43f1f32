"""The unread part of a buffer, in order of time: in columns, which cost less than a tuple for each record."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, repeat
from typing import overload

from kprobe_sim.records.ring_page import Page, RingEntry

_Columns = tuple[Sequence[int], Sequence[int], Sequence[bytes]]  # time stamps, CPUs, data


class Unread(Sequence[RingEntry]):
    """Records, oldest first, of pages that nobody writes to or reads meanwhile; each is made when it is asked for.

    `pages` are those of each CPU with records, by its number; `in_order`: no record of a CPU is older than the one
    before it.
    """

    __slots__ = ("_cpu", "_ends", "_merged", "_pages", "in_order")

    def __init__(self, pages: Sequence[tuple[int, Sequence[Page]]], *, in_order: bool) -> None:
        self.in_order = in_order
        self._merged = _merged(pages, in_order=in_order) if len(pages) > 1 else None
        self._cpu, self._pages = pages[0] if len(pages) == 1 else (0, ())
        counts = [len(page) - page.read for page in self._pages]
        self._ends = [0, *accumulate(counts)] if self._merged is None else [len(self._merged[0])]

    def columns(self, start: int, end: int) -> _Columns:
        """Return a range of records, at least one, in columns."""
        if self._merged is not None:
            all_stamps, cpus, all_data = self._merged
            return all_stamps[start:end], cpus[start:end], all_data[start:end]
        end = min(end, len(self))
        ends = self._ends
        first, last = bisect_right(ends, start) - 1, bisect_left(ends, end)
        stamps: list[int] = []
        data: list[bytes] = []
        for page, before, after in zip(self._pages[first:last], ends[first:last], ends[first + 1 :], strict=False):
            part = slice(page.read + max(start - before, 0), page.read + min(end, after) - before)
            stamps += page.stamps[part]
            data += page.records(part)
        return stamps, [self._cpu] * (end - start), data

    def __len__(self) -> int:
        return self._ends[-1]

    def __iter__(self) -> Iterator[RingEntry]:
        return map(RingEntry, *self.columns(0, len(self))) if len(self) else iter(())

    @overload
    def __getitem__(self, index: int) -> RingEntry: ...

    @overload
    def __getitem__(self, index: slice) -> list[RingEntry]: ...

    def __getitem__(self, index: int | slice) -> RingEntry | list[RingEntry]:
        indexes = range(len(self))[index]
        if isinstance(indexes, int):
            return next(map(RingEntry, *self.columns(indexes, indexes + 1)))
        return list(map(RingEntry, *self.columns(indexes.start, indexes.stop))) if indexes else []


def _merged(pages: Sequence[tuple[int, Sequence[Page]]], *, in_order: bool) -> _Columns:
    """Return the records of several CPUs in order of time."""
    stamps: list[int] = []
    cpus: list[int] = []
    data: list[bytes] = []
    runs: list[range] = []
    for cpu, unread in pages:
        start = len(stamps)
        stamps += chain.from_iterable([page.stamps[page.read :] for page in unread])
        data += chain.from_iterable([page.records(slice(page.read, None)) for page in unread])
        cpus += repeat(cpu, len(stamps) - start)
        runs.append(range(start, len(stamps)))
    stamp = stamps.__getitem__
    # runs that are in order: sorted() merges them faster than heapq does
    order = sorted(range(len(stamps)), key=stamp) if in_order else list(heapq.merge(*runs, key=stamp))
    return [stamps[index] for index in order], [cpus[index] for index in order], [data[index] for index in order]
