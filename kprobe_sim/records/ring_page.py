"""A page of the ring buffer: its entries, and the bytes that per_cpu/cpuN/trace_pipe_raw returns for it.

A page begins with u64 time stamp and u64 commit (bytes of data, and flags on lost events), as events/header_page says;
an event with 5 bits type_len and 27 bits time_delta, as events/header_event says.  Sizes follow
kernel/trace/ring_buffer.c (6.1): 4-byte alignment, a length word for data over 112 bytes, a time extend of 8 bytes
after a pause of 2**27 ns; fixtures/control/raw.jsonl.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import MutableSequence
from functools import cache

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.named_tuple import NamedTuple

PAGE_HEADER = 16
PAGE_DATA = PAGE_SIZE - PAGE_HEADER
EXTEND_AFTER = 1 << 27
EXTEND_SIZE = 8

LEAST_PADDING = 8

_EVENT_HEADER = 4
_MAX_SMALL_DATA = 112
_PADDING = 29
_TIME_EXTEND = 30
_MISSED_STORED = 1 << 30
_MISSED_EVENTS = 1 << 31
_WORD = struct.Struct("<I")
_WORDS = struct.Struct("<II")
_HEADER = struct.Struct("<QQ")
_LONG = struct.Struct("<Q")


class RingEntry(NamedTuple):
    """One record: time stamp in the buffer's clock, CPU, data, losses just before it."""

    stamp: int
    cpu: int
    data: bytes
    lost: int = 0


class Page:
    """One page of a CPU's buffer: the records' bytes in a row, where each ends, and when it was written.

    There is no object for each record: a page takes the bytes of its records, and 10 more for each.
    """

    __slots__ = ("data", "ends", "padding", "read", "read_bytes", "stamps", "used")

    def __init__(self) -> None:
        self.data = bytearray()
        self.ends = array("H")
        self.stamps: MutableSequence[int] = array("q")
        self.read = 0  # entries of this page that a reader has consumed
        self.read_bytes = 0
        self.used = 0
        self.padding = 0  # bytes at the end that no event can use, and that no reader has passed

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def stamp(self) -> int:
        """The time from which the first event's delta counts: that event's time."""
        return self.stamps[0] if self.ends else 0

    def records(self, places: slice) -> list[bytes]:
        """Return a slice of the records, oldest first."""
        ends, start = self.ends[places], self._start(places.start)
        size = self.ends[0] if ends else 0
        if size and self.ends == _ends_of(size)[: len(self)]:  # all of one size: a sixth of the time
            return list(struct.unpack_from(f"{size}s" * len(ends), self.data, start))
        data = bytes(self.data)
        return [data[start : (start := end)] for end in ends]

    def entry(self, cpu: int, lost: int) -> RingEntry:
        """Return the next entry that no reader has consumed, with the number of losses before it."""
        index = self.read
        return RingEntry(self.stamps[index], cpu, bytes(self.data[self._start(index) : self.ends[index]]), lost)

    def length(self) -> int:
        """Return the bytes that the next entry takes in the buffer."""
        index = self.read
        extend = EXTEND_SIZE if self.stamps[index] - self.read_stamp() >= EXTEND_AFTER else 0
        return event_length(self.ends[index] - self._start(index)) + extend

    def read_stamp(self) -> int:
        """Return the time from which the next event's delta counts, if the page is read from there."""
        return self.stamps[self.read - 1] if self.read else self.stamp

    def _start(self, index: int) -> int:
        return self.ends[index - 1] if index else 0


@cache  # a few thousand sizes at most
def _ends_of(size: int) -> array[int]:
    """Return the ends of the records in a page that is full of records of one size."""
    return array("H", range(size, PAGE_DATA, size))


@cache  # a few thousand sizes at most
def event_length(size: int) -> int:
    """Return the bytes that an event with `size` bytes of data takes in the buffer."""
    length = max(size, 1)
    if length > _MAX_SMALL_DATA:
        length += 4
    length = (length + _EVENT_HEADER + 3) & ~3
    return 16 if length == 12 else length


def event_bytes(entry: RingEntry, before: int) -> bytes:
    """Return an event as it is in its page; `before` is the time stamp from which its delta counts."""
    delta = max(entry.stamp - before, 0)  # this hides a clock that ran backwards
    extend = b""
    if delta >= EXTEND_AFTER:
        extend = _WORDS.pack((delta & (EXTEND_AFTER - 1)) << 5 | _TIME_EXTEND, (delta >> 27) & 0xFFFFFFFF)
        delta = 0
    size = event_length(len(entry.data)) - _EVENT_HEADER
    if size > _MAX_SMALL_DATA:
        return extend + _WORDS.pack(delta << 5, size) + entry.data.ljust(size - 4, b"\0")
    return extend + _WORD.pack(delta << 5 | size >> 2) + entry.data.ljust(size, b"\0")


def padding(size: int) -> bytes:
    """Return the event that fills the end of a page; nothing if there isn't enough room for it."""
    if size < LEAST_PADDING:
        return b""
    return _WORDS.pack(1 << 5 | _PADDING, size - _EVENT_HEADER).ljust(size, b"\0")


def page_bytes(stamp: int, data: bytes, missed: int) -> bytes:
    """Return a page for user space; `missed` events were lost before it."""
    commit = len(data)
    if missed:
        if PAGE_DATA - commit >= _LONG.size:
            data += _LONG.pack(missed)
            commit += _MISSED_STORED
        # the kernel adds an int, whose sign fills the upper half
        commit = (commit + _MISSED_EVENTS - (1 << 32)) & (2**64 - 1)
    return _HEADER.pack(stamp, commit) + data.ljust(PAGE_DATA, b"\0")
