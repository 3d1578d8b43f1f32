"""The page for records that may still be dropped (trace_buffered_event).

Records of events with a filter, and of softly disabled ones, are first written to one page of their CPU; where a read
fails, a record shows what the record before it had there.  The page is new, and zero, whenever somebody needs one and
nobody did before.  Source: trace_event_buffer_lock_reserve() and trace_buffered_event_enable() in
kernel/trace/trace.c of 6.1; an event that is removed with its filter set needs it for ever, as in the kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.named_tuple import NamedTuple

_ROOM = PAGE_SIZE - 8  # for a record, after its head; a longer one goes straight to the ring buffer
_MOST_KEPT = 16  # records


class Hole(NamedTuple):
    """Bytes that a failed read didn't write; `change` is applied to the number that stays there (a bitfield)."""

    offset: int
    size: int
    change: Callable[[int], int] | None = None


class SparseBytes(bytes):
    """Bytes with holes, which are zero here."""

    holes: tuple[Hole, ...] = ()

    @classmethod
    def of(cls, data: bytes, holes: Sequence[Hole]) -> SparseBytes:
        """Return the bytes with these holes."""
        made = cls(data)
        made.holes = tuple(holes)
        return made


class ScratchPages:
    """One page for each CPU, while some event needs it.

    Records are copied to a page only when its contents are needed.  Until then they are kept, each shorter than those
    before it: a record covers all that aren't longer.
    """

    __slots__ = ("_busy", "_kept", "_pages", "_users")

    def __init__(self, cpus: int) -> None:
        self._pages = defaultdict[int, bytearray](_page)  # of the CPUs that had a record
        self._kept = defaultdict[int, list[bytes]](list)
        self._busy = [False] * cpus
        self._users = 0

    def take(self, cpu: int) -> bool:
        """Take the page for a record; return False if another record is on it, whose triggers made this one."""
        if self._busy[cpu]:
            return False
        self._busy[cpu] = True
        return True

    def is_busy(self, cpu: int) -> bool:
        """Return whether a record is on the page."""
        return self._busy[cpu]

    def give_back(self, cpu: int) -> None:
        """Release the page for the next record."""
        self._busy[cpu] = False

    def need(self, on: bool) -> None:
        """Count one more user of the pages, or one less."""
        self._users += 1 if on else -1
        if not self._users:
            self._pages.clear()
            self._kept.clear()

    def write(self, cpu: int, record: bytes) -> bytes:
        """Put a record on the page; return it with its holes filled by what was there.

        A record that is too long for the page is returned as it is.
        """
        if len(record) > _ROOM:
            return record
        kept = self._kept[cpu]
        if isinstance(record, SparseBytes):
            page = self._laid(cpu)
            filled = bytearray(record)
            for offset, size, change in record.holes:
                hole = slice(offset, offset + size)
                old = bytes(page[hole])
                filled[hole] = old if change is None else change(int.from_bytes(old, "little")).to_bytes(size, "little")
            record = bytes(filled)
        size = len(record)
        while kept and len(kept[-1]) <= size:
            kept.pop()
        kept.append(record)
        if len(kept) > _MOST_KEPT:
            self._laid(cpu)
        return record

    def _laid(self, cpu: int) -> bytearray:
        """Copy the kept records to the page, and return it."""
        page, kept = self._pages[cpu], self._kept[cpu]
        for record in kept:
            page[: len(record)] = record
        kept.clear()
        return page


def _page() -> bytearray:
    return bytearray(PAGE_SIZE)
