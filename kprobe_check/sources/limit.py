"""A limit on the processor time for reading a source: lexers can take very long on unusual text."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 3.0  # of any source
SECONDS_PER_BYTE = 1e-5  # plus this; ten times what a long program takes


class TookTooLong(Exception):
    """The time is up."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` within a block after some processor time, even during a search for a pattern.

    A process has one such timer, and its main thread gets the signal: in another thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before or signal.SIG_DFL)
