"""The one lock of a simulated kernel, and the readers that wait on it for news."""

from __future__ import annotations

import threading


class KernelCondition(threading.Condition):
    """A condition that knows how many threads wait for it, so that nobody is notified where nobody waits.

    Threads that don't wait may hold `lock` instead.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.waiting = 0
        super().__init__(self.lock)

    @property
    def asleep(self) -> int:
        """How many threads wait and haven't been notified yet."""
        return len(self._waiters)  # type: ignore[attr-defined]  # of threading.Condition: the waiters that notify() would wake

    def wait(self, timeout: float | None = None) -> bool:
        """Wait as `threading.Condition` does."""
        self.waiting += 1
        try:
            return super().wait(timeout)
        finally:
            self.waiting -= 1
