"""How long reads of simulated files may wait in all, where there is a limit: the pytest plugin sets one for a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# fail(seconds, tracefs, path): what is to be raised when a wait for that file has taken so long
Fail = Callable[[float, Any, str], BaseException]


class Patience:
    """So many seconds in all, for each thread; `late` is what was raised when they were over, None if they never were.

    Nobody has to close what another thread of a test waits for, so that has its end here, too.
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

    def wait(self, condition: threading.Condition, tracefs: Any, path: str) -> None:
        """Wait for news of the machine, whose lock is held; raise the owner's failure when no time is left."""
        left = self.left()
        if not left:
            raise self.over(tracefs, path)
        began = time.monotonic()
        told = condition.wait(left)
        self.spend(time.monotonic() - began if told else left)

    def spend(self, seconds: float) -> None:
        """Count what this thread has waited."""
        thread = threading.get_ident()
        self._spent[thread] = self._spent.get(thread, 0.0) + seconds

    def over(self, tracefs: Any, path: str) -> BaseException:
        """Return what is to be raised when there is no time left."""
        error = self._fail(self._seconds, tracefs, path)
        self.late = self.late or error
        return error


_NOW: ContextVar[Patience | None] = ContextVar("kprobe_sim_patience", default=None)


def patience() -> Patience | None:
    """Return what limits this thread's waits now; None if nothing does."""
    return _NOW.get()


@contextmanager
def limited(given: Patience | None) -> Iterator[None]:
    """Within it the waits of this thread, and of files that it shows to other threads, are limited."""
    token = _NOW.set(given)
    try:
        yield
    finally:
        _NOW.reset(token)
