"""A page of the ring buffer: its entries, and the bytes that per_cpu/cpuN/trace_pipe_raw gives of it.

A page begins with u64 time stamp and u64 commit (bytes of data, and flags on lost events), as events/header_page says;
an event with 5 bits type_len and 27 bits time_delta, as events/header_event says.  Sizes follow
kernel/trace/ring_buffer.c (6.1): 4-byte alignment, a length word for data over 112 bytes, a time extend of 8 bytes
after a pause of 2**27 ns; fixtures/control/raw.jsonl.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from kprobe_sim.builds.page import PAGE_SIZE

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
    """One record: time stamp in the buffer's clock, CPU, data, losses just before it, bytes in the buffer."""

    stamp: int
    cpu: int
    data: bytes
    lost: int = 0
    length: int = 0


class Page:
    """One page of a CPU's buffer."""

    __slots__ = ("entries", "padding", "read", "read_bytes", "stamp", "used")

    def __init__(self) -> None:
        self.entries: list[RingEntry] = []
        self.read = 0  # entries of this page that a reader has consumed
        self.read_bytes = 0
        self.used = 0
        self.padding = 0  # bytes at the end that no event can have any more, and that no reader has passed
        self.stamp = 0

    def read_stamp(self) -> int:
        """Return the time that the next event's delta counts from, when the page is read from there."""
        return self.entries[self.read - 1].stamp if self.read else self.stamp


def event_length(size: int) -> int:
    """Return the bytes that an event with `size` bytes of data takes in the buffer."""
    length = max(size, 1)
    if length > _MAX_SMALL_DATA:
        length += 4
    length = (length + _EVENT_HEADER + 3) & ~3
    return 16 if length == 12 else length


def event_bytes(entry: RingEntry, before: int) -> bytes:
    """Return an event as it lies in its page; `before` is the time stamp that its delta counts from."""
    delta = max(entry.stamp - before, 0)  # a clock that ran backwards can't be seen here
    extend = b""
    length = entry.length
    whole = event_length(len(entry.data))
    if length > whole:
        extend = _WORDS.pack((delta & (EXTEND_AFTER - 1)) << 5 | _TIME_EXTEND, (delta >> 27) & 0xFFFFFFFF)
        delta = 0
    size = whole - _EVENT_HEADER
    delta = min(delta, EXTEND_AFTER - 1)
    if size > _MAX_SMALL_DATA:
        return extend + _WORDS.pack(delta << 5, size) + entry.data.ljust(size - 4, b"\0")
    return extend + _WORD.pack(delta << 5 | size >> 2) + entry.data.ljust(size, b"\0")


def events_bytes(entries: Sequence[RingEntry], before: int) -> bytes:
    """Return events in a row."""
    parts = []
    for entry in entries:
        parts.append(event_bytes(entry, before))
        before = entry.stamp
    return b"".join(parts)


def padding(size: int) -> bytes:
    """Return the event that fills a page's rest where it is big enough to say so, else nothing."""
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
        # an int of the kernel is added: its sign fills the upper half
        commit = (commit + _MISSED_EVENTS - (1 << 32)) & (2**64 - 1)
    return _HEADER.pack(stamp, commit) + data.ljust(PAGE_DATA, b"\0")
