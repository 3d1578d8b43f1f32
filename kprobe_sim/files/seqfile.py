"""seq_file: text that is made record by record as it is read, a page at a time at most.

What was made and not yet read stays as it was; what comes after it is made anew at each read(2).  Source:
seq_read_iter(), traverse() and seq_lseek() in fs/seq_file.c of 6.1.
"""

from __future__ import annotations

import errno
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import ClassVar

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.files.node import OpenFile, Seek
from kprobe_sim.parsing.refusal import refuse

Records = Callable[[], Sequence[bytes]]


class Seq(OpenFile):
    """A seq_file; `records` gives all its records as they are now, `put` takes a write (None: EINVAL).

    A write doesn't move the position of reads where `write_moves` is False (kprobe_events: its write takes no notice
    of it).
    """

    seek: ClassVar[Seek] = Seek.SEQ

    def __init__(
        self,
        flags: int,
        records: Records,
        put: Callable[[bytes], int | None] | None = None,
        *,
        write_moves: bool = True,
    ) -> None:
        super().__init__(flags)
        self._records = records
        self._put = put
        self._write_moves = write_moves
        self._index = 0  # of the next record to be made
        self._left = b""  # made and not yet read
        self._expected = 0  # the position after what was read
        self._room = PAGE_SIZE
        self._counted: Sequence[bytes] | None = None
        self._ends: list[int] = []

    def read(self, size: int, position: int) -> bytes:
        if not size:
            return b""
        if position == 0:
            self._index, self._left = 0, b""
        if position != self._expected:
            self._traverse(position)
        taken, self._left = self._left[:size], self._left[size:]
        if not self._left:
            made = self._fill(size - len(taken))
            taken, self._left = taken + made[: size - len(taken)], made[size - len(taken) :]
        self._expected = position + len(taken)
        return taken

    def lseek(self, position: int, offset: int, whence: int) -> int:
        """Return where lseek(2) leads; the record there is made at once."""
        target = super().lseek(position, offset, whence)
        if self.readable and target != self._expected:
            self._traverse(target)
            self._expected = target
        return target

    def _all(self) -> Sequence[bytes]:
        """Return all records as they are now; `_ends` has where each ends, if they were one after the other."""
        records = self._records()
        if records is not self._counted:
            self._count(records)
        return records

    def _count(self, records: Sequence[bytes]) -> None:
        self._counted = records
        self._ends = list(accumulate(map(len, records)))

    def _fill(self, wanted: int) -> bytes:
        """Make records until they are as long as is wanted, or the next one doesn't fit the buffer."""
        records, start = self._all(), self._index
        ends, count = self._ends, len(records)
        while start < count and not records[start]:
            start += 1
        self._index = start
        if start >= count:
            return b""
        before = ends[start - 1] if start else 0
        while ends[start] - before >= self._room:
            self._room *= 2
        fitting = bisect_left(ends, before + self._room, start)
        enough = bisect_left(ends, before + wanted, start) + 1
        self._index = min(fitting, enough, count)
        self._made(records, self._index, spilled=fitting < min(enough, count))
        return b"".join(records[start : self._index])

    def _traverse(self, position: int) -> None:
        """Make all again up to a position, and once more from the start whenever a record doesn't fit the buffer."""
        self._index, self._left = 0, b""
        if not position:
            return
        while True:
            records, ends = self._all(), self._ends
            last = bisect_left(ends, position)
            made = records[: last + 1]
            spilled = next((index for index, record in enumerate(made) if len(record) >= self._room), None)
            self._made(records, len(made) if spilled is None else spilled, spilled=spilled is not None)
            if spilled is None:
                break
            self._room *= 2
        self._index = len(made)
        if last < len(records) and ends[last] > position:
            self._left = records[last][position - ends[last] :]

    def _made(self, records: Sequence[bytes], end: int, *, spilled: bool) -> None:
        """Note that records were made up to `end`; `spilled`: the one there was made, too, and didn't fit."""

    def write(self, data: bytes, position: int) -> int:
        if self._put is None:
            raise refuse(errno.EINVAL)
        consumed = self._put(data)
        return len(data) if consumed is None else consumed

    def after_write(self, position: int, written: int) -> int:
        return position + written if self._write_moves else position


def lines(get: Callable[[], bytes]) -> Records:
    """Return the lines of a text as records; a text that is the same object as before isn't split again."""
    last: tuple[bytes, list[bytes]] = (b"", [])

    def records() -> list[bytes]:
        nonlocal last
        text = get()
        if last[0] is not text:
            last = (text, text.splitlines(keepends=True))
        return last[1]

    return records


def single(get: Callable[[], bytes]) -> Records:
    """Return a text as one record (single_open)."""
    return lambda: (get(),)
