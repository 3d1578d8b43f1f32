"""The server's wait for a request: it polls for 50 µs where that pays, and sleeps otherwise.

A sleeping server is woken for each request, and its caller for each answer.  Waking an idle CPU takes longer than all
else (on a virtual machine some 20 µs, on both CPUs), and a caller that works through files sends its next request
sooner than that.  That the server moves to its caller's CPU doesn't help: the kernel wakes the caller on
another one that is idle then (select_idle_sibling() in kernel/sched/fair.c of 6.12).

Polling is in vain where both share a CPU, on a busy machine, and after the last request.  So a poll that finds one
earns what a sleep would have cost, and one in vain spends what it took.  With nothing left the server sleeps, and polls
again after more and more requests.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable

# nanoseconds of CPU time
_LONGEST = 50_000  # of one look
_EARNED = 25_000  # by one that finds something: about what a sleep and its end take, of server and caller
_MOST = 8 * _EARNED  # that can be spent in vain at once
_FEWEST_ASLEEP, _MOST_ASLEEP = 16, 4096  # waits without a look, when nothing is left


Ready = list[tuple[int, int]]  # descriptors, each with its poll mask


class Arrivals:
    """What arrives at the descriptors of a poll: `poll` is that of a `select.poll`."""

    def __init__(self, poll: Callable[..., Ready], clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._poll = poll
        self._clock = clock
        self._left = _MOST
        self._asleep = 0  # waits yet without a look
        self._next_asleep = _FEWEST_ASLEEP

    @classmethod
    def at(cls, *descriptors: int) -> Arrivals:
        """Return the arrivals at descriptors that become readable."""
        poller = select.poll()
        for descriptor in descriptors:
            poller.register(descriptor, select.POLLIN)
        return cls(poller.poll)

    def wait(self) -> Ready:
        """Return the descriptors that are ready, once there is one."""
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
