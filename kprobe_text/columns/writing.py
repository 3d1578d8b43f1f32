"""Reading and writing at the same time, on two processors."""

from __future__ import annotations

from collections.abc import Mapping
from queue import Queue
from threading import Thread
from typing import Final

import pyarrow as pa

from kprobe_text.columns.store import Store

_WAITING: Final = 1  # tables that are read ahead of the writing


class Writer:
    """Gives tables to a store; with 2 or more `jobs`, in a thread that compresses while others read.

    An error of the store is raised by one of the next calls.  Tables keep their order.
    """

    def __init__(self, store: Store, jobs: int = 2) -> None:
        self._store = store
        self._problem: BaseException | None = None
        self._queue: Queue[Mapping[str, pa.Table] | None] = Queue(_WAITING)
        self._thread = Thread(target=self._run, daemon=True) if jobs > 1 else None
        if self._thread is not None:
            self._thread.start()

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Write tables."""
        if self._problem is not None:
            raise self._problem
        if self._thread is None:
            self._store.add(tables)
        else:
            self._queue.put(tables)

    def close(self) -> list[str]:
        """Write what is left, and return the names of the files."""
        self._join()
        if self._problem is not None:
            raise self._problem
        return self._store.close()

    def abandon(self) -> None:
        """Remove the incomplete files."""
        self._join()
        self._store.abandon()

    def _join(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (tables := self._queue.get()) is not None:
            if self._problem is None:
                try:
                    self._store.add(tables)
                except BaseException as error:
                    self._problem = error
