"""A trace in an asyncio program: `async with` and `async for`.

What waits does so on a thread that the trace has of its own, from its beginning to its last undo.  asyncio is imported
when that begins.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections import deque
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import TracebackType
    from typing import Self, TypeVar

    from kprobe_text.text import Record

    from .waiting import Waiting

    T = TypeVar("T")


class Awaited:
    """What a trace is besides to programs of asyncio's.

    Events come as soon as the kernel has them.  A task that is cancelled while it waits, or while the trace begins or
    ends, leaves nothing behind: the cancellation goes on once all is undone.  Events that come while nobody waits are
    kept by the kernel, and given to who waits next.
    """

    _waiting: Waiting
    _worker: Worker | None = None

    async def __aenter__(self) -> Self:
        worker = Worker()
        try:
            await worker.do(self.__enter__)
        except BaseException as error:
            try:
                if worker.is_done:
                    await self._undone(worker, error)
            finally:
                worker.close()
            raise
        self._worker = worker
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            raise ValueError("this trace wasn't begun by async with")
        try:
            await self._undone(worker, error)
        finally:
            worker.close()

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Yield every record as it comes; a trace that hasn't begun begins here and ends with the iteration."""
        worker = self._worker
        if worker is None:
            async with self:
                async for record in self:
                    yield record
            return
        if worker.batches is None:
            worker.batches = self.batches()
        while worker.ready or await worker.fetch(self._waiting):
            yield worker.ready.popleft()

    async def _undone(self, worker: Worker, error: BaseException | None) -> None:
        cancelled = None
        if worker.pending is not None:  # for nobody any more
            self.stop()
            cancelled = await worker.settled(worker.pending)
        await worker.do(lambda: self.__exit__(type(error) if error else None, error, None))
        if cancelled is not None:
            raise cancelled

    if TYPE_CHECKING:  # the trace's own

        def __enter__(self) -> Self: ...
        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
        ) -> None: ...
        def batches(self) -> Iterator[list[Record]]: ...
        def stop(self) -> None: ...


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
