"""How long a trace was waited for, where there is a limit: the pytest plugin sets one while a test runs."""

from __future__ import annotations

from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .errors import WaitedTooLong


class Waiting:
    """The time that one trace was waited for, in all.

    `limit` is the most that it may be, in seconds, and `thread` who may not wait longer: a trace that another thread
    reads in the background hangs nobody.  By default there is no limit.
    """

    limit: float | None = None
    thread = 0

    __slots__ = ("_clock", "_facts", "_spent")

    def __init__(self, clock: Callable[[], float], facts: Callable[[], list[tuple[str, str]]]) -> None:
        self._clock = clock
        self._facts = facts
        self._spent = 0.0

    def since(self, began: float) -> float:
        """Count the time since `began`, and return what is the time now.  Raise `WaitedTooLong`."""
        now = self._clock()
        self._spent += now - began
        left = self.left()
        if left is not None and left <= 0:
            raise self.over()
        return now

    def left(self) -> float | None:
        """Return how many seconds more this thread may wait; None: as long as it likes."""
        limit = Waiting.limit
        return limit - self._spent if limit is not None and get_ident() == Waiting.thread else None

    def over(self) -> WaitedTooLong:
        """Return what is to be raised when there is no time left."""
        from .errors import WaitedTooLong

        return WaitedTooLong(max(self._spent, Waiting.limit or 0.0), self._facts())


class Limited:
    """Within `with` this thread waits for each trace so many seconds at most; None: as long as it likes."""

    __slots__ = ("_new", "_old")

    def __init__(self, seconds: float | None) -> None:
        self._new = (seconds, get_ident())

    def __enter__(self) -> None:
        self._old = (Waiting.limit, Waiting.thread)
        Waiting.limit, Waiting.thread = self._new

    def __exit__(self, *_: object) -> None:
        Waiting.limit, Waiting.thread = self._old
