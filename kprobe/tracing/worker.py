"""The thread on which an asyncio program's trace does all that waits; asyncio is imported when the trace begins."""

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
    """The thread of a trace, and what it read ahead of whoever iterates."""

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
        """Have the thread do something, to its end; a cancellation that comes meanwhile is raised then.

        `is_done` says then if it was done.
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
        """Wait for the end of something, whatever comes of it; return a cancellation that came meanwhile."""
        cancelled: BaseException | None = None
        while not future.done():
            try:
                await self._wait([future])
            except self._cancelled as error:
                cancelled = error
        future.exception()
        return cancelled

    async def fetch(self, waiting: Waiting) -> bool:
        """Wait until records are ready; False at the end.  What a cancelled wait would have got, the next one gets."""
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
        """End the thread, which has nothing to do any more."""
        self._executor.shutdown()
