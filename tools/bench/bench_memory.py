"""`make bench` imports it: the memory of a kernel, and of an event record."""

from __future__ import annotations

import gc
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from bench_figure import Figure, Group, Round

from kprobe_sim import SimulatedKernel, Task

KERNEL = "6.1"
KERNELS = 10
RECORDS = 20_000
CAT = Task(2841, "cat")


def held(make: Callable[[], object]) -> float:
    """Return the bytes that Python holds for what is made, as long as it is kept."""
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return float(size)


def probed() -> SimulatedKernel:
    """Return a kernel as a test leaves it: a definition, enabled, hit, and its trace read."""
    kernel = SimulatedKernel(KERNEL)
    kernel.tracefs.write("kprobe_events", b"p:myopen do_sys_openat2\n")
    kernel.tracefs.write("events/kprobes/myopen/enable", b"1")
    kernel.tracefs.write("buffer_size_kb", b"8192")
    kernel.call("do_sys_openat2", task=CAT, args=(-100, "/etc/hostname"), returns=3)
    kernel.tracefs.read("trace")
    return kernel


def memory(_: Path) -> Round:
    """Bytes, counted by tracemalloc: the same in each round."""
    kernel = probed()

    def record() -> None:
        for _ in range(RECORDS):
            kernel.call("do_sys_openat2", task=CAT, args=(-100, "/etc/hostname"), returns=3)

    def recorded() -> int:
        stats = kernel.tracefs.read("per_cpu/cpu0/stats")
        found = re.search(rb"bytes: (\d+)", stats)
        assert found
        return int(found[1])

    def measure() -> dict[str, float]:
        kernel.tracefs.write("trace", b"", truncate=True)
        record_size = held(record) / RECORDS
        return {
            "memory.kernel": held(lambda: [SimulatedKernel(KERNEL) for _ in range(KERNELS)]) / KERNELS,
            "memory.probed": held(lambda: [probed() for _ in range(KERNELS)]) / KERNELS,
            "300 KiB": 300.0 * 1024,
            "memory.record": record_size,
            "its bytes in the buffer": recorded() / RECORDS,
        }

    return measure


GROUPS = (
    Group(
        "memory",
        memory,
        (
            Figure("memory.kernel", "a SimulatedKernel()", "300 KiB", "B", most_ratio=1),
            Figure("memory.probed", "the same after a hit was read", "300 KiB", "B", most_ratio=1),
            Figure("memory.record", "an event record", "its bytes in the buffer", "B", most_ratio=2),
        ),
    ),
)
