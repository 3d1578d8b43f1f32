"""The simulated machine's time, and the trace clocks read from it."""

from __future__ import annotations

from collections.abc import Callable

from kprobe_sim.named_tuple import NamedTuple

TSC_KHZ = 3_000_000  # the recorded guests' x86-tsc ran at about 2.99 GHz
_SECOND = 1_000_000_000  # ns
_CLOCK_TICK = _SECOND // 100  # ns: a tick as user space counts (USER_HZ), whatever HZ is
_WORD = 1 << 32


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


class ClockFacts(NamedTuple):
    """What trace clocks depend on: the build's CONFIG_HZ, whether `uptime` is in ns, and the TSC's rate in kHz."""

    hz: int
    uptime_in_ns: bool
    tsc_khz: int


def clock_facts(hz: int, uptime_in_ns: bool, tsc_khz: int) -> ClockFacts:
    """Return the facts.  Raises ValueError for a TSC that doesn't tick."""
    if tsc_khz <= 0:
        raise ValueError(f"a TSC counts more than {tsc_khz} in a millisecond")
    return ClockFacts(hz, uptime_in_ns, tsc_khz)


class TraceClock:
    """One instance's trace clock: the one of the kernel's clocks that stamps its entries.

    `uptime` counts jiffies, and gives them as ticks of user space, 100 a second (jiffies_64_to_clock_t()); before 3.16
    as nanoseconds, made of 32 bits of microseconds (trace_clock_jiffies() of 3.13).
    """

    def __init__(self, source: Callable[[], int], name: str, facts: ClockFacts) -> None:
        self._facts = facts
        self._source = source
        self._counter = 0
        self._is_time = name not in ("counter", "uptime", "x86-tsc")
        self.name = name
        # stamps are nanoseconds and print as seconds
        self.in_ns = self._is_time or (name == "uptime" and facts.uptime_in_ns)

    def stamp(self, timestamp: int | None = None) -> int:
        """Return a time stamp now, or for a machine time in ns."""
        if self._is_time:
            return self._source() if timestamp is None else timestamp
        if self.name == "counter":
            self._counter += 1
            return self._counter
        ns = self._source() if timestamp is None else timestamp
        if self.name == "uptime":
            return self._uptime(ns)
        return ns * self._facts.tsc_khz // 1_000_000

    def _uptime(self, ns: int) -> int:
        hz = self._facts.hz
        jiffies = ns * hz // _SECOND
        if self._facts.uptime_in_ns:
            return jiffies * 1_000_000 // hz % _WORD * 1000
        return jiffies * ((_SECOND + hz // 2) // hz) // _CLOCK_TICK
