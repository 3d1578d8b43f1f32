"""Open files of patched Python: descriptions behind real file descriptors.

The descriptor is an eventfd: it is no other file's number, select, poll and epoll work on it (it is readable exactly
when the simulated file is), and O_NONBLOCK set on it in any way is seen.  Code that gets past the patches fails on it
instead of reading something else.
"""

from __future__ import annotations

import errno
import os
import select
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.expose.real import REAL
from kprobe_sim.node import DirNode, Node, OpenFile, Seek, refuse

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel


class Description:
    """One open file description: what dup'ed descriptors share."""

    def __init__(self, kernel: SimulatedKernel, path: str, node: Node, flags: int) -> None:
        self.path = path
        self.node = node
        self.flags = flags
        self.position = 0
        self.references = 0
        self._kernel = kernel
        self._signalled = False
        self._unsubscribe: Callable[[], None] = lambda: None
        self.opened: OpenFile | None = None
        if not isinstance(node, DirNode):
            self.opened = node.open(flags)
        self.descriptor = REAL.eventfd(0, os.EFD_CLOEXEC | (os.EFD_NONBLOCK if flags & os.O_NONBLOCK else 0))
        if self.opened is not None and self.opened.seek is Seek.NONE and self.opened.readable:
            self._unsubscribe = kernel.subscribe(self.show_state)
        self.show_state()

    def show_state(self) -> None:
        """Make the descriptor readable as the file is; called with the kernel's lock held."""
        readable = self.opened is None or bool(self.opened.poll() & select.POLLIN)
        if readable != self._signalled and self.references >= 0:
            if readable:
                REAL.write(self.descriptor, b"\1\0\0\0\0\0\0\0")
            else:
                REAL.read(self.descriptor, 8)
            self._signalled = readable

    def file(self, *, reading: bool = False, writing: bool = False) -> OpenFile:
        """Return the open file; EISDIR for a directory, EBADF if it was opened for the other direction."""
        if self.opened is None:
            raise refuse(errno.EISDIR if reading else errno.EBADF)
        if (reading and not self.opened.readable) or (writing and not self.opened.writable):
            raise refuse(errno.EBADF)
        return self.opened

    def read(self, descriptor: int, size: int, position: int | None = None) -> bytes:
        """Read at a position or where the last read ended; wait for data unless O_NONBLOCK is set now."""
        condition = self._kernel.condition
        waited = False
        with condition:
            while True:
                opened = self.file(reading=True)
                if position is not None and opened.seek is Seek.NONE:
                    raise refuse(errno.ESPIPE)
                blocks = REAL.get_blocking(descriptor)
                opened.flags = opened.flags & ~os.O_NONBLOCK | (0 if blocks else os.O_NONBLOCK)
                read = opened.again if waited else opened.read
                try:
                    data = read(size, self.position if position is None else position)
                except BlockingIOError:
                    if not blocks:
                        raise
                    condition.wait()  # a signal's handler may raise out of here
                    waited = True
                    continue
                if position is None:
                    self.position += len(data)
                if opened.seek is Seek.NONE:
                    self.show_state()
                return data

    def write(self, data: bytes, position: int | None = None) -> int:
        """Write, as one write(2)."""
        with self._kernel.condition:
            opened = self.file(writing=True)
            if position is not None and opened.seek is Seek.NONE:
                raise refuse(errno.ESPIPE)
            written = opened.write(data, self.position if position is None else position)
            if position is None:
                self.position = opened.after_write(self.position, written)
            return written

    def lseek(self, offset: int, whence: int) -> int:
        """Move the position as lseek(2) of this kind of file does."""
        with self._kernel.condition:
            if self.opened is None:
                raise refuse(errno.EINVAL)
            self.position = self.opened.lseek(self.position, offset, whence)
            return self.position

    def close(self) -> None:
        """One descriptor less; the last one releases the file."""
        with self._kernel.condition:
            self.references -= 1
            if self.references:
                return
            self.references = -1
            self._unsubscribe()
            opened, self.opened = self.opened, None
            if opened is not None:
                opened.release()
            self._kernel.condition.notify_all()


class Descriptors:
    """The descriptors of this process that stand for simulated files."""

    def __init__(self, kernel: SimulatedKernel) -> None:
        self._kernel = kernel
        self._lock = threading.Lock()
        self.table: dict[int, Description] = {}

    def open(self, path: str, node: Node, flags: int) -> int:
        """Open a node; return the descriptor."""
        with self._kernel.condition:
            description = Description(self._kernel, path, node, flags)
        description.references = 1
        self.table[description.descriptor] = description
        return description.descriptor

    def duplicate(self, descriptor: int, duplicate: int) -> int:
        """Let another real duplicate of a descriptor stand for the same file."""
        description = self.table[descriptor]
        with self._lock:
            description.references += 1
        self.table[duplicate] = description
        return duplicate

    def forget(self, descriptor: int) -> None:
        """The descriptor was closed, or stands for another file now."""
        description = self.table.pop(descriptor, None)
        if description is not None:
            description.close()
            if description.references > 0 and description.descriptor == descriptor:
                description.descriptor = next(number for number, other in self.table.items() if other is description)

    def close_all(self) -> None:
        """Close what is still open."""
        for descriptor in list(self.table):
            self.forget(descriptor)
            REAL.close(descriptor)
