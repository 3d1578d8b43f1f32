"""The threads that a trace is restricted to, and those that their process starts later."""

from __future__ import annotations

from kprobe.undo.processes import check_thread, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.instance import Instance

EVERY = 1.0  # seconds between two checks for new threads


class TracedThreads:
    """The threads of process `pid`, or only `tid`; with neither, none: the trace takes every thread."""

    def __init__(
        self, tracefs: Tracefs, pid: int | None, tid: int | None, proc: str, clock: Callable[[], float]
    ) -> None:
        self._tracefs = tracefs
        self._pid = pid
        self._tid = tid
        self._proc = proc
        self._clock = clock
        self._instance: Instance | None = None  # the instance that admits new threads
        self._known: set[int] = set()
        self._last_check = 0.0

    def ids(self) -> list[int]:
        """Return the ids of the threads that exist now.  Raise `NoSuchProcess`."""
        if self._tid is not None:
            check_thread(self._tracefs, self._tid, self._proc)
            return [self._tid]
        return [] if self._pid is None else threads(self._tracefs, self._pid, self._proc)

    def watch(self, instance: Instance, tids: Iterable[int]) -> None:
        """From now on admit the process's new threads to an instance that already admits `tids`."""
        if self._pid is not None:
            self._instance, self._known, self._last_check = instance, set(tids), self._clock()

    def admit_new(self) -> None:
        """Admit the threads that the process has started since, if the last call is a while ago."""
        if self._instance is None or self._clock() < self._last_check + EVERY:
            return
        self._last_check = self._clock()
        try:
            new = set(self.ids()) - self._known
        except Exception:  # the process is gone, or its machine; the reader will see
            self._instance = None
            return
        self._instance.add_threads(new)
        self._known |= new
