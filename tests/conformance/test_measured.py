"""What a trace comes to for programs, everywhere: figures of calls that were made."""

from __future__ import annotations

from typing import Any

OURS = 'comm == "workload"'
OPENS = "p:opens do_sys_openat2 dfd=%di:s32"


def test_latencies(tracer: Any, workload: Any) -> None:
    with tracer.trace("do_sys_openat2", latency=True, filter=OURS) as trace:
        for _ in range(3):
            workload.open("/etc/hostname")
        trace.stop()
        found = trace.latencies()
    assert list(found) == ["do_sys_openat2"]
    latency = found["do_sys_openat2"]
    assert (latency.calls, latency.unreturned, latency.running, latency.unentered, latency.cut) == (3, 0, 0, 0, 0)
    assert 0 < latency.times.least <= latency.percentile(50) <= latency.percentile(100) == latency.times.most


def test_figures_of_a_field(tracer: Any, workload: Any) -> None:
    for by in ("", "dfd"):
        with tracer.trace(OPENS, filter=OURS, count=by) as trace:
            for _ in range(3):
                workload.open("/etc/hostname")
            trace.stop()
            (numbers,) = trace.histograms("dfd").values()
        assert (numbers.count, numbers.least, numbers.most, numbers.buckets) == (3, -100, -100, {-7: 3})
    with tracer.trace(OPENS, filter=OURS) as trace:
        workload.open("/etc/hostname")
        trace.stop()
        assert trace.counts("comm") == {"opens": {"workload": 1}}


def test_stacks(tracer: Any, workload: Any) -> None:
    with tracer.trace("p:opens do_sys_openat2", filter=OURS, stacktrace=True) as trace:
        workload.open("/etc/hostname")
        trace.stop()
        ((stack, count),) = trace.stacks().items()
    assert (stack[0], stack[-1], count) == ("workload", "do_sys_openat2", 1)
