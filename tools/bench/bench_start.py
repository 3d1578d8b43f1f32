"""`make bench` imports it: imports, commands, and a new kernel."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench_figure import Figure, Group, Round, cpu, wall

from kprobe_sim import SimulatedKernel, Task

KERNEL = "6.1"
LINES = "1,000 f-string lines"
CAT = Task(2841, "cat")
# What the script does that pip installs (26.3; that of 23.2 imports re first, which takes longer than all of this).
COMMAND = "import sys; sys.argv = ['kprobe', '--help']; from kprobe.cli import main; sys.exit(main())"
FIRST = """
from kprobe_sim import SimulatedKernel
kernel = SimulatedKernel("6.1")
kernel.tracefs.write("kprobe_events", b"p:myopen do_sys_openat2\\n")
"""


def child(*arguments: str) -> Callable[[], float]:
    """Return what runs a fresh interpreter to its end and returns the CPU time that it took."""

    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run


def first_line(*arguments: str) -> None:
    """Run a fresh interpreter until its first line of output, or its end."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)
        process.kill()


def can_mount() -> bool:
    """Return whether this machine lets the simulator be mounted."""
    command = [sys.executable, "-m", "kprobe_sim", "run", "--", "true"]
    return subprocess.run(command, capture_output=True).returncode == 0


def starts(_: Path) -> Round:
    """What it takes until something can be done: CPU time of a fresh interpreter."""
    runs = {
        "python -c pass": child("-c", "pass"),
        "start.import": child("-c", "import kprobe_sim"),
        "start.help": child("-m", "kprobe", "--help"),
        "start.command": child("-c", COMMAND),
        "start.first_probe": child("-c", FIRST),
    }
    for run in runs.values():
        run()  # writes what Python keeps of the modules
    return lambda: {key: run() for key, run in runs.items()}


def first_lines(_: Path) -> Round:
    """How long a user waits for a command, by the clock on the wall."""
    mounts = can_mount()

    def measure() -> dict[str, float]:
        found = {
            "python -c pass": wall(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)),
            "start.tracer": wall(lambda: first_line("-m", "kprobe", "--tracefs", "sim", "p:do_sys_openat2")),
        }
        if mounts:
            command = [sys.executable, "-m", "kprobe_sim", "run", "--", "true"]
            found["start.run"] = wall(lambda: subprocess.run(command, check=True))
        return found

    return measure


def kernels(_: Path) -> Round:
    """Kernels in a process that had one before, as each test of a suite makes one."""

    def probed() -> None:
        kernel = SimulatedKernel(KERNEL)
        tracefs = kernel.tracefs
        tracefs.write("kprobe_events", b"p:myopen do_sys_openat2\n")
        tracefs.write("events/kprobes/myopen/enable", b"1\n")
        kernel.call("do_sys_openat2", task=CAT, args=(-100, "/etc/hostname"), returns=3)
        if b"myopen: (do_sys_openat2+0x0/" not in tracefs.read("trace"):
            raise AssertionError("the hit isn't in the trace")

    def lines() -> str:
        return "".join(
            [f"{'cat':>16s}-{pid:<7d} [000] ..... {10:5d}.{pid:06d}: myopen: (0x0)\n" for pid in range(1000)]
        )

    def measure() -> dict[str, float]:
        return {
            "kernel.new": cpu(lambda: SimulatedKernel(KERNEL), 20),
            "kernel.probed": cpu(probed, 20),
            LINES: cpu(lines, 20),
        }

    probed()
    return measure


GROUPS = (
    Group(
        "start",
        starts,
        (
            Figure("start.import", "import kprobe_sim", "python -c pass", most_ratio=2),
            Figure("start.help", "python -m kprobe --help", "python -c pass", most_ratio=3),
            Figure("start.command", "kprobe --help, by its script", "python -c pass", most_ratio=1.5),
            Figure("start.first_probe", "python, import, kernel, first definition", "python -c pass"),
        ),
    ),
    Group(
        "first line",
        first_lines,
        (
            Figure("start.tracer", "kprobe --tracefs sim, to the first line", "python -c pass", most_ratio=4),
            Figure("start.run", "kprobe-sim run -- true", "python -c pass", most_ratio=4),
        ),
    ),
    Group(
        "kernel",
        kernels,
        (
            Figure("kernel.new", "a further SimulatedKernel()", LINES),
            Figure("kernel.probed", "the same, define, enable, hit, read trace", LINES, most=1e-3),
        ),
    ),
)
