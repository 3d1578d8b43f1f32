"""The ring buffer of one trace instance: per-CPU pages, overwrite, consuming reads and the counts of `stats`.

Sizes follow kernel/trace/ring_buffer.c (6.1): sub-buffers of 4080 data bytes, a 4-byte event header, 4-byte alignment,
a length word for data over 112 bytes, 8 bytes of time extend after a pause of 2**27 ns; the reader owns one page more.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

PAGE_DATA = 4080  # a page less its 16-byte header (events/header_page: data offset 16)
_MAX_SMALL_DATA = 112
_TIME_EXTEND_AFTER = 1 << 27


class Entry(NamedTuple):
    """One record as the buffer gives it back: time stamp in the buffer's clock, CPU, data, losses just before it."""

    stamp: int
    cpu: int
    data: bytes
    lost: int = 0


def event_length(size: int) -> int:
    """Return the bytes that an event with `size` bytes of data takes in the buffer."""
    length = max(size, 1)
    if length > _MAX_SMALL_DATA:
        length += 4
    length = (length + 4 + 3) & ~3
    return 16 if length == 12 else length


class _Page:
    __slots__ = ("entries", "read", "stamp", "used")

    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes, int]] = []  # stamp, data, length in the buffer
        self.read = 0  # entries of this page that a reader has consumed
        self.used = 0
        self.stamp = 0


class CpuBuffer:
    """The buffer of one CPU."""

    def __init__(self, cpu: int, pages: int) -> None:
        self.cpu = cpu
        self.nr_pages = pages
        self.reset()

    def reset(self) -> None:
        """Forget all entries and counts (ring_buffer_reset_cpu)."""
        self._ring: deque[_Page] = deque([_Page()])  # from the head page to the tail page
        self._reader = _Page()
        self._tail = self._ring[0]
        self._last_stamp = 0
        self._last_overrun = 0
        self.written = 0
        self.written_bytes = 0
        self.overrun = 0
        self.dropped = 0
        self.read = 0
        self.read_bytes = 0

    def resize(self, pages: int) -> None:
        """Change the number of pages; the oldest pages go when they no longer fit."""
        self.nr_pages = pages
        while len(self._ring) > pages:
            self._drop_head()

    @property
    def entries(self) -> int:
        """Entries that can still be read."""
        return self.written - self.overrun - self.read

    @property
    def unread_bytes(self) -> int:
        """Bytes that can still be read, headers included."""
        return self.written_bytes - self.read_bytes

    @property
    def oldest_stamp(self) -> int:
        """Time stamp of the page that holds the oldest entry (ring_buffer_oldest_event_ts)."""
        page = self._reader if self._tail is self._reader else self._ring[0]
        return page.stamp

    def write(self, stamp: int, data: bytes, overwrite: bool) -> bool:
        """Append an entry; return False when it is dropped (full, and not in overwrite mode)."""
        length = event_length(len(data))
        tail = self._tail
        if tail.used and stamp - self._last_stamp >= _TIME_EXTEND_AFTER:
            length += 8
        if tail.used + length > PAGE_DATA:
            length = event_length(len(data))
            if len(self._ring) >= self.nr_pages and tail is not self._reader:
                if not overwrite:
                    self.dropped += 1
                    return False
                self._drop_head()
            tail = self._tail = _Page()
            self._ring.append(tail)
        if not tail.used:
            tail.stamp = stamp
        tail.entries.append((stamp, data, length))
        tail.used += length
        self._last_stamp = stamp
        self.written += 1
        self.written_bytes += length
        return True

    def _drop_head(self) -> None:
        page = self._ring.popleft()
        self.overrun += len(page.entries)
        self.written_bytes -= page.used

    def pending(self) -> Iterator[Entry]:
        """Yield what a non-consuming reader sees, oldest first."""
        for stamp, data, _ in self._reader.entries[self._reader.read :]:
            yield Entry(stamp, self.cpu, data)
        for page in list(self._ring):
            for stamp, data, _ in list(page.entries):
                yield Entry(stamp, self.cpu, data)

    def peek(self) -> Entry | None:
        """Return the next entry of the consuming reader, with the losses since the last page; None if empty."""
        reader = self._reader
        if reader.read >= len(reader.entries):
            if not self.entries or not self._ring or not self._ring[0].entries:
                return None
            reader = self._reader = self._ring.popleft()
            self._lost = self.overrun - self._last_overrun
            self._last_overrun = self.overrun
        stamp, data, _ = reader.entries[reader.read]
        return Entry(stamp, self.cpu, data, self._lost)

    def consume(self) -> None:
        """Take away the entry that `peek` showed."""
        reader = self._reader
        self.read_bytes += reader.entries[reader.read][2]
        reader.read += 1
        self.read += 1
        self._lost = 0

    _lost = 0


class RingBuffer:
    """The buffers of all CPUs of one instance."""

    def __init__(self, cpus: int, pages: int) -> None:
        self.cpus = [CpuBuffer(cpu, pages) for cpu in range(cpus)]
        self.overwrite = True

    def reset(self, cpu: int | None = None) -> None:
        """Clear one CPU's buffer, or all."""
        for buffer in self._selected(cpu):
            buffer.reset()

    def resize(self, pages: int, cpu: int | None = None) -> None:
        """Give one CPU's buffer, or all, that many pages."""
        for buffer in self._selected(cpu):
            buffer.resize(pages)

    def write(self, cpu: int, stamp: int, data: bytes) -> bool:
        """Append an entry to a CPU's buffer; False when it was dropped."""
        return self.cpus[cpu].write(stamp, data, self.overwrite)

    def is_empty(self, cpu: int | None = None) -> bool:
        """True when nothing is left to read."""
        return not any(buffer.entries for buffer in self._selected(cpu))

    def pending(self, cpu: int | None = None) -> Iterator[Entry]:
        """Yield all unread entries in order of time, without consuming them."""
        buffers = self._selected(cpu)
        if len(buffers) == 1:
            return buffers[0].pending()
        return heapq.merge(*(buffer.pending() for buffer in buffers), key=lambda entry: entry.stamp)

    def peek(self, cpu: int | None = None) -> Entry | None:
        """Return the oldest unread entry without consuming it."""
        best: Entry | None = None
        for buffer in self._selected(cpu):
            entry = buffer.peek()
            if entry is not None and (best is None or entry.stamp < best.stamp):
                best = entry
        return best

    def consume(self, entry: Entry) -> None:
        """Take away the entry that `peek` returned."""
        self.cpus[entry.cpu].consume()

    def _selected(self, cpu: int | None) -> list[CpuBuffer]:
        return self.cpus if cpu is None else [self.cpus[cpu]]
