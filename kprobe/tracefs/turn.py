"""Turns: sessions on the same tracefs of this machine add their probes one after another.

No other session of ours comes between the check that an event doesn't exist and the write that adds it.  The lock is
flock(2) on the root of the tracefs: it needs no extra file, and ends with its process.  Where there is no such lock
(a tracefs in the same process or in a guest) the list of probes is still read back after the write.
"""

from __future__ import annotations

import os
import time

from .capabilities import Capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .tracefs import Tracefs

PATIENCE = 2.0  # seconds; a suspended holder must not block everybody else
LOOK = 0.002  # seconds between two tries: a turn takes about one millisecond


class Turn:
    """Holds the lock within `with`, if the tracefs has one and it comes free in time."""

    __slots__ = ("_descriptor", "_root")

    def __init__(self, tracefs: Tracefs) -> None:
        self._root = Capabilities(tracefs).root or ""
        self._descriptor = -1

    def __enter__(self) -> Turn:
        if self._root:
            try:
                self._descriptor = os.open(self._root, os.O_RDONLY | os.O_CLOEXEC)
                _lock(self._descriptor)
            except OSError:  # the operations themselves will report the error
                pass
            except BaseException:
                self._close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    import fcntl

    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return
            time.sleep(LOOK)
        else:
            return
