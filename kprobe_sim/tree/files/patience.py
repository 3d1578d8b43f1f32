"""A limit on how long reads of simulated files wait in total; the pytest plugin sets one for each test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from kprobe_sim.tree.files.tracefs import Tracefs

# fail(seconds, tracefs, path): the error to raise once the waits, the last for that file, took that long
Fail = Callable[[float, Any, str], BaseException]


class Patience:
    """A number of seconds in total for each thread; `late` is the error that was raised when they were over, or None.

    It also ends the waits of a test's other threads, whose files nobody may ever close.
    """

    __slots__ = ("_fail", "_seconds", "_spent", "late")

    def __init__(self, seconds: float, fail: Fail) -> None:
        self._seconds = seconds
        self._fail = fail
        self._spent: dict[int, float] = {}
        self.late: BaseException | None = None

    def left(self) -> float:
        """Return how many seconds more this thread may wait; 0 if none."""
        return max(0.0, self._seconds - self._spent.get(threading.get_ident(), 0.0))

    def wait(self, condition: threading.Condition, tracefs: Tracefs, path: str) -> None:
        """Wait for a change of the machine, whose lock is held; raise the failure when no time is left."""
        left = self.left()
        if not left:
            raise self.over(tracefs, path)
        began = time.monotonic()
        is_notified = condition.wait(left)
        self.spend(time.monotonic() - began if is_notified else left)

    def spend(self, seconds: float) -> None:
        """Count a wait of this thread."""
        thread = threading.get_ident()
        self._spent[thread] = self._spent.get(thread, 0.0) + seconds

    def over(self, tracefs: Tracefs, path: str) -> BaseException:
        """Return the error to raise when no time is left."""
        error = self._fail(self._seconds, tracefs, path)
        self.late = self.late or error
        return error


_NOW: ContextVar[Patience | None] = ContextVar("kprobe_sim_patience", default=None)


def patience() -> Patience | None:
    """Return the limit of this thread's waits; None if there is none."""
    return _NOW.get()


@contextmanager
def limited(given: Patience | None) -> Iterator[None]:
    """Limit, within this, the waits of this thread and for the files that it shows to other threads."""
    token = _NOW.set(given)
    try:
        yield
    finally:
        _NOW.reset(token)
