"""The kernel's bytes, out as they are; and words for the user, on stderr."""

from __future__ import annotations

import errno
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

CHUNK = select.PIPE_BUF  # a writable pipe takes this much without blocking
TICK = 0.1  # seconds between two looks at whether to stop
GRACE = 1.0  # seconds that a reader who takes nothing holds up the end


class Output:
    """Writes to a file without ever getting stuck in it: a reader that sleeps must not keep a probe in the kernel."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._poller = select.poll()
        try:
            self._descriptor = file.fileno()
            file.flush()
            self._poller.register(self._descriptor, select.POLLOUT)
        except (OSError, ValueError):  # a file of Python's own, as in tests
            self._descriptor = -1

    def write(self, data: bytes, is_stopping: Callable[[], bool]) -> bool:
        """Write all of it; False if `is_stopping` and nobody took it for a second.

        Raise `BrokenPipeError` if nobody ever will, and `OSError` (a full disk).
        """
        if self._descriptor < 0:
            self._file.write(data)
            self._file.flush()
            return True
        rest = memoryview(data)
        stuck = 0.0
        while rest:
            if self._poller.poll(TICK * 1000):
                rest = rest[self._write(rest[:CHUNK]) :]
                stuck = 0.0
            elif is_stopping():
                stuck += TICK
                if stuck > GRACE:
                    return False
        return True

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except OSError as error:
            if error.errno == errno.EIO:  # the terminal has gone
                raise BrokenPipeError(error.errno, error.strerror) from error
            raise

    def is_broken(self) -> bool:
        """True once nobody can read any more (the other end of the pipe is closed, the terminal is gone)."""
        if self._descriptor < 0:
            return False
        return any(mask & (select.POLLERR | select.POLLHUP) for _, mask in self._poller.poll(0))


def say(text: str) -> None:
    """Say something to the user, on stderr; if nobody listens, that is no reason to fail."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


class Progress:
    """Says every few seconds that something slow is still under way, from the third second on."""

    def __init__(self, what: str, first: float = 3.0, every: float = 5.0) -> None:
        from threading import Event, Thread  # slow to import; only slow work has need of it

        self._what = what
        self._first = first
        self._every = every
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        passed, wait = 0.0, self._first
        while not self._over.wait(wait):
            passed += wait
            wait = self._every
            say(f"{self._what} ... {passed:.0f} s")
