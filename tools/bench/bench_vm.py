"""Developers run `make bench-vm` after a change to guests: boot, clone, requests and streams.

    python tools/bench/bench_vm.py [KERNEL]

Each figure is measured by turns with something to compare it with, in one run: medians of five rounds.  Compare the
ratios, which are medians of the rounds' ratios: the times are those of this machine and moment.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from kprobe_vm import Machine
from kprobe_vm.agent.frames import Op
from kprobe_vm.agent.tracefs import GuestTracefs
from kprobe_vm.guest.backend import Spec, VmTracefs
from kprobe_vm.guest.lab import Lab
from kprobe_vm.guest.slots import GuestSlot
from kprobe_vm.host.cache import Cache

ROUNDS = 5
REQUESTS = 500
PIPELINED = 32
MARKER = b"x" * 1000
STREAM = 4_000_000  # bytes
PATH = "tracing_on"
OURS = ("templates", "locks", "console")  # of the cache: what a run has for itself

Figures = dict[str, list[float]]


class Figure(NamedTuple):
    """One figure, and by what it is divided."""

    name: str
    unit: str
    against: str = ""


ROWS = (
    Figure("cold boot to first operation", "s"),
    Figure("cold boot that saves a template", "s", "cold boot to first operation"),
    Figure("clone to first operation", "s", "cold boot to first operation"),
    Figure("next clone, made ready before", "s", "cold boot to first operation"),
    Figure("open, write, close: three requests", "/s"),
    Figure("open, write, close: compound", "/s", "open, write, close: three requests"),
    Figure("open, write, close: 32 under way", "/s", "open, write, close: compound"),
    Figure("round trip to the agent", "/s", "open, write, close: compound"),
    Figure("trace_pipe streamed", "MB/s"),
    Figure("kallsyms read", "MB/s", "trace_pipe streamed"),
    Figure("wake of a blocked read", "ms"),
    Figure("cancel of a blocked read", "ms", "wake of a blocked read"),
)


def cache_without_templates(place: Path) -> Cache:
    """Return the cache with a place of its own for templates."""
    cache = Cache(place)
    for kind in Cache.of(os.environ).root.iterdir():
        if kind.name not in OURS:
            (place / kind.name).symlink_to(kind)
    return cache


def started(make: Callable[[], Machine]) -> tuple[Machine, float]:
    """Return a machine whose first operation is done, and the seconds that took."""
    start = time.perf_counter()
    machine = make()
    machine.start()
    machine.tracefs.read("kprobe_events")
    return machine, time.perf_counter() - start


def starts(series: str, figures: Figures) -> Machine:
    """Measure the starts of one round; return the last machine, running."""
    with tempfile.TemporaryDirectory(prefix="bench-vm-") as place:
        cache = cache_without_templates(Path(place))
        machine, seconds = started(lambda: Machine(series, cache=cache))
        machine.close()
        figures["cold boot to first operation"].append(seconds)
        machine, seconds = started(lambda: Machine(series, cache=cache, template=True))
        if machine.is_clone or machine.faults:
            raise RuntimeError(f"no template was saved: {machine.faults}")
        machine.close()
        figures["cold boot that saves a template"].append(seconds)
        machine, seconds = started(lambda: Machine(series, cache=cache, template=True))
        if not machine.is_clone:
            raise RuntimeError(f"no clone: {machine.faults}")
        figures["clone to first operation"].append(seconds)
        lab = Lab(lambda: Machine(series, cache=cache, template=True))
        tracefs = VmTracefs(machine, Spec(series), lab, GuestSlot(None)).renew()
        time.sleep(0.5)  # the work of a test, in which the next gets ready
        start = time.perf_counter()
        tracefs = tracefs.renew()
        tracefs.read("kprobe_events")
        figures["next clone, made ready before"].append(time.perf_counter() - start)
        lab.close()
        return tracefs.machine


def requests(machine: Machine, figures: Figures) -> None:
    """Measure one write to a file of tracefs, in three forms, and an empty request."""
    tracefs = machine.tracefs

    def three() -> None:
        with tracefs.open(PATH, os.O_WRONLY) as file:
            file.write(b"1")

    def compound() -> None:
        tracefs.write(PATH, b"1")

    name = b"/sys/kernel/tracing/tracing_on\0"
    parts = (os.O_WRONLY.to_bytes(4, "little") + len(name).to_bytes(4, "little"), name, b"1")

    def pipelined() -> None:
        sent = [machine.channel.send(Op.WRITE_FILE, *parts) for _ in range(PIPELINED)]
        for request in sent:
            if not machine.channel.wait(request, 30) or request.result != 1:
                raise RuntimeError(f"a write gave {request.result}")

    for label, action, at_once in (
        ("open, write, close: three requests", three, 1),
        ("open, write, close: compound", compound, 1),
        ("open, write, close: 32 under way", pipelined, PIPELINED),
        ("round trip to the agent", tracefs.ping, 1),
    ):
        for _ in range(20):  # an emulated guest translates its code first
            action()
        turns = REQUESTS // at_once
        start = time.perf_counter()
        for _ in range(turns):
            action()
        figures[label].append(turns * at_once / (time.perf_counter() - start))


def stream(machine: Machine, figures: Figures) -> None:
    """Measure how fast trace_pipe comes that was full, and a large file."""
    tracefs = machine.tracefs
    tracefs.write("buffer_size_kb", b"16384")
    script = "i=0; while [ $i -lt 200 ]; do cat /tmp/lines; i=$((i+1)); done >/sys/kernel/tracing/trace_marker"
    machine.put("tmp/lines", MARKER * 20)
    received = 0
    while True:
        machine.run(["sh", "-c", script], check=True)
        if int(tracefs.read("per_cpu/cpu0/stats").split(b"bytes: ")[1].split()[0]) >= STREAM:
            break
    with tracefs.stream("trace_pipe") as pipe:
        start = time.perf_counter()
        while received < STREAM:
            received += len(pipe.read(timeout=30))
        figures["trace_pipe streamed"].append(received / 1e6 / (time.perf_counter() - start))
    tracefs.write("trace", b"", truncate=True)
    files: GuestTracefs = machine.files
    start = time.perf_counter()
    size = len(files.read("proc/kallsyms"))
    figures["kallsyms read"].append(size / 1e6 / (time.perf_counter() - start))


def latencies(machine: Machine, figures: Figures) -> None:
    """Measure what a reader that is blocked in trace_pipe waits for an event, and to be cancelled."""
    tracefs = machine.tracefs
    wakes, cancels = [], []
    for _ in range(5):
        with tracefs.stream("trace_pipe") as pipe:
            arrived: list[float] = []
            reader = threading.Thread(target=lambda pipe=pipe, arrived=arrived: (pipe.read(), arrived.append(now())))
            reader.start()
            time.sleep(0.05)
            start = now()
            tracefs.write("trace_marker", b"wake\n")
            reader.join()
            wakes.append(arrived[0] - start)
        with tracefs.open("trace_pipe", os.O_RDONLY) as file:
            ended: list[float] = []

            def read(file=file, ended=ended) -> None:  # type: ignore[no-untyped-def]
                try:
                    file.read(4096)
                except InterruptedError:
                    ended.append(now())

            reader = threading.Thread(target=read)
            reader.start()
            time.sleep(0.05)
            start = now()
            file.interrupt()
            reader.join()
            cancels.append(ended[0] - start)
    figures["wake of a blocked read"].append(median(wakes) * 1000)
    figures["cancel of a blocked read"].append(median(cancels) * 1000)


def now() -> float:
    return time.perf_counter()


def main() -> int:
    series = sys.argv[1] if len(sys.argv) > 1 else "6.1"
    with Machine(series) as machine:  # what must be fetched or built is, and is in the host's memory
        release, accelerator = machine.release, machine.accelerator
    figures: Figures = {row.name: [] for row in ROWS}
    before = os.getloadavg()[0]
    for turn in range(ROUNDS):
        print(f"round {turn + 1} of {ROUNDS}", file=sys.stderr)
        machine = starts(series, figures)
        try:
            requests(machine, figures)
            latencies(machine, figures)
            stream(machine, figures)
        finally:
            machine.close()
    load = f"load {before:.1f} to {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"
    print(f"{release} on {accelerator}, medians of {ROUNDS} rounds, {load}\n")
    print(f"{'what':<36}{'median':>10}{'min':>10}{'max':>10}       ratio")
    for row in ROWS:
        values = figures[row.name]
        line = f"{row.name:<36}" + "".join(
            f"{number(value):>10}" for value in (median(values), min(values), max(values))
        )
        line += f" {row.unit:<5}"
        if row.against:
            ratio = median(one / other for one, other in zip(values, figures[row.against], strict=True))
            written = f"1/{1 / ratio:.1f}" if ratio < 0.5 else f"{ratio:.2f}"
            line += f"{written:>7} of {row.against}"
        print(line.rstrip())
    return 0


def number(value: float) -> str:
    """Return a value with three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(main())
