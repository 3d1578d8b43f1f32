"""How many events were read from an instance's buffer and how many were lost, by the kernel's counts.

They are in `per_cpu/cpu*/stats` (tracing_stats_read() in kernel/trace/trace.c; entries read are in 3.13, not in 3.2).
Counting events in text would cost a third of the time to read it.
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
    """Return the kernel's counts if only events come by trace_pipe, so that they are the number of events.

    The kernel counts entries of the buffer: of any event, and stacks too.
    """
    if not instance.is_own or len(probes) > 1 or terms.stacktrace or terms.max_events is not None:
        return None
    counts = RingCounts(tracefs, instance.path("per_cpu"))
    return counts if counts.is_there() else None


class RingCounts:
    """The counts of all CPUs of one instance; `settle` fixes them."""

    def __init__(self, tracefs: Tracefs, directory: str) -> None:
        self._tracefs = tracefs
        self._directory = directory
        self._settled: tuple[int, int] | OSError | None = None

    def is_there(self) -> bool:
        """True if this kernel counts the entries read."""
        try:
            stats = self._stats()
        except OSError:
            return False
        return bool(stats) and all(READ in one for one in stats)

    def numbers(self) -> tuple[int, int]:
        """Return the numbers of events read and lost.  Raise `OSError`."""
        if isinstance(self._settled, OSError):
            raise self._settled
        if self._settled is not None:
            return self._settled
        stats = self._stats()
        return sum(one[READ] for one in stats), sum(one.get(key, 0) for one in stats for key in LOST)

    def settle(self) -> None:
        """Keep the current counts: the instance will be removed."""
        try:
            self._settled = self.numbers()
        except OSError as error:
            self._settled = error

    def _stats(self) -> list[dict[bytes, int]]:
        cpus = [name for name in self._tracefs.listdir(self._directory) if name.startswith("cpu")]
        return [numbers(self._tracefs.read(f"{self._directory}/{cpu}/stats")) for cpu in cpus]
