"""seq_file: text that is produced record by record as it is read, at most one page at a time.

Text that was made and not yet read is kept; each read(2) makes what follows it anew.  Source:
seq_read_iter(), traverse() and seq_lseek() in fs/seq_file.c of 6.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import ClassVar, overload

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.tree.files.node import OpenFile, Seek

Records = Callable[[], Sequence[bytes]]


class Seq(OpenFile):
    """A seq_file; `records` returns all records as they are now, `put` takes a write (None refuses it with EINVAL).

    With `write_moves` False a write doesn't move the position, as in kprobe_events.
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

    def read(self, size: int, position: int) -> bytes:
        if not size:
            return b""
        if not position:
            self._index, self._left = 0, b""
        if position != self._expected:
            self._traverse(position)
        taken, self._left = self._left, b""
        if len(taken) <= size:
            taken += self._fill(size - len(taken))
        if len(taken) > size:
            taken, self._left = taken[:size], taken[size:]
        self._expected = position + len(taken)
        return taken

    def lseek(self, position: int, offset: int, whence: int) -> int:
        """Return the new position for lseek(2); the record there is made at once."""
        target = super().lseek(position, offset, whence)
        if self.readable and target != self._expected:
            self._traverse(target)
            self._expected = target
        return target

    def _show(self, index: int, enough: int) -> Sequence[bytes]:
        """Return the records from `index` on, as they are now, until they are `enough` bytes long, but at least one."""
        records = self._records()
        end = index
        while end < len(records):
            enough -= len(records[end])
            end += 1
            if enough <= 0:
                break
        return records[index:end]

    def _fill(self, size: int) -> bytes:
        """Make records until they have that size, or the next one doesn't fit into the buffer."""
        while True:
            room = self._room
            records = self._show(self._index, min(size, room))
            text = b"".join(records)
            if not text:
                self._index += len(records)
                if not records:
                    return b""
            elif len(text) < room:
                self._made(records, spilled=False)
                self._index += len(records)
                return text
            elif len(text) > len(records[-1]):
                self._made(records, spilled=True)
                self._index += len(records) - 1
                return text[: -len(records[-1])]
            else:
                self._room *= 2

    def _traverse(self, position: int) -> None:
        """Make all records up to a position again, and from the start whenever one doesn't fit into the buffer."""
        self._index, self._left = 0, b""
        if not position:
            return
        while True:
            records = self._show(0, position)
            spilled = next((index for index, record in enumerate(records) if len(record) >= self._room), None)
            if spilled is None:
                break
            self._made(records[: spilled + 1], spilled=True)
            self._room *= 2
        self._made(records, spilled=False)
        self._index = len(records)
        beyond = sum(map(len, records)) - position
        self._left = records[-1][-beyond:] if beyond > 0 else b""

    def _made(self, records: Sequence[bytes], *, spilled: bool) -> None:
        """Note that records were made from `_index` on; `spilled`: the last one didn't fit."""

    def write(self, data: bytes, position: int) -> int:
        if self._put is None:
            raise refuse(errno.EINVAL)
        consumed = self._put(data)
        return len(data) if consumed is None else consumed

    def after_write(self, position: int, written: int) -> int:
        return position + written if self._write_moves else position


def lines(get: Callable[[], bytes]) -> Records:
    """Return the lines of a text as records; a text that is the same object as last time isn't split again."""
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
    return lambda: LazyRecords((get,))


class LazyRecords(Sequence[bytes]):
    """Records that are made once, when they are first read: making one may change the next."""

    def __init__(self, makers: Sequence[Callable[[], bytes]]) -> None:
        self._makers = makers
        self._made: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if index not in self._made:
            self._made[index] = self._makers[index]()
        return self._made[index]
