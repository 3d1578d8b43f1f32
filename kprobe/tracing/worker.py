"""The thread for all waits of an asyncio program's trace; asyncio is imported when the trace begins."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections import deque
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from kprobe_text.text import Record

    from .waiting import Waiting

    T = TypeVar("T")


class Worker:
    """The thread of a trace, and the records that it read ahead."""

    def __init__(self) -> None:
        import asyncio
        from collections import deque
        from concurrent.futures import ThreadPoolExecutor

        self._cancelled = asyncio.CancelledError
        self.is_done = False
        self.batches: Iterator[list[Record]] | None = None
        self.pending: asyncio.Future[list[Record] | None] | None = None
        self.ready: deque[Record] = deque()
        self._wait = asyncio.wait
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(1, "kprobe-trace")

    async def do(self, call: Callable[[], T]) -> T:
        """Run something on the thread to its end; a cancellation meanwhile is raised after it.

        `is_done` then says whether it succeeded.
        """
        self.is_done = False
        future = self._loop.run_in_executor(self._executor, call)
        cancelled = await self.settled(future)
        failure = future.exception()
        self.is_done = failure is None
        if cancelled is not None:
            raise cancelled from failure
        return future.result()

    async def settled(self, future: asyncio.Future[T]) -> BaseException | None:
        """Wait for the end of something, whatever its result; return a cancellation that came meanwhile."""
        cancelled: BaseException | None = None
        while not future.done():
            try:
                await self._wait([future])
            except self._cancelled as error:
                cancelled = error
        future.exception()
        return cancelled

    async def fetch(self, waiting: Waiting) -> bool:
        """Wait until records are ready; False at the end.  A cancelled wait leaves its records to the next one."""
        while not self.ready:
            if self.pending is None:
                assert self.batches is not None
                self.pending = self._loop.run_in_executor(self._executor, next, self.batches, None)
            done, _ = await self._wait([self.pending], timeout=waiting.left())
            if not done:
                raise waiting.over()
            self.pending = None
            batch = done.pop().result()
            if batch is None:
                return False
            self.ready += batch
        return True

    def close(self) -> None:
        """End the idle thread."""
        self._executor.shutdown()
