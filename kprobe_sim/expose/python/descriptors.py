"""Open files of patched Python: descriptions behind real file descriptors.

The descriptor is an eventfd.  So no other file gets its number, select, poll and epoll work on it (it is readable just
when the simulated file is), and O_NONBLOCK takes effect however it is set.  Code that bypasses the patches fails on it
and can't read another file instead.
"""

from __future__ import annotations

import errno
import os
import select
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.expose.python.real import REAL
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.tree.files.node import DirNode, Node, OpenFile, Seek
from kprobe_sim.tree.files.operation import notify
from kprobe_sim.tree.files.patience import Patience, patience

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

_ONE = b"\1\0\0\0\0\0\0\0"
_CLOEXEC, _NONBLOCK = os.EFD_CLOEXEC, os.EFD_NONBLOCK


class Description:
    """One open file description, shared by duplicated descriptors; `patience` limits how long its reads wait."""

    def __init__(
        self, kernel: SimulatedKernel, path: str, node: Node, flags: int, patience: Patience | None = None
    ) -> None:
        self.path = path
        self._patience = patience
        self.node = node
        self.flags = flags
        self.position = 0
        self.references = 0
        self._kernel = kernel
        self._acquire, self._release = kernel.condition.acquire, kernel.condition.release
        self._unsubscribe: Callable[[], None] | None = None
        self.opened: OpenFile | None = None if isinstance(node, DirNode) else node.open(flags)
        self._waits = self.opened is not None and self.opened.seek is Seek.NONE  # whether its reads may wait
        self._signalled = self.opened is None or bool(self.opened.poll() & select.POLLIN)
        try:
            self.descriptor = REAL.eventfd(self._signalled, _CLOEXEC | (_NONBLOCK if flags & os.O_NONBLOCK else 0))
        except OSError:
            if self.opened is not None:
                self.opened.release()
            raise
        if self._waits and self.opened is not None and self.opened.readable:
            self._unsubscribe = kernel.machine.subscribe(self.show_news)

    def show_state(self) -> None:
        """Make the descriptor as readable as the file; call with the kernel's lock held."""
        readable = self.opened is None or bool(self.opened.poll() & select.POLLIN)
        if readable != self._signalled and self.references >= 0:
            if readable:
                REAL.write(self.descriptor, _ONE)
            else:
                REAL.read(self.descriptor, 8)
            self._signalled = readable

    def show_news(self) -> None:
        """Show that data has come: an edge-triggered epoll wakes again even if earlier data wasn't read."""
        was_readable = self._signalled
        self.show_state()
        if was_readable and self._signalled and self.references >= 0:
            REAL.write(self.descriptor, _ONE)

    def file(self, *, reading: bool = False, writing: bool = False) -> OpenFile:
        """Return the open file.  Raises EISDIR for a directory, EBADF if it was opened for the other direction."""
        opened = self.opened
        if opened is None:  # a directory, or closed while another thread waited
            raise refuse(errno.EISDIR if reading and self.node.is_dir else errno.EBADF)
        if (reading and not opened.readable) or (writing and not opened.writable):
            raise refuse(errno.EBADF)
        return opened

    def read(self, descriptor: int, size: int, position: int | None = None) -> bytes:
        """Read at a position, or from where the last read ended; wait for data unless O_NONBLOCK is set."""
        if self._waits:
            return self._wait_and_read(descriptor, size, position)
        opened = self.file(reading=True)
        self._acquire()
        try:
            if position is not None:
                return opened.read(size, position)
            data = opened.read(size, self.position)
            self.position += len(data)
            return data
        finally:
            self._release()

    def _wait_and_read(self, descriptor: int, size: int, position: int | None) -> bytes:
        condition = self._kernel.condition
        waited = False
        with condition:
            while True:
                opened = self.file(reading=True)
                if position is not None:
                    raise refuse(errno.ESPIPE)
                blocks = REAL.get_blocking(descriptor)
                opened.flags = opened.flags & ~os.O_NONBLOCK | (0 if blocks else os.O_NONBLOCK)
                read = opened.again if waited else opened.read
                try:
                    data = read(size, self.position)
                except BlockingIOError:
                    if not blocks:
                        raise
                    if self._patience is None:
                        condition.wait()  # a signal handler may raise here
                    else:
                        self._patience.wait(condition, self._kernel.tracefs, self.path)
                    waited = True
                    continue
                self.position += len(data)
                self.show_state()
                return data

    def write(self, data: bytes, position: int | None = None) -> int:
        """Write like one write(2)."""
        opened = self.file(writing=True)
        if position is not None and self._waits:
            raise refuse(errno.ESPIPE)
        self._acquire()
        try:
            written = opened.write(data, self.position if position is None else position)
            if position is None:
                self.position = opened.after_write(self.position, written)
            notify(self._kernel.listener, "write", self.path, data)
            return written
        except OSError as error:
            notify(self._kernel.listener, "write", self.path, data, error)
            raise
        finally:
            self._release()

    def lseek(self, offset: int, whence: int) -> int:
        """Move the position like lseek(2) on this kind of file."""
        if self.opened is None:
            raise refuse(errno.EINVAL)
        if not (offset or whence != os.SEEK_CUR or self.position or self._waits):
            return 0  # the layers of io ask often
        self._acquire()
        try:
            self.position = self.opened.lseek(self.position, offset, whence)
            return self.position
        finally:
            self._release()

    def close(self) -> None:
        """Drop one descriptor; the last one releases the file."""
        self._acquire()
        try:
            self.references -= 1
            if self.references:
                return
            self.references = -1
            if self._unsubscribe is not None:
                self._unsubscribe()
            opened, self.opened = self.opened, None
            if opened is not None:
                opened.release()
            if self._waits:
                self._kernel.condition.notify_all()
        finally:
            self._release()


class Descriptors:
    """The descriptors of this process that stand for simulated files.

    Any thread that reads them may wait as long as the thread that made this object.
    """

    def __init__(self, kernel: SimulatedKernel) -> None:
        self._kernel = kernel
        self.patience = patience()
        self.is_over = False  # the numbers may now belong to other files
        self._lock = threading.Lock()
        self.table: dict[int, Description] = {}

    def open(self, path: str, node: Node, flags: int) -> int:
        """Open a node; return the descriptor."""
        with self._kernel.condition:
            try:
                description = Description(self._kernel, path, node, flags, self.patience)
            except OSError as error:
                if flags & os.O_TRUNC:
                    notify(self._kernel.listener, "open", path, b"", error)
                raise
        if flags & os.O_TRUNC:
            notify(self._kernel.listener, "open", path)
        description.references = 1
        self.table[description.descriptor] = description
        return description.descriptor

    def duplicate(self, descriptor: int, duplicate: int) -> int:
        """Make the real duplicate of a descriptor stand for the same file."""
        description = self.table[descriptor]
        with self._lock:
            description.references += 1
        self.table[duplicate] = description
        return duplicate

    def forget(self, descriptor: int) -> None:
        """Forget a descriptor that was closed, or that now stands for another file."""
        description = self.table.pop(descriptor, None)
        if description is not None:
            description.close()
            if description.references > 0 and description.descriptor == descriptor:
                description.descriptor = next(number for number, other in self.table.items() if other is description)

    def close_all(self) -> None:
        """Close all that are still open."""
        for descriptor in list(self.table):
            self.forget(descriptor)
            REAL.close(descriptor)
        self.is_over = True
