"""`make bench` imports it, and developers of the mount run it alone: the ways to the simulated tracefs, side by side.

Each way does the same: open, write, close and open, read, close of `tracing_on`; a read of a `trace` of ENTRIES
entries, 64 KiB at a time (one read returns a page, as on the kernel).  pyfakefs alone has plain files with the same
text.  All are measured ROUNDS times in turn.  The table has the best time of each, as a multiple of the in-process time
and of the time of pyfakefs alone.  On the mount a C program (bench_expose.c) does the same, and the CPU time of our
server is measured too: where the kernel puts the server, and on one CPU with its caller.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.expose import patched

KERNEL = "6.1"
ROUNDS = 7
ENTRIES = 20_000
TRACING = "/sys/kernel/tracing"
CHUNK = 1 << 16
GOES = {"write": 300, "read": 300, "bulk": 1}
FILES = {"write": "tracing_on", "read": "tracing_on", "bulk": "trace"}
BY_C, SERVED = "mount, C", "our server, CPU"
BESIDE = "our server, CPU, on its caller's"  # without what looking for the next request takes, and other CPUs' waking

Way = dict[str, Callable[[], object]]


def recorded() -> SimulatedKernel:
    """Return a kernel that has a trace to read."""
    kernel = SimulatedKernel(KERNEL)
    tracefs = kernel.tracefs
    tracefs.write("kprobe_events", b"p:myopen do_sys_openat2 dfd=%di:s32 filename=+0(%si):string\n")
    tracefs.write("events/kprobes/myopen/enable", b"1")
    tracefs.write("buffer_size_kb", b"8192")
    for number in range(ENTRIES):
        kernel.call("do_sys_openat2", task=Task(2841, "cat"), args=(-100, f"/etc/hosts.{number % 1000}"), returns=3)
    return kernel


def by_os(module: Any, root: str) -> Way:
    """Return the operations as calls of `os`."""

    def write() -> None:
        descriptor = module.open(f"{root}/tracing_on", os.O_WRONLY)
        module.write(descriptor, b"1")
        module.close(descriptor)

    def read(name: str = "tracing_on", size: int = 4096) -> None:
        descriptor = module.open(f"{root}/{name}", os.O_RDONLY)
        while module.read(descriptor, size):
            pass
        module.close(descriptor)

    return {"write": write, "read": read, "bulk": lambda: read("trace", CHUNK)}


def by_open(opener: Any, root: str) -> Way:
    """Return the operations by open()."""

    def write() -> None:
        with opener(f"{root}/tracing_on", "w") as file:
            file.write("1")

    def read(name: str = "tracing_on") -> None:
        with opener(f"{root}/{name}") as file:
            file.read()

    return {"write": write, "read": read, "bulk": lambda: read("trace")}


def seconds_of(way: Way, what: str) -> float:
    """Return how long one go of an operation takes."""
    action = way[what]
    start = time.perf_counter()
    for _ in range(GOES[what]):
        action()
    return (time.perf_counter() - start) / GOES[what]


def seconds(way: Way) -> dict[str, float]:
    """Return how long one go of each operation takes."""
    return {what: seconds_of(way, what) for what in GOES}


def in_process(kernel: SimulatedKernel) -> dict[str, dict[str, float]]:
    tracefs = kernel.tracefs
    way: Way = {
        "write": lambda: tracefs.write("tracing_on", b"1"),
        "read": lambda: tracefs.read("tracing_on"),
        "bulk": lambda: tracefs.read("trace"),
    }
    return {"in-process": seconds(way)}


def in_patched(kernel: SimulatedKernel) -> dict[str, dict[str, float]]:
    with patched(kernel):
        return {
            "patched, os": seconds(by_os(os, TRACING)),
            "patched, open()": seconds(by_open(open, TRACING)),
        }


def in_pyfakefs(text: str) -> dict[str, dict[str, float]]:
    from pyfakefs.fake_filesystem_unittest import Patcher

    with Patcher() as patcher:
        patcher.fs.create_file("/plain/tracing_on", contents="1\n")
        patcher.fs.create_file("/plain/trace", contents=text)
        modules = patcher.fake_modules
        return {
            "pyfakefs alone, os": seconds(by_os(modules["os"], "/plain")),
            "pyfakefs alone, open()": seconds(by_open(modules["io"].open, "/plain")),
        }


def compiled(scratch: str) -> str:
    """Return the C program; "" where there is no compiler."""
    program = str(Path(scratch, "bench_expose"))
    compiler = shutil.which("cc")
    if compiler is None:
        return ""
    subprocess.run([compiler, "-O2", "-o", program, Path(__file__).with_suffix(".c")], check=True)
    return program


def cpu_of(pid: int) -> float:
    """Return the seconds for which the threads of a process have had a CPU."""
    return sum(int(path.read_text("ascii").split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def threads(pid: int) -> Iterator[int]:
    """Yield the threads of a process and of its children."""
    for path in Path(f"/proc/{pid}/task").iterdir():
        yield int(path.name)
        for child in (path / "children").read_text("ascii").split():
            yield from threads(int(child))


@contextmanager
def on_one_cpu(pid: int) -> Iterator[None]:
    """Keep a process and its children on one CPU."""
    usual = os.sched_getaffinity(pid)
    for thread in threads(pid):
        os.sched_setaffinity(thread, {min(usual)})
    yield
    for thread in threads(pid):
        os.sched_setaffinity(thread, usual)


@contextmanager
def mounted(kernel: SimulatedKernel) -> Iterator[Callable[[], dict[str, dict[str, float]]]]:
    """Give what measures in a child of `kprobe-sim run`, one round at a time."""
    from kprobe_sim.expose.run.run import run

    with tempfile.TemporaryDirectory() as scratch:
        program = compiled(scratch)
        tell, told = Path(scratch, "tell"), Path(scratch, "told")
        for path in (tell, told):
            os.mkfifo(path)
        server = os.fork()
        if not server:
            os._exit(run(kernel, [sys.executable, __file__, "--child", str(tell), str(told), program]))
        with open(tell, "w", encoding="ascii") as out, open(told, encoding="ascii") as into:

            def ask(way: str, what: str) -> float:
                out.write(f"{way}/{what}\n")
                out.flush()
                return float(into.readline())

            def served() -> tuple[dict[str, float], dict[str, float]]:
                taken, served = {}, {}
                for what, times in GOES.items():
                    before = cpu_of(server)
                    taken[what] = ask(BY_C, what)
                    served[what] = (cpu_of(server) - before) / times
                return taken, served

            def measure() -> dict[str, dict[str, float]]:
                found = {way: {what: ask(way, what) for what in GOES} for way in ("mount, os", "mount, open()")}
                if program:
                    found[BY_C], found[SERVED] = served()
                    with on_one_cpu(server):
                        _, found[BESIDE] = served()
                return found

            yield measure
        os.waitpid(server, 0)


def child(tell: str, told: str, program: str) -> None:
    ways = {"mount, os": by_os(os, TRACING), "mount, open()": by_open(open, TRACING)}
    with open(tell, encoding="ascii") as into, open(told, "w", encoding="ascii") as out:
        for line in into:
            way, _, what = line.strip().partition("/")
            if way == BY_C:
                command = [program, f"{TRACING}/{FILES[what]}", what, str(GOES[what])]
                print(subprocess.check_output(command, text=True), end="", file=out, flush=True)
            else:
                print(seconds_of(ways[way], what), file=out, flush=True)


def can_mount() -> bool:
    done = subprocess.run([sys.executable, "-m", "kprobe_sim.cli", "run", "--", "true"], capture_output=True)
    return done.returncode == 0


def measured(kernel: SimulatedKernel) -> dict[str, dict[str, float]]:
    """Return the best of all rounds."""
    text = kernel.tracefs.read("trace").decode()
    ways: list[Callable[[], dict[str, dict[str, float]]]] = [
        lambda: in_process(kernel),
        lambda: in_patched(kernel),
        lambda: in_pyfakefs(text),
    ]
    best: dict[str, dict[str, float]] = {}

    def rounds(ways: list[Callable[[], dict[str, dict[str, float]]]]) -> None:
        for _ in range(ROUNDS):
            for way in ways:
                for name, found in way().items():
                    known = best.setdefault(name, found)
                    best[name] = {what: min(known[what], found[what]) for what in found}

    if can_mount():
        with mounted(kernel) as measure:
            rounds([*ways, measure])
    else:
        rounds(ways)
    return best


def main() -> int:
    kernel = recorded()
    size = len(kernel.tracefs.read("trace"))
    best = measured(kernel)
    print(f"\nWays to the simulator of {KERNEL}, best of {ROUNDS} rounds: microseconds (trace: MB/s),")
    print("how many times as long as in-process, and how many times as long pyfakefs alone takes\n")
    print(f"{'way':<24}{'open+write+close':>26}{'open+read+close':>26}{f'trace, {size >> 10} KiB':>36}")
    base = best["in-process"]
    for name, found in best.items():
        kind = "os" if not name.endswith("open()") else "open()"
        plain = best[f"pyfakefs alone, {kind}"]
        cells = [
            f"{found[what] * 1e6:>11.1f}{found[what] / base[what]:>7.1f}{plain[what] / found[what]:>8.1f}"
            for what in ("write", "read")
        ]
        rate = size / found["bulk"] / 1e6
        cells.append(f"{rate:>14.0f} MB/s{found['bulk'] / base['bulk']:>9.2f}{plain['bulk'] / found['bulk']:>8.2f}")
        print(f"{name:<24}{''.join(cells)}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        sys.exit(main())
