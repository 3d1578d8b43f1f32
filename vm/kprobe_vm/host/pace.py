"""Time as the guest gets it: deadlines count this time, so that a busy host isn't mistaken for a dead guest.

The kernel counts for each thread how long it could have run and had no processor (the second number of
/proc/PID/task/TID/schedstat, Documentation/scheduler/sched-stats.rst), and for each processor what a hypervisor took of
it ("steal", proc(5)).  A guest that hangs waits for no processor, or for no more than it uses: its deadlines pass.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

# Seconds, on a host for which the deadlines fit as they are: two cores, no KVM.
NOMINAL_BOOT = 6.0
NOMINAL_CLONE = 0.6
SLOWEST = 20.0  # the largest factor: beyond it a host is unusable
STRETCH = 100.0  # the clock slows down by this factor at most: a deadline passes, however busy the host
CARRIED = 5.0  # seconds by which a wait is counted late, as it is reported when it is over
_HERTZ = os.sysconf("SC_CLK_TCK")


def after_start(seconds: float, nominal: float) -> float:
    """Return the factor once a start was measured that takes `nominal` seconds on an ordinary host."""
    return min(max(1.0, seconds / nominal), SLOWEST)


class Pace:
    """A clock that slows down, up to `STRETCH` times, while the threads of a process wait for a processor.

    Without a process it is an ordinary clock.  Where the kernel doesn't count that, the load average serves.
    """

    def __init__(
        self, pid: int = 0, *, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tasks = proc / str(pid) / "task" if pid else None
        self._reading_threads = proc / "self" / "task"
        self._stat = proc / "stat"
        self._loadavg = proc / "loadavg"
        self._cores = len(os.sched_getaffinity(0))
        self._clock = clock
        self._lock = threading.Lock()
        self._reader = 0
        self._waited: dict[str, float] = {}  # by thread, seconds
        self._stolen = 0.0
        self._owed = 0.0
        self._given = 0.0
        self._wall = clock()
        if self._tasks is not None:
            self._starved(0.0)

    def count(self, thread: int) -> None:
        """Count the waits of a thread of this process, too: the one that reads from the guest."""
        self._reader = thread

    def now(self) -> float:
        """Return the seconds that the guest has got so far."""
        with self._lock:
            wall = self._clock()
            passed, self._wall = wall - self._wall, wall
            if self._tasks is not None:
                self._owed = min(self._owed + self._starved(passed), passed + CARRIED)
            taken = min(self._owed, passed * (1 - 1 / STRETCH))
            self._owed -= taken
            self._given += passed - taken
            return self._given

    def at_most(self) -> float:
        """Return what `now` would if no thread had waited since the last call: quick, and never less."""
        return self._given + self._clock() - self._wall

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for an event, at most `seconds` of this clock; return whether it came."""
        deadline = Deadline(self, seconds)
        while not event.is_set() and (left := deadline.left()) > 0:
            event.wait(left)
        return event.is_set()

    def _starved(self, passed: float) -> float:
        """Return how long the process had no processor since the last call."""
        assert self._tasks is not None
        known, self._waited = self._waited, {}
        try:
            threads = os.listdir(self._tasks)
        except OSError:  # it has ended
            return 0.0
        try:
            waits = [self._waits(self._tasks / thread, known) for thread in threads]
            own = self._waits(self._reading_threads / str(self._reader), known) if self._reader else 0.0
        except (IndexError, ValueError, FileNotFoundError):
            return 0.0 if not self._tasks.exists() else passed * (1 - 1 / self._crowd())
        # the guest's processor, then the reading thread; a hypervisor's share is reported nowhere else
        return max(waits, default=0.0) + own + self._steal()

    def _waits(self, task: Path, known: dict[str, float]) -> float:
        try:
            text = (task / "schedstat").read_text()
        except (ProcessLookupError, FileNotFoundError):
            if task.exists():
                raise  # a kernel that doesn't count
            return 0.0
        waited = int(text.split()[1]) / 1e9
        self._waited[task.name] = waited
        return max(0.0, waited - known.get(task.name, waited))

    def _steal(self) -> float:
        before = self._stolen
        try:
            self._stolen = int(self._stat.read_text().split(maxsplit=9)[8]) / _HERTZ / self._cores
        except (OSError, IndexError, ValueError):
            return 0.0
        return max(0.0, self._stolen - before) if before else 0.0

    def _crowd(self) -> float:
        try:
            return max(1.0, float(self._loadavg.read_text().split()[0]) / self._cores)
        except (OSError, IndexError, ValueError):
            return 1.0


class Deadline:
    """A moment some seconds from now, as a `Pace` counts them."""

    __slots__ = ("_end", "_pace")

    def __init__(self, pace: Pace, seconds: float) -> None:
        self._pace = pace
        self._end = pace.at_most() + seconds

    def left(self) -> float:
        """Return a lower bound of the seconds left; 0.0 after the deadline."""
        left = self._end - self._pace.at_most()
        return left if left > 0 else max(0.0, self._end - self._pace.now())
