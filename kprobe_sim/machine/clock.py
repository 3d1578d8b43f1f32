"""The simulated machine's time, and the trace clocks read from it."""

from __future__ import annotations

from collections.abc import Callable

_INITIAL_JIFFIES = 0  # trace_clock_jiffies subtracts INITIAL_JIFFIES
_TSC_PER_NS = 3  # the recorded guests' x86-tsc ran at about 2.99 GHz


def ns2usecs(ns: int) -> int:
    """Round nanoseconds to microseconds as the kernel does (trace.c ns2usecs)."""
    return (ns + 500) // 1000


class VirtualClock:
    """A clock that moves only when it is read or told to: the same calls give the same time stamps."""

    def __init__(self, start: int = 10_000_000_000, step: int = 1_000) -> None:
        self.now = start  # ns since boot
        self.step = step

    def __call__(self) -> int:
        """Return the time in ns and move on by one step."""
        now = self.now
        self.now += self.step
        return now

    def advance(self, ns: int) -> None:
        """Let `ns` nanoseconds pass."""
        self.now += ns


class TraceClock:
    """One instance's trace clock: which of the kernel's clocks stamps its entries.

    `hz` is the build's CONFIG_HZ: the clock `uptime` counts jiffies.
    """

    def __init__(self, source: Callable[[], int], name: str, hz: int) -> None:
        self._hz = hz
        self._source = source
        self._counter = 0
        self.name = name
        self.in_ns = name not in ("counter", "uptime", "x86-tsc")  # stamps are nanoseconds and print as seconds

    def stamp(self, at: int | None = None) -> int:
        """Return a time stamp now, or for the machine time `at` in ns."""
        if self.in_ns:
            return self._source() if at is None else at
        if self.name == "counter":
            self._counter += 1
            return self._counter
        ns = self._source() if at is None else at
        if self.name == "uptime":
            return ns * self._hz // 1_000_000_000 + _INITIAL_JIFFIES
        return ns * _TSC_PER_NS
