"""The one lock of a simulated kernel, and the readers that wait on it for news."""

from __future__ import annotations

import threading


class KernelCondition(threading.Condition):
    """A condition that knows how many wait for it, so that nobody has to be told where nobody listens.

    `lock` may be held in its place by those that don't wait.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.waiting = 0
        super().__init__(self.lock)

    @property
    def asleep(self) -> int:
        """How many wait and have been told nothing yet."""
        return len(self._waiters)  # type: ignore[attr-defined]  # of threading.Condition, those that notify() looks at

    def wait(self, timeout: float | None = None) -> bool:
        """Wait as `threading.Condition` does."""
        self.waiting += 1
        try:
            return super().wait(timeout)
        finally:
            self.waiting -= 1
