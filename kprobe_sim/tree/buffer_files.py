"""Files that show a buffer in other ways than `trace`: the snapshot, and raw pages."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.events.event_table import EventTable
from kprobe_sim.events.instance import Instance
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.language.primitives.words import number_from_user
from kprobe_sim.probes.probe_event import ProbeEvent
from kprobe_sim.records.entry_type import TRACE_FN, TRACE_PRINT, TRACE_STACK
from kprobe_sim.records.ring import RingBuffer
from kprobe_sim.tree.files.node import OpenFile, Seek
from kprobe_sim.tree.trace_file import Trace, poll_mask


class SnapshotFile(Trace):
    """`snapshot`: the spare buffer as text; while it is empty, how to use it.

    A write of 0 frees it, 1 takes a snapshot, any other number empties it (tracing_snapshot_write).
    """

    def __init__(self, flags: int, instance: Instance, cpu: int | None) -> None:
        super().__init__(flags, instance, cpu, partial(_put_snapshot, instance, cpu), write_moves=True)
        self._latency = False

    def _open_trace(self) -> None:
        self._instance.spare_readers.open_trace(self._cpu)

    def _close_trace(self) -> None:
        self._instance.spare_readers.close_trace(self._cpu)

    @property
    def _buffer(self) -> RingBuffer:
        return self._instance.spare

    def splice(self, size: int, position: int) -> bytes:
        raise refuse(errno.EINVAL)  # unlike `trace`

    def _head(self, buffer: RingBuffer) -> bytes:
        if buffer.is_empty(self._cpu):
            return _help(self._instance, self._cpu)
        return super()._head(buffer)


def _help(instance: Instance, cpu: int | None) -> bytes:
    path = "snapshot" if cpu is None else "per_cpu/cpu0/snapshot"
    tracefs = instance.machine.profile.tracefs
    if not tracefs.has_text(path):
        raise refuse(errno.ENOSYS)
    text = tracefs.text(path)
    return text.replace(b"Snapshot is freed", b"Snapshot is allocated") if instance.has_snapshot else text


def _put_snapshot(instance: Instance, cpu: int | None, data: bytes) -> None:
    instance.expand()
    value = number_from_user(data)
    if value == 0:
        if cpu is not None:
            raise refuse(errno.EINVAL)
        if instance.has_snapshot:
            instance.free_snapshot()
    elif value == 1:
        if cpu is not None and b"Not supported" in _help(instance, cpu):
            raise refuse(errno.EINVAL)  # CONFIG_RING_BUFFER_ALLOW_SWAP is off
        if not instance.has_snapshot and instance.spare_readers.hold(cpu):
            raise refuse(errno.EBUSY)
        if not instance.has_snapshot and not instance.machine.gates.snapshot_allocates:
            return
        instance.allocate_snapshot()
        instance.swap_snapshot(cpu)
    elif instance.has_snapshot:
        instance.spare.reset(cpu)


class RawPipe(OpenFile):
    """`trace_pipe_raw` and `snapshot_raw`: they consume whole pages in the kernel's layout, and never block here.

    There may be any number of openers; each reads its page to the end before it takes the next (tracing_buffers_read).
    """

    seek: ClassVar[Seek] = Seek.NONE

    def __init__(self, flags: int, instance: Instance, cpu: int, buffer: Callable[[], RingBuffer]) -> None:
        super().__init__(flags)
        self._instance = instance
        self._cpu = cpu
        self._buffer = buffer
        self._page = b""
        self._taken = PAGE_SIZE
        is_padded = instance.machine.gates.common_padding
        self._widen = partial(padded, instance.tracing.events) if is_padded else None
        instance.readers.consuming += 1

    def read(self, size: int, position: int) -> bytes:
        if not size:
            return b""
        if self._taken == PAGE_SIZE:
            buffer = self._buffer().cpus[self._cpu]
            page = buffer.take_page(size, self._widen)
            if page is None:
                if buffer.entries:
                    return b""  # `size` is too small for the data
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self._page, self._taken = page, 0
        data = self._page[self._taken : self._taken + size]
        self._taken += len(data)
        return data

    def splice(self, size: int, position: int) -> bytes:
        """Return a page that is no longer written to: splice(2) gives only those (tracing_buffers_splice_read)."""
        if self._taken != PAGE_SIZE:  # a read has left part of a page
            raise refuse(errno.EINVAL)
        page = self._buffer().cpus[self._cpu].take_full_page(self._widen)
        if page is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return page

    def poll(self) -> int:
        return poll_mask(self._instance, self._buffer(), self._cpu)

    def released(self) -> None:
        self._instance.readers.consuming -= 1

    def splice_ends(self) -> bool:
        return not self._instance.tracing_on

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._instance.machine.subscribe(callback)


# Records in raw pages of kernels before 3.3 have a fifth common field, which the simulator's records lack. Formats show
# it (`events/event_format`; fixtures/text/3.2/*.formats): an int at byte 8, so that a first unsigned long is at 16.
# Records of static events and of function_graph already follow their formats.
_COMMON = 8
_KIND = struct.Struct("<H")


def padded(events: EventTable, record: bytes) -> bytes:
    """Return a record with the padding that its kernel has."""
    (kind,) = _KIND.unpack_from(record)
    if kind in (TRACE_FN, TRACE_STACK, TRACE_PRINT):
        return record[:_COMMON] + bytes(8) + record[_COMMON:]
    event = events.by_id(kind)
    return event.padded(record) if isinstance(event, ProbeEvent) else record
