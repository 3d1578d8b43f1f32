"""splice(2) and sendfile(2) on the mount: making the kernel ask this server, and the size to report to it.

Since 6.5 the kernel serves them by way of its page cache, and asks for no page beyond the size of the file as it knows
it (before, they were like read(2)).  stat(2) should say 0, as in tracefs.  A notice that a byte was stored far on
makes the size great; sent just before attributes are answered it keeps the size so, as those are then older than the
notice: they are shown to the caller and not kept.

Since 5.16 such a notice makes the kernel ask for the size, and that alone: its check of permissions at open(2) takes
the attributes that it has, while lseek(2) to the end of an open file comes here, to be refused.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from kprobe_sim.expose.fuse import wire
from kprobe_sim.expose.fuse.positions import FAR
from kprobe_sim.tree.files.node import OpenFile

_KEPT = 1 << 18  # bytes that the page cache holds of one open file


class Splices:
    """The files that are open for reading, and reads for the page cache; `send` sends a message to the kernel."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._size = FAR
        self._readers: dict[int, int] = {}  # by node: how many
        self._appending: dict[int, int] = {}
        self._stale: set[int] = set()  # nodes whose size the kernel has as another

    def opened(self, node: int, *, appends: bool) -> None:
        """A node is about to be opened for reading, or as one that refuses SEEK_END.

        With O_APPEND the kernel begins at the size: it is left as it is, and asked for whenever it is of use.
        """
        if appends:
            self._appending[node] = self._appending.get(node, 0) + 1
            self._send(wire.invalid_notice(node, -1, 0))
        else:
            self._readers[node] = self._readers.get(node, 0) + 1
            self._announce_size(node)

    def closed(self, node: int, *, appends: bool) -> None:
        """One of them was closed."""
        users = self._appending if appends else self._readers
        left = users.get(node, 0) - 1
        if left > 0:
            users[node] = left
            return
        users.pop(node, None)
        if not appends:
            self._stale.discard(node)

    def is_asked(self, node: int) -> bool:
        """True for a node whose attributes the kernel must not remember."""
        return node in self._appending

    def before_attributes(self, node: int) -> None:
        """The attributes of a node are about to be answered, for somebody to see."""
        if node in self._readers:
            self._announce_size(node)

    def mark_stale(self, node: int) -> None:
        """The kernel will take the size from the next answer, and have another."""
        if node in self._readers:
            self._stale.add(node)

    def refresh(self, node: int) -> None:
        """The file is in use: a stale size is announced again."""
        if node in self._stale:
            self._stale.discard(node)
            self._announce_size(node)

    def read(self, node: int, opened: OpenFile, size: int, position: int) -> bytes:
        """Return a page for the page cache; EINVAL for files that have no splice."""
        data = opened.splice(size, position)
        if len(data) < size:  # the kernel takes it for the end
            self.mark_stale(node)
        elif not position % _KEPT and position:  # nobody reads it again
            self._send(wire.invalid_notice(node, 0, position))
        return data

    def again(self, node: int, opened: OpenFile, size: int, position: int) -> bytes:
        """Do it for one that waits: what ends its waiting is what poll(2) waits for, or the end of recording."""
        if not opened.poll():
            if not opened.splice_ends():
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self.mark_stale(node)
            return b""
        return self.read(node, opened, size, position)

    def _announce_size(self, node: int) -> None:
        self._size += 1  # only one that is greater than the last counts as news
        self._send(wire.store_notice(node, self._size - 1, b"\0"))
