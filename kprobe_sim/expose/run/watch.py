"""The work of `kprobe-sim run` while its command runs: it forwards signals, reaps orphans and keeps a keeper."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection

from kprobe_sim.expose.fuse.keeper import Keeper

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
_OF_TERMINALS = (signal.SIGINT, signal.SIGQUIT)  # a terminal sends them to the command, too, which decides
_WATCHED = frozenset((*_FORWARDED, *_OF_TERMINALS, signal.SIGCHLD))
_SI_KERNEL = 128  # si_code of a signal that no process sent


def block() -> set[int]:
    """Block the watched signals until there is a `Watch`; return the old mask."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # were it ignored, the end of a child would go unnoticed
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED))


def unblock(masked: Collection[int]) -> None:
    """Restore the mask that `block` returned; drop signals that came after the watch had ended."""
    while signal.sigtimedwait(_WATCHED, 0) is not None:
        continue
    signal.pthread_sigmask(signal.SIG_SETMASK, masked)


class Watch:
    """A thread that watches a child; the watched signals must be blocked in all threads.

    Without `reaps` another thread waits for the child and all that it starts, until `end` is called.
    """

    def __init__(self, child: int, *, reaps: bool = True) -> None:
        self._child = child
        self._reaps = reaps
        self._handle = os.pidfd_open(child)
        self._keeper: Keeper | None = None
        self._make_keeper: Callable[[], Keeper] | None = None
        self._kept = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._watch, name="watch")
        self._thread.start()

    def keep(self, duty: Callable[[], object], needs: Collection[int]) -> None:
        """Have a keeper, a child of the thread, do the duty if this process ends without calling `end`."""
        self._make_keeper = lambda: Keeper(duty, needs)
        self._call()
        self._kept.wait()

    def end(self) -> None:
        """End the thread: the child was reaped, and the duty is done."""
        self._is_over = True
        self._call()
        self._thread.join()
        os.close(self._handle)

    def _call(self) -> None:
        signal.pthread_kill(self._thread.ident or 0, signal.SIGCHLD)

    def _watch(self) -> None:
        while not self._is_over:
            received = signal.sigwaitinfo(_WATCHED)
            if received.si_signo == signal.SIGCHLD:
                self._attend()
            elif received.si_signo in _FORWARDED or received.si_code != _SI_KERNEL:
                self._forward(received.si_signo)
        if self._keeper is not None:
            self._keeper.dismiss()
        self._reap()

    def _attend(self) -> None:
        if self._make_keeper is not None:
            self._keeper = self._make_keeper()
            self._make_keeper = None
            self._kept.set()
        if self._reaps:
            self._reap()
        elif self._keeper is not None and not self._is_over:
            self._keeper.renew()

    def _forward(self, number: int) -> None:
        try:
            signal.pidfd_send_signal(self._handle, number)
        except ProcessLookupError:
            return

    def _reap(self) -> None:
        """Reap orphaned descendants of the child, but not the child itself."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid == self._child:
                return
            if self._keeper is not None and ended.si_pid == self._keeper.pid and not self._is_over:
                self._keeper.renew()
            else:
                os.waitpid(ended.si_pid, 0)
