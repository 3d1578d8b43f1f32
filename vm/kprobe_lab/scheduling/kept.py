"""Keeps things of a worker from shard to shard: guests, which take seconds to start."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from kprobe_vm.errors import MachineClosed

IDLE = 120.0  # seconds after which an unused thing is closed


class Closeable(Protocol):
    """What can be kept."""

    def close(self) -> None:
        """End it; may be called from any thread, and twice."""


Lent = TypeVar("Lent", bound=Closeable)


class Kept:
    """Things by name, each borrowed by one shard at a time.  Any thread may call its methods."""

    def __init__(self, progress: Callable[[str], None] = lambda line: None, *, idle: float = IDLE) -> None:
        self.progress = progress
        self._idle = idle
        self._lock = threading.Lock()
        self._free: dict[str, list[Closeable]] = {}
        self._lent: list[Closeable] = []
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def check(self) -> None:
        """Raise `MachineClosed` if this worker is no longer needed."""
        if self._is_closed:
            raise MachineClosed("the work was ended")

    @contextlib.contextmanager
    def borrow(self, name: str, make: Callable[[], Lent]) -> Iterator[Lent]:
        """Give what was kept by that name, or another that `make` returns.

        It is kept for the next if the context ends well; otherwise it is closed, as its state is unknown.
        """
        self.check()
        item = self._take(name) or make()
        with self._lock:
            self._lent.append(item)
        try:
            self.check()  # it may have been closed meanwhile
            yield item  # type: ignore[misc]  # what is kept by a name is of one kind
        except BaseException:
            with self._lock:
                self._lent.remove(item)
            item.close()
            raise
        self._put_back(name, item)

    def close(self) -> None:
        """Close everything, borrowed things too, which interrupts the borrowers."""
        with self._lock:
            self._is_closed = True
            items = [*self._lent]
            self._stop_timer()
        self._close_free()
        for item in items:
            item.close()

    def _take(self, name: str) -> Closeable | None:
        with self._lock:
            self._stop_timer()
            free = self._free.get(name)
            return free.pop() if free else None

    def _put_back(self, name: str, item: Closeable) -> None:
        with self._lock:
            self._lent.remove(item)
            if not self._is_closed:
                self._free.setdefault(name, []).append(item)
                self._stop_timer()
                self._timer = threading.Timer(self._idle, self._close_free)
                self._timer.daemon = True
                self._timer.start()
                return
        item.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_free(self) -> None:
        with self._lock:
            items = [item for items in self._free.values() for item in items]
            self._free.clear()
        for item in items:
            item.close()
