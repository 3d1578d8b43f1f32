"""splice(2) and sendfile(2) on the mount: how the kernel comes to ask this server, and which size it is told.

Since 6.5 the kernel serves them from its page cache, and requests no page beyond the file's size as it knows it
(before, they were like read(2)).  stat(2) should report 0, as in tracefs.  A notice that a byte was stored far beyond
makes the size large.  Sent just before a reply with attributes, it keeps the size large: the attributes are then older
than the notice, so the kernel shows them to the caller but doesn't keep them.

Since 5.16 such a notice makes the kernel ask for the size alone: the permission check of open(2) uses the attributes
that the kernel has, while lseek(2) to the end of an open file comes here and is refused.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from kprobe_sim.expose.fuse import wire
from kprobe_sim.expose.fuse.positions import FAR
from kprobe_sim.tree.files.node import OpenFile

_KEPT = 1 << 18  # bytes of one open file in the page cache


class Splices:
    """The files that are open for reading, and reads for the page cache; `send` sends a message to the kernel."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._size = FAR
        self._readers: dict[int, int] = {}  # number of them by node
        self._appending: dict[int, int] = {}
        self._stale: set[int] = set()  # nodes for which the kernel knows a different size

    def opened(self, node: int, *, appends: bool) -> None:
        """Note that a node is about to be opened for reading, or that it refuses SEEK_END.

        With O_APPEND the kernel begins at the size, so that stays as it is, and the kernel asks whenever it needs it.
        """
        if appends:
            self._appending[node] = self._appending.get(node, 0) + 1
            self._send(wire.invalid_notice(node, -1, 0))
        else:
            self._readers[node] = self._readers.get(node, 0) + 1
            self._announce_size(node)

    def closed(self, node: int, *, appends: bool) -> None:
        """Note that such a node was closed."""
        users = self._appending if appends else self._readers
        left = users.get(node, 0) - 1
        if left > 0:
            users[node] = left
            return
        users.pop(node, None)
        if not appends:
            self._stale.discard(node)

    def is_asked(self, node: int) -> bool:
        """Return whether the kernel must not cache the attributes of a node."""
        return node in self._appending

    def before_attributes(self, node: int) -> None:
        """Prepare for a reply that shows a node's attributes to a program."""
        if node in self._readers:
            self._announce_size(node)

    def mark_stale(self, node: int) -> None:
        """Note that the kernel will take the size from the next reply instead of the announced size."""
        if node in self._readers:
            self._stale.add(node)

    def refresh(self, node: int) -> None:
        """Announce the size of a file in use again, if it is stale."""
        if node in self._stale:
            self._stale.discard(node)
            self._announce_size(node)

    def read(self, node: int, opened: OpenFile, size: int, position: int) -> bytes:
        """Return a page for the page cache; EINVAL for files that have no splice."""
        data = opened.splice(size, position)
        if len(data) < size:  # the kernel takes this for the end
            self.mark_stale(node)
        elif not position % _KEPT and position:  # nobody reads it again
            self._send(wire.invalid_notice(node, 0, position))
        return data

    def again(self, node: int, opened: OpenFile, size: int, position: int) -> bytes:
        """Read for a splice that waits; what poll(2) waits for, or the end of recording, ends the wait."""
        if not opened.poll():
            if not opened.splice_ends():
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self.mark_stale(node)
            return b""
        return self.read(node, opened, size, position)

    def _announce_size(self, node: int) -> None:
        self._size += 1  # the kernel acts only on a size greater than the last
        self._send(wire.store_notice(node, self._size - 1, b"\0"))
