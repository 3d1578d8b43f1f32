"""A trace in programs of asyncio's: events as they come, and nothing left behind, whatever is cancelled when."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from kprobe import Event, Trace, Tracer, UnknownSymbol
from kprobe_sim import SimulatedKernel, Task

OPEN = "p:myopen do_sys_openat2 filename=+0(%si):string"


@pytest.fixture
def kernel() -> SimulatedKernel:
    return SimulatedKernel("6.12")


@pytest.fixture(autouse=True)
def nothing_is_left(kernel: SimulatedKernel) -> Iterator[None]:
    threads = set(threading.enumerate())
    yield
    assert kernel.tracefs.read("dynamic_events") == b""
    assert kernel.tracefs.listdir("instances") == []
    assert set(threading.enumerate()) == threads


def opens(kernel: SimulatedKernel, *names: str) -> None:
    for name in names:
        kernel.call("do_sys_openat2", task=Task(42, "cat"), args=(-100, name, 0), returns=3)


def run(work: Coroutine[Any, Any, object]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def names(records: list[object]) -> list[object]:
    return [record.fields["filename"] for record in records if isinstance(record, Event)]


def test_events_come_one_by_one_while_others_work(kernel: SimulatedKernel) -> None:
    async def work() -> None:
        async with Tracer(kernel.tracefs).trace(OPEN) as trace:
            seen = trace.__aiter__()
            for name in ("/one", "/two", "/three"):  # each is there before the next is made
                waiting = asyncio.ensure_future(anext(seen))
                await asyncio.sleep(0)
                assert not waiting.done()
                opens(kernel, name)
                assert names([await waiting]) == [name]

    run(work())


def test_stop_ends_the_iteration_after_what_the_kernel_still_holds(kernel: SimulatedKernel) -> None:
    async def work() -> list[object]:
        found: list[object] = []
        async with Tracer(kernel.tracefs).trace(OPEN) as trace:
            opens(kernel, "/one", "/two")
            async for record in trace:
                found.append(record)
                if len(found) == 1:
                    opens(kernel, "/three")
                    trace.stop()
        return found

    assert names(asyncio.run(work())) == ["/one", "/two", "/three"]


class Working:
    """The tracefs of a machine that opens a file as soon as that is traced: a probe is listed before it is enabled."""

    def __init__(self, kernel: SimulatedKernel, *opened: str) -> None:
        self._kernel = kernel
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel.tracefs, name)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        self._kernel.tracefs.write(path, data, truncate=truncate)
        if path.endswith("/enable") and data.startswith(b"1"):
            opens(self._kernel, *self._opened)


def test_the_events_alone(kernel: SimulatedKernel) -> None:
    async def work() -> list[object]:
        async with Tracer(kernel.tracefs).trace(OPEN, stacktrace=True) as trace:
            opens(kernel, "/one", "/two")
            trace.stop()
            return [event.fields["filename"] async for event in trace.events()]

    assert asyncio.run(work()) == ["/one", "/two"]


def test_a_trace_that_has_not_begun_begins_and_ends_with_the_iteration(kernel: SimulatedKernel) -> None:
    async def work() -> None:
        trace = Tracer(Working(kernel, "/one")).trace(OPEN, duration=0.01)
        assert names([record async for record in trace]) == ["/one"]

    run(work())


def test_a_wait_that_is_cancelled_loses_no_event(kernel: SimulatedKernel) -> None:
    async def work() -> None:
        async with Tracer(kernel.tracefs).trace(OPEN) as trace:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await anext(trace.__aiter__())
            opens(kernel, "/one", "/two")
            async for record in trace:
                assert names([record]) == ["/one"]
                break
            assert names([await anext(trace.__aiter__())]) == ["/two"]

    run(work())


def test_two_traces_in_one_loop(kernel: SimulatedKernel) -> None:
    async def first(definition: str) -> object:
        async with Tracer(kernel.tracefs).trace(definition) as trace:
            async for record in trace:
                assert isinstance(record, Event)
                return record.name
        return None

    async def work() -> None:
        tasks = [asyncio.ensure_future(first(f"p:my{name} do_sys_openat2")) for name in ("one", "two")]
        while not all(task.done() for task in tasks):
            opens(kernel, "/etc/passwd")
            await asyncio.sleep(0.01)
        assert [task.result() for task in tasks] == ["myone", "mytwo"]

    run(work())


def at_a_write(kernel: SimulatedKernel, path: str, call: Callable[[], object]) -> Any:
    """Return the kernel's tracefs; `call` is called in the loop's thread in the midst of a write of `path`."""
    loop = asyncio.get_running_loop()

    class Noticed:
        def __getattr__(self, name: str) -> Any:
            return getattr(kernel.tracefs, name)

        def write(self, name: str, data: bytes, *, truncate: bool = False) -> None:
            if name.endswith(path):
                called = threading.Event()
                loop.call_soon_threadsafe(call)
                loop.call_soon_threadsafe(called.set)
                assert called.wait(10)
            kernel.tracefs.write(name, data, truncate=truncate)

    return Noticed()


@pytest.mark.parametrize("path", ["kprobe_events", "filter", "enable"])
def test_a_cancellation_while_it_begins_or_ends(kernel: SimulatedKernel, path: str) -> None:
    """Each write of the file is cut by a cancellation: those of the beginning, and those of the undo."""

    async def work() -> None:
        async def traced() -> None:
            tracer = Tracer(at_a_write(kernel, path, lambda: task.cancel()))
            async with tracer.trace(OPEN, filter='filename == "/one"') as trace:
                await anext(trace.__aiter__())

        task = asyncio.ensure_future(traced())
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work())


def test_a_cancelled_iteration(kernel: SimulatedKernel) -> None:
    async def work() -> None:
        begun = asyncio.Event()

        async def traced() -> None:
            async with Tracer(kernel.tracefs).trace(OPEN) as trace:
                begun.set()
                async for _ in trace:
                    raise AssertionError

        task = asyncio.ensure_future(traced())
        await begun.wait()
        assert kernel.tracefs.read("kprobe_events") != b""
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert kernel.tracefs.read("kprobe_events") == b""  # before whoever cancelled goes on

    run(work())


def test_what_the_kernel_refuses(kernel: SimulatedKernel) -> None:
    async def work() -> None:
        with pytest.raises(UnknownSymbol):
            async with Tracer(kernel.tracefs).trace("p:x nosuchfunction"):
                raise AssertionError

    run(work())


def test_a_loop_that_ends_in_the_midst_of_an_iteration(kernel: SimulatedKernel) -> None:
    kept = []

    async def work() -> None:
        records = Tracer(Working(kernel, "/one")).trace(OPEN).__aiter__()
        kept.append(records)
        assert names([await anext(records)]) == ["/one"]

    run(work())


def test_it_must_be_begun_by_async_with(kernel: SimulatedKernel) -> None:
    async def work(trace: Trace) -> None:
        with pytest.raises(ValueError, match="wasn't begun by async with"):
            await trace.__aexit__(None, None, None)
        with trace, pytest.raises(ValueError, match="has begun already"):
            await anext(trace.__aiter__())

    run(work(Tracer(kernel.tracefs).trace(OPEN)))


def test_asyncio_is_imported_by_who_uses_it() -> None:
    code = "import sys, kprobe.tracing.session; print('asyncio' in sys.modules, 'concurrent.futures' in sys.modules)"
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"], capture_output=True, text=True
    )
    assert done.stdout == "False False\n", done.stderr
