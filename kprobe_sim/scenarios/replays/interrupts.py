"""How often SIGINT came, whatever handles it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading


class Interrupts:
    """Counts, within `with`, each SIGINT that a Python handler took: `kprobe` handles it and doesn't report it.

    Only the main thread can count; for others `count` stays 0.
    """

    def __init__(self) -> None:
        self._is_main = threading.current_thread() is threading.main_thread()
        self._count = 0

    def __enter__(self) -> Interrupts:
        if self._is_main:
            self._source, sink = os.pipe()
            os.set_blocking(self._source, False)
            os.set_blocking(sink, False)
            self._before = signal.set_wakeup_fd(sink, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_main:
            os.close(signal.set_wakeup_fd(self._before))
            os.close(self._source)

    @property
    def count(self) -> int:
        """The number so far."""
        if self._is_main:
            with contextlib.suppress(BlockingIOError):  # none since the last count
                self._count += os.read(self._source, 1 << 16).count(signal.SIGINT)
        return self._count
