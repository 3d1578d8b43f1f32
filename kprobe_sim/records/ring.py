"""The ring buffer of one trace instance: per-CPU pages, overwrite, consuming reads and the counts of `stats`.

Follows kernel/trace/ring_buffer.c (6.1); the reader owns one page more than the buffer has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.records.ring_page import (
    EXTEND_AFTER,
    EXTEND_SIZE,
    LEAST_PADDING,
    PAGE_DATA,
    PAGE_HEADER,
    Page,
    RingEntry,
    event_bytes,
    event_length,
    padding,
    page_bytes,
)
from kprobe_sim.records.unread import Unread

__all__ = ["PAGE_DATA", "CpuBuffer", "RingBuffer", "RingEntry", "event_length"]

_MAX_DATA = PAGE_DATA - 8  # BUF_MAX_DATA_SIZE: more is refused, and not counted


class CpuBuffer:
    """The buffer of one CPU."""

    def __init__(self, cpu: int, pages: int, *, by_event: bool = True) -> None:
        self.cpu = cpu
        self._by_event = by_event  # lost bytes are counted by events, else by pages (before 5.10)
        self.nr_pages = pages
        self.resets = 0
        self.reset()

    def reset(self) -> None:
        """Forget all entries and counts (ring_buffer_reset_cpu)."""
        self.resets += 1
        self._ring: deque[Page] = deque([Page()])  # from the head page to the tail page
        self._reader = Page()
        self._tail = self._ring[0]
        self._last_stamp = 0
        self._last_overrun = 0
        self._lost = 0
        self.in_order = True  # no entry is older than the one before it
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

    def is_filled(self, percent: int) -> bool:
        """Return True if that part of the pages has data, counting the one being written as full (full_hit)."""
        return not percent or max(len(self._ring), 1) * 100 >= percent * self.nr_pages

    def write(self, stamp: int, data: bytes, overwrite: bool) -> bool:
        """Append an entry; return False if it is dropped (the buffer is full, and not in overwrite mode)."""
        if len(data) > _MAX_DATA:
            return False
        length = event_length(len(data))
        tail = self._tail
        used = tail.used + tail.padding
        if used and stamp - self._last_stamp >= EXTEND_AFTER:
            length += EXTEND_SIZE
        if used + length > PAGE_DATA:
            length = event_length(len(data))
            if PAGE_DATA - used >= LEAST_PADDING:  # the rest becomes an event without content (rb_reset_tail)
                tail.padding = PAGE_DATA - used
                self.written_bytes += tail.padding
            if len(self._ring) >= self.nr_pages and tail is not self._reader:
                if not overwrite:
                    self.dropped += 1
                    return False
                self._drop_head()
            tail = self._tail = Page()
            used = 0
            self._ring.append(tail)
        if stamp < self._last_stamp:
            self.in_order = False
        tail.data += data
        tail.ends.append(len(tail.data))
        try:
            tail.stamps.append(stamp)
        except (OverflowError, TypeError):  # a test's clock may give what no kernel's does
            tail.stamps = [*tail.stamps, stamp]
        tail.used = used + length
        self._last_stamp = stamp
        self.written += 1
        self.written_bytes += length
        return True

    def _drop_head(self) -> None:
        page = self._ring.popleft()
        self.overrun += len(page)
        self.written_bytes -= page.used + page.padding if self._by_event else PAGE_DATA

    @property
    def unread_pages(self) -> Sequence[Page]:
        """The pages that a non-consuming reader sees, oldest first."""
        return (self._reader, *self._ring)

    def pending(self) -> Unread:
        """Return what a non-consuming reader sees, oldest first."""
        return Unread([(self.cpu, self.unread_pages)], in_order=True)

    def _reader_page(self) -> Page | None:
        """Return the page of the consuming reader, or the next one if it has read all of that; None if empty."""
        reader = self._reader
        if reader.read >= len(reader):
            self._pass_padding(reader)
            if not self.entries or not self._ring or not self._ring[0]:
                return None
            reader = self._reader = self._ring.popleft()
            self._lost = self.overrun - self._last_overrun
            self._last_overrun = self.overrun
        return reader

    def _pass_padding(self, page: Page) -> None:
        if self._by_event:
            self.read_bytes += page.padding
        page.padding = 0

    def peek(self) -> RingEntry | None:
        """Return the next entry of the consuming reader, with the losses since the last page; None if empty."""
        reader = self._reader_page()
        return None if reader is None else reader.entry(self.cpu, self._lost)

    def after_next(self) -> RingEntry | None:
        """Return the entry after the one that `peek` shows; None if there is none."""
        return next(iter(self.pending()[1:2]), None)

    def consume(self) -> None:
        """Take away the entry that `peek` showed."""
        reader = self._reader
        length = reader.length()
        reader.read += 1
        reader.read_bytes += length
        self.read += 1
        if self._by_event:
            self.read_bytes += length
        self._lost = 0

    def take_full_page(self, widen: Callable[[bytes], bytes] | None = None) -> bytes | None:
        """Consume and return what is left of a page that nobody writes to any more; None if there is no such page."""
        reader = self._reader_page()
        return None if reader is None or reader is self._tail else self.take_page(PAGE_SIZE, widen)

    def take_page(self, size: int, widen: Callable[[bytes], bytes] | None = None) -> bytes | None:
        """Consume and return a page in the kernel's layout, with the events that fit `size` bytes; None if none does.

        `widen` adds the fields that records lack here (see `common_padding`); events without room are in the next page.

        Source: ring_buffer_read_page() hands over a full page that nobody writes to any more; of other pages it copies
        the events one by one.
        """
        room = min(size, PAGE_SIZE) - PAGE_HEADER
        if room <= 0:
            return None
        reader = self._reader_page()
        if reader is None:
            return None
        missed = self._lost
        stamp = reader.read_stamp()
        is_whole = not reader.read and reader is not self._tail and room >= reader.used
        if is_whole and not self._by_event:
            self.read_bytes += PAGE_DATA
        taken: list[bytes] = []
        used, before = 0, stamp
        while reader.read < len(reader):
            length = reader.length()
            entry = reader.entry(self.cpu, 0)
            if widen is not None:
                length -= event_length(len(entry.data))
                entry = entry._replace(data=widen(entry.data))
                length += event_length(len(entry.data))
            if used + length > room:
                break
            taken.append(event_bytes(entry, before))
            used += length
            before = entry.stamp
            self.consume()
        else:
            filler = b"" if is_whole or reader is self._tail else padding(PAGE_DATA - reader.used)
            if len(filler) <= room - used:
                taken.append(filler)
                self._pass_padding(reader)
        if not taken:
            return None
        self._lost = 0
        return page_bytes(stamp, b"".join(taken), missed)


class CpuBuffers(dict[int, CpuBuffer]):
    """The buffers of the CPUs that were used, in the order of the CPUs; the others are made when they are needed.

    `pages` is the number of pages that the others will have.
    """

    __slots__ = ("_by_event", "_count", "pages")

    def __init__(self, count: int, pages: int, *, by_event: bool) -> None:
        super().__init__()
        self.pages = pages
        self._count = count
        self._by_event = by_event

    def __missing__(self, cpu: int) -> CpuBuffer:
        if not 0 <= cpu < self._count:
            raise IndexError(cpu)
        is_last = cpu > max(self, default=-1)
        made = self[cpu] = CpuBuffer(cpu, self.pages, by_event=self._by_event)
        if not is_last:
            items = sorted(self.items())
            self.clear()
            self.update(items)
        return made


class RingBuffer:
    """The buffers of all CPUs of one instance."""

    def __init__(self, cpus: int, pages: int, *, by_event: bool = True) -> None:
        self.cpus = CpuBuffers(cpus, pages, by_event=by_event)
        self.overwrite = True

    def reset(self, cpu: int | None = None) -> None:
        """Clear one CPU's buffer, or all."""
        for buffer in self._selected(cpu):
            buffer.reset()

    def resize(self, pages: int, cpu: int | None = None) -> None:
        """Give one CPU's buffer, or all, that many pages."""
        if cpu is None:
            self.cpus.pages = pages
        for buffer in self._selected(cpu):
            buffer.resize(pages)

    def resize_as(self, other: RingBuffer) -> None:
        """Give each CPU's buffer as many pages as that of another instance."""
        self.resize(other.cpus.pages)
        for cpu, buffer in other.cpus.items():
            self.cpus[cpu].resize(buffer.nr_pages)

    def pages_of(self, cpu: int) -> int:
        """Return the number of pages of one CPU's buffer."""
        return self.cpus[cpu].nr_pages if cpu in self.cpus else self.cpus.pages

    def write(self, cpu: int, stamp: int, data: bytes) -> bool:
        """Append an entry to a CPU's buffer; return False if it was dropped."""
        return self.cpus[cpu].write(stamp, data, self.overwrite)

    @property
    def state(self) -> Sequence[object]:
        """A value that changes whenever there is something else to read."""
        return [(buffer.resets, buffer.written, buffer.overrun, buffer.read) for buffer in self.cpus.values()]

    def is_empty(self, cpu: int | None = None) -> bool:
        """Return True if nothing is left to read."""
        return not any(buffer.entries for buffer in self._selected(cpu))

    def counts(self) -> tuple[int, int]:
        """Return (entries in the buffer, entries written) as the header of `trace` counts them."""
        entries = sum(buffer.entries for buffer in self.cpus.values())
        return entries, entries + sum(buffer.overrun for buffer in self.cpus.values())

    def pending(self, cpu: int | None = None) -> Iterator[RingEntry]:
        """Yield all unread entries in order of time, without consuming them."""
        return iter(self.unread(cpu))

    def unread(self, cpu: int | None = None) -> Unread:
        """Return all unread entries in order of time, without consuming them."""
        buffers = [buffer for buffer in self._selected(cpu) if buffer.entries]
        in_order = all(buffer.in_order for buffer in buffers)
        return Unread([(buffer.cpu, buffer.unread_pages) for buffer in buffers], in_order=in_order)

    def peek(self, cpu: int | None = None) -> RingEntry | None:
        """Return the oldest unread entry without consuming it."""
        best: RingEntry | None = None
        for buffer in self._selected(cpu):
            entry = buffer.peek()
            if entry is not None and (best is None or entry.stamp < best.stamp):
                best = entry
        return best

    def consume(self, entry: RingEntry) -> None:
        """Take away the entry that `peek` returned."""
        self.cpus[entry.cpu].consume()

    def _selected(self, cpu: int | None) -> Iterable[CpuBuffer]:
        return self.cpus.values() if cpu is None else (self.cpus[cpu],)
