"""The time spent waiting for a trace, where there is a limit: the pytest plugin sets one while a test runs."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from contextvars import ContextVar

from kprobe.errors import WaitedTooLong

# The seconds, None for no limit, and the thread that may not wait longer: a trace that another thread reads in the
# background blocks nobody.  Each thread and each asyncio task has a context; a task's begins as a copy.
_LIMIT: ContextVar[tuple[float | None, int]] = ContextVar("kprobe_waiting", default=(None, 0))


def limit() -> float | None:
    """Return how many seconds in all this thread may wait for a trace; None if there is no limit."""
    seconds, thread = _LIMIT.get()
    return seconds if thread == get_ident() else None


class Waiting:
    """The total time spent waiting for one trace."""

    __slots__ = ("_clock", "_facts", "_spent")

    def __init__(self, clock: Callable[[], float], facts: Callable[[], list[tuple[str, str]]]) -> None:
        self._clock = clock
        self._facts = facts
        self._spent = 0.0

    def since(self, began: float) -> float:
        """Count the time since `began`, and return the current time.  Raise `WaitedTooLong`."""
        now = self._clock()
        self._spent += now - began
        left = self.left()
        if left is not None and left <= 0:
            raise self.over()
        return now

    def left(self) -> float | None:
        """Return how many more seconds this thread may wait; None if there is no limit."""
        seconds = limit()
        return None if seconds is None else seconds - self._spent

    def over(self) -> WaitedTooLong:
        """Return the error for when no time is left."""
        from kprobe.errors import WaitedTooLong

        return WaitedTooLong(max(self._spent, limit() or 0.0), self._facts())


class Limited:
    """Within `with`, limits this thread's wait for each trace to some seconds; None means no limit."""

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._token = _LIMIT.set((self._seconds, get_ident()))

    def __exit__(self, *_: object) -> None:
        _LIMIT.reset(self._token)
