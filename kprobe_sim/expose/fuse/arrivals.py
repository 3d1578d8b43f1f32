"""The server's wait for a request: it polls for 50 µs where that pays, and sleeps otherwise.

The kernel has to wake a sleeping server for each request, and its caller for each answer.  Waking an idle CPU takes
longer than everything else (about 20 µs on a virtual machine, on both CPUs), and a caller that works through files
sends its next request sooner.  Moving the server to its caller's CPU doesn't help: the kernel then wakes the caller on
another idle CPU (select_idle_sibling() in kernel/sched/fair.c of 6.12).

Polling is wasted where both share a CPU, on a busy machine, and after the last request.  So it has a budget: a poll
that succeeds earns what a sleep would have cost, and one that fails spends its time.  When the budget is spent, the
server sleeps, each time for more requests, before it polls again.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable

# nanoseconds of CPU time
_LONGEST = 50_000  # of one poll
_EARNED = 25_000  # by a poll that succeeds: about what falling asleep and waking cost server and caller
_MOST = 8 * _EARNED  # of the budget
_FEWEST_ASLEEP, _MOST_ASLEEP = 16, 4096  # waits without a poll, when the budget is spent


Ready = list[tuple[int, int]]  # descriptors, each with its poll mask


class Arrivals:
    """What arrives at some descriptors; `poll` is the method of a `select.poll` that has them."""

    def __init__(self, poll: Callable[..., Ready], clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._poll = poll
        self._clock = clock
        self._left = _MOST
        self._asleep = 0  # waits still to come without a poll
        self._next_asleep = _FEWEST_ASLEEP

    @classmethod
    def of(cls, *descriptors: int) -> Arrivals:
        """Return the arrivals at descriptors that become readable."""
        poller = select.poll()
        for descriptor in descriptors:
            poller.register(descriptor, select.POLLIN)
        return cls(poller.poll)

    def wait(self) -> Ready:
        """Wait until a descriptor is ready; return all that are."""
        poll, clock = self._poll, self._clock
        if self._asleep:
            self._asleep -= 1
            return poll()
        ready = poll(0)
        if ready:
            return ready
        start = now = clock()
        end = start + _LONGEST
        while now < end:
            ready = poll(0)
            if ready:
                self._earn()
                return ready
            now = clock()
        self._spend(now - start)
        return poll()

    def _earn(self) -> None:
        self._left += _EARNED
        if self._left >= _MOST:
            self._left, self._next_asleep = _MOST, _FEWEST_ASLEEP

    def _spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            self._left = 0
            self._asleep, self._next_asleep = self._next_asleep, min(2 * self._next_asleep, _MOST_ASLEEP)
