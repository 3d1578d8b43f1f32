"""`make bench` imports it: hits, and filters on their records."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_figure import Figure, Group, Round, cpu

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.builds.gates import filter_gates
from kprobe_sim.language.filters.predicate import compile_filter

KERNEL = "6.1"
CAT = Task(2841, "cat")
CALLER = "__x64_sys_openat+0x6a"
ARGUMENTS = b" dfd=%di:s32 filename=+0(%si):string"
TIMES = 1000
LINE = "an f-string line"


def probed(count: int, arguments: bytes = b"", filtered: bytes = b"") -> SimulatedKernel:
    """Return a kernel with so many enabled probes on one function."""
    kernel = SimulatedKernel(KERNEL)
    tracefs = kernel.tracefs
    for number in range(count):
        tracefs.write("kprobe_events", b"p:p%d do_sys_openat2%b\n" % (number, arguments))
        if filtered:
            tracefs.write(f"events/kprobes/p{number}/filter", filtered)
    tracefs.write("events/kprobes/enable", b"1")
    return kernel


def called(kernel: SimulatedKernel) -> Callable[[], None]:
    """Return what calls the function."""

    def call() -> None:
        kernel.call("do_sys_openat2", task=CAT, args=(-100, "/etc/hostname"), returns=3, caller=CALLER)

    return call


def batched(kernel: SimulatedKernel) -> Callable[[], object] | None:
    """Return what makes TIMES calls at once; None where there is no such function."""
    calls = getattr(kernel, "calls", None)
    if calls is None:
        return None
    from kprobe_sim.probes.hits.call import Call

    call = Call("do_sys_openat2", CAT, (-100, "/etc/hostname"), 3, CALLER, {}, {}, (), 0, 0, None, None)
    batch = [call] * TIMES
    return lambda: calls(batch)


def line() -> str:
    """Return a line of a trace, as a plain program would write it."""
    return f"{'cat':>16s}-{CAT.pid:<7d} [{0:03d}] ..... {10:5d}.{31:06d}: myopen: (do_sys_openat2+0x0/0x170)\n"


def hits(_: Path) -> Round:
    """What a call costs by the probes on its function."""
    one, eleven = probed(1), probed(11)
    callers = {
        "hit.none": called(SimulatedKernel(KERNEL)),
        "hit.one": called(one),
        "hit.eleven": called(eleven),
        "hit.arguments": called(probed(1, ARGUMENTS)),
        "hit.rejected": called(probed(1, ARGUMENTS, b"common_pid == 1")),
    }
    batch = batched(probed(1))

    def measure() -> dict[str, float]:
        found = {key: cpu(call, TIMES) for key, call in callers.items()}
        found["hit.further"] = (found.pop("hit.eleven") - found["hit.one"]) / 10
        if batch is not None:
            found["hit.batch"] = cpu(batch) / TIMES
        for kernel in (one, eleven):
            kernel.tracefs.write("trace", b"", truncate=True)
        return {**found, LINE: cpu(line, 20_000)}

    return measure


def filters(_: Path) -> Round:
    """A filter matched, and the same test by hand on the same bytes."""
    kernel = SimulatedKernel(KERNEL)
    kernel.tracefs.write("kprobe_events", b"p:myopen do_sys_openat2" + ARGUMENTS + b"\n")
    event: Any = kernel.events.event("kprobes", "myopen")
    gates = filter_gates(kernel.profile.number)
    predicate = compile_filter('dfd == -100 && filename ~ "*host*"', tuple(event.filter_fields()), gates=gates)
    path = b"/etc/hostname\0"
    record = struct.pack("<HBBiQiI", event.id, 0, 0, CAT.pid, 0, -100, len(path) << 16 | 24) + path
    if not predicate.match(record, cpu=0, comm=b"cat"):
        raise AssertionError("the filter doesn't match")
    dfd, location = struct.Struct("<i"), struct.Struct("<HH")

    def by_hand() -> bool:
        start, length = location.unpack_from(record, 20)
        return bool(dfd.unpack_from(record, 16)[0] == -100 and b"host" in record[start : start + length])

    return lambda: {
        "filter.match": cpu(lambda: predicate.match(record, cpu=0, comm=b"cat"), 20_000),
        "the test by hand": cpu(by_hand, 20_000),
    }


GROUPS = (
    Group(
        "hits",
        hits,
        (
            Figure("hit.none", "kernel.call() without a probe", LINE),
            Figure("hit.one", "kernel.call() with one probe", LINE, most=12e-6),
            Figure("hit.further", "each further probe on the function", LINE, most=5e-6),
            Figure("hit.arguments", "one probe with two arguments", LINE),
            Figure("hit.rejected", "the same, its filter rejects", LINE),
            Figure("hit.batch", "a call of kernel.calls(), one probe", LINE),
        ),
    ),
    Group("filters", filters, (Figure("filter.match", "match a filter of two terms", "the test by hand"),)),
)
