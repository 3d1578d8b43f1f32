"""poll(2) and epoll on the mount: when the server notifies the kernel, and of which files.

The kernel asks for a file's mask once for each waiter, and again at each notice that it may have changed.  The server
sends a notice for all data, as tracefs wakes its waiters: an edge-triggered epoll gets the next event whether or not
the data of the last one was read.
"""

from __future__ import annotations

from kprobe_sim.expose.fuse import wire
from kprobe_sim.tree.files.node import OpenFile


class Polls:
    """The open files that the kernel polls, by the kernel's handle of each."""

    def __init__(self) -> None:
        self._polled: dict[int, OpenFile] = {}

    def __bool__(self) -> bool:
        return bool(self._polled)

    def answer(self, opened: OpenFile, poll_handle: int, flags: int) -> bytes:
        """Return the reply to POLL; a waiter gets a notice when data comes."""
        can_wait = type(opened).poll is not OpenFile.poll
        if flags & wire.POLL_SCHEDULE_NOTIFY and can_wait:
            self._polled[poll_handle] = opened
        return wire.TWO_WORDS.pack(opened.poll(), 0)

    def closed(self, opened: OpenFile) -> None:
        """Forget a closed file."""
        for poll_handle in [key for key, file in self._polled.items() if file is opened]:
            del self._polled[poll_handle]

    def notices(self) -> list[bytes]:
        """Return the notices for the files that are ready now."""
        ready = [poll_handle for poll_handle, opened in self._polled.items() if opened.poll()]
        for poll_handle in ready:
            del self._polled[poll_handle]  # the kernel asks again if somebody waits
        return [wire.poll_notice(poll_handle) for poll_handle in ready]
