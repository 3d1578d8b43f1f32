"""How many events were read from an instance's buffer and how many were lost, by the kernel's own counts.

It is in `per_cpu/cpu*/stats` (tracing_stats_read() in kernel/trace/trace.c; 3.2 doesn't say what was read, 3.13 does),
and saves looking for events in text, which costs as much as a third of reading that.
"""

from __future__ import annotations

from kprobe.tracing.remainder import OVERRUN, READ, numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.definitions.probe import Probe
    from kprobe.definitions.terms import Terms
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.instance import Instance

LOST = (OVERRUN, b"dropped events")


def ring_counts(tracefs: Tracefs, instance: Instance, probes: tuple[Probe, ...], terms: Terms) -> RingCounts | None:
    """Return the kernel's count if it tells how many events come by trace_pipe, which it does where nothing else comes.

    It counts entries of the buffer, whichever event's they are, and stacks too.
    """
    if not instance.is_own or len(probes) > 1 or terms.stacktrace or terms.max_events is not None:
        return None
    counts = RingCounts(tracefs, instance.path("per_cpu"))
    return counts if counts.is_there() else None


class RingCounts:
    """The counts of all CPUs of one instance; after `settle` they are what they were then."""

    def __init__(self, tracefs: Tracefs, directory: str) -> None:
        self._tracefs = tracefs
        self._directory = directory
        self._settled: tuple[int, int] | OSError | None = None

    def is_there(self) -> bool:
        """True if this kernel says how many events were read."""
        try:
            stats = self._stats()
        except OSError:
            return False
        return bool(stats) and all(READ in one for one in stats)

    def numbers(self) -> tuple[int, int]:
        """Return how many events were read, and how many lost.  Raise `OSError`."""
        if isinstance(self._settled, OSError):
            raise self._settled
        if self._settled is not None:
            return self._settled
        stats = self._stats()
        return sum(one[READ] for one in stats), sum(one.get(key, 0) for one in stats for key in LOST)

    def settle(self) -> None:
        """Keep what there is now: the instance goes."""
        try:
            self._settled = self.numbers()
        except OSError as error:
            self._settled = error

    def _stats(self) -> list[dict[bytes, int]]:
        cpus = [name for name in self._tracefs.listdir(self._directory) if name.startswith("cpu")]
        return [numbers(self._tracefs.read(f"{self._directory}/{cpu}/stats")) for cpu in cpus]
