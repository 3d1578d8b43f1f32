"""What traces come to for programs, against what was done on the simulated machine."""

from __future__ import annotations

import asyncio

import pytest

from kprobe import Latencies, Tracer
from kprobe_sim import SimulatedKernel, Task

CAT, SHELL = Task(42, "cat"), Task(43, "sh")
READ = "p:vfs_read count=%dx:u64"


@pytest.fixture(params=["6.1", "6.12"])
def kernel(request: pytest.FixtureRequest) -> SimulatedKernel:
    return SimulatedKernel(request.param)


def read(kernel: SimulatedKernel, count: int = 0, task: Task = CAT) -> None:
    kernel.call("vfs_read", task=task, args=(1, 2, count), returns=count)


def recurse(kernel: SimulatedKernel) -> None:
    """A read of 1,000,003 ns with one of 400,001 ns in it, and one that doesn't return."""
    kernel.call(
        "vfs_read",
        task=CAT,
        at=20_000_000_000,
        returns=0,
        duration=1_000_003,
        within=lambda: [kernel.call("vfs_read", task=CAT, at=20_000_010_000, returns=0, duration=400_001), None][1],
    )
    kernel.call("vfs_read", task=SHELL, at=20_002_000_000, returns=None)


def test_the_kernel_does_not_count_what_it_would_not_record() -> None:
    """A hist trigger also sees the hits on CPUs that tracing_cpumask leaves out, and doesn't end at a number."""
    kernel = SimulatedKernel("6.12", cpus=2)
    for options in ({"cpus": [1]}, {"max_events": 2}):
        with Tracer(kernel.tracefs).trace(READ, count="cpu", **options) as trace:
            for cpu in (0, 1, 1, 0):
                kernel.call("vfs_read", task=CAT, args=(1, 2, 3), returns=0, cpu=cpu)
            trace.stop()
            assert trace.counts("cpu") == {"vfs_read": {1: 2} if "cpus" in options else {0: 1, 1: 1}}


@pytest.mark.slow
def test_latencies(kernel: SimulatedKernel) -> None:
    with Tracer(kernel.tracefs).trace("vfs_read", latency=True) as trace:
        recurse(kernel)
        trace.stop()
        found = trace.latencies()
    assert list(found) == ["vfs_read"]
    latency = found["vfs_read"]
    assert (latency.calls, latency.mean, latency.times.least, latency.times.most) == (2, 700_002, 400_001, 1_000_003)
    assert [latency.percentile(percent) for percent in (0, 50, 51, 100)] == [400_001, 400_001, 1_000_003, 1_000_003]
    assert (latency.running, latency.unreturned, latency.unentered, latency.cut) == (1, 0, 0, 0)
    with pytest.raises(ValueError, match=r"^101 is no percentage$"):
        latency.percentile(101)


def test_latencies_of_a_function_that_is_not_called(kernel: SimulatedKernel) -> None:
    (latency,) = Tracer(kernel.tracefs).trace("vfs_write", latency=True, timeout=0).latencies().values()
    assert latency.calls == 0
    with pytest.raises(ValueError, match=r"^there are no calls$"):
        _ = latency.mean
    with pytest.raises(ValueError, match=r"^there are no numbers$"):
        latency.percentile(50)
    assert (kernel.tracefs.read("kprobe_events"), kernel.tracefs.listdir("instances")) == (b"", [])


@pytest.mark.parametrize("by", ["", "count"])
def test_histograms_are_the_same_whoever_counts(kernel: SimulatedKernel, by: str) -> None:
    with Tracer(kernel.tracefs).trace(READ, "p:write vfs_write count=%dx:u64", count=by) as trace:
        for count in (0, 1, 100, 127, 128):
            read(kernel, count)
        trace.stop()
        found = trace.histograms("count")
        assert trace.is_counted == bool(by)
    numbers = found["vfs_read"]
    assert (list(found), numbers.count, numbers.total, numbers.least, numbers.most) == (["vfs_read"], 5, 356, 0, 128)
    assert numbers.buckets == {0: 1, 1: 1, 7: 2, 8: 1}  # by the bits that a number has
    assert trace.notices == []


def test_counts(kernel: SimulatedKernel) -> None:
    def made(by: str, *, by_kernel: bool) -> dict[str, dict[object, int]]:
        with Tracer(kernel.tracefs).trace(READ, "r:done vfs_read", count=by if by_kernel else "") as trace:
            read(kernel)
            read(kernel)
            read(kernel, task=SHELL)
            trace.stop()
            found = trace.counts(by)
            assert trace.is_counted == (by_kernel and by != "comm")
            return found

    for by_kernel in (False, True):
        assert made("comm", by_kernel=by_kernel) == {"vfs_read": {"cat": 2, "sh": 1}, "done": {"cat": 2, "sh": 1}}
        assert made("pid", by_kernel=by_kernel) == {"vfs_read": {42: 2, 43: 1}, "done": {42: 2, 43: 1}}


def test_what_the_kernel_counted_by_something_else(kernel: SimulatedKernel) -> None:
    with Tracer(kernel.tracefs).trace(READ, count="pid") as trace:
        trace.stop()
        with pytest.raises(ValueError, match=r"^the kernel has counted by pid, and recorded nothing else$"):
            trace.counts("count")
        with pytest.raises(ValueError, match=r"^the kernel has counted by pid, and recorded nothing else$"):
            trace.latencies()


def test_stacks(kernel: SimulatedKernel) -> None:
    with Tracer(kernel.tracefs).trace("p:vfs_read", stacktrace=True) as trace:
        for _ in range(2):
            kernel.call("vfs_read", task=CAT, returns=0, stack=["ksys_read+0x6b", "do_syscall_64+0x82"])
        trace.stop()
        assert trace.stacks() == {("cat", "do_syscall_64", "ksys_read", "vfs_read"): 2}


def test_what_is_left_out_is_said(kernel: SimulatedKernel) -> None:
    with Tracer(kernel.tracefs).trace(READ) as trace:
        read(kernel)
        trace.stop()
        assert trace.histograms("size") == {}
    assert trace.notices == ["1 events have no size"]


def test_latencies_in_a_program_of_asyncio(kernel: SimulatedKernel) -> None:
    async def measured() -> Latencies:
        latencies = Latencies()
        async with Tracer(kernel.tracefs).trace("vfs_read", latency=True, max_events=4) as trace:
            recurse(kernel)
            async for record in trace:
                latencies.add(record)
        latencies.end()
        return latencies

    (latency,) = asyncio.run(measured()).rows.values()
    assert (latency.calls, latency.times.total) == (2, 1_400_004)


def test_where_the_kernel_has_no_hist_trigger_the_tracer_counts() -> None:
    kernel = SimulatedKernel("5.10")
    with Tracer(kernel.tracefs).trace(READ, count="count") as trace:
        read(kernel, 100)
        trace.stop()
        assert not trace.is_counted
        assert trace.counts("count") == {"vfs_read": {100: 1}}
