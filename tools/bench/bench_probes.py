"""`make bench` imports it: probes defined, enabled and deleted beside few and 10,000 others, and instances."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench_figure import Figure, Group, Round, cpu

from kprobe_sim import SimulatedKernel, Task

KERNEL = "6.1"
MANY = 10_000
INSTANCES = 1_000
TIMES = 50
CAT = Task(2841, "cat")
FUNCTION = "do_sys_openat2"


def functions(kernel: SimulatedKernel) -> Iterator[str]:
    """Yield functions that a probe can be on: their names are theirs alone."""
    for symbol in kernel.tracefs.read("available_filter_functions").decode().split("\n"):
        if symbol.replace("_", "").isalnum() and symbol != FUNCTION and "__ftrace_" not in symbol:
            yield symbol


def define_many(kernel: SimulatedKernel, others: Iterator[str], count: int) -> None:
    """Define so many probes, each on the next of the other functions that can be probed."""
    for _ in range(count):
        while not _defined(kernel, next(others)):
            pass


def _defined(kernel: SimulatedKernel, function: str) -> bool:
    try:
        kernel.tracefs.write("kprobe_events", f"p:many/{function} {function}\n".encode())
    except OSError:  # where no probe may be
        return False
    return True


def probes(there: int, scratch: Path) -> Round:
    """What one more probe costs where so many are."""
    kernel = SimulatedKernel(KERNEL)
    tracefs = kernel.tracefs
    define_many(kernel, functions(kernel), there)
    plain = scratch / "definitions"
    at = f"at_{there}" if there else "at_1"

    def append() -> None:
        with open(plain, "ab", buffering=0) as file:
            file.write(b"p:new/p %b\n" % FUNCTION.encode())

    def hit() -> None:
        kernel.call(FUNCTION, task=CAT, args=(-100, "/etc/hostname"), returns=3)

    def measure() -> dict[str, float]:
        numbers = iter(range(TIMES))
        enabled = iter(range(TIMES))
        gone = iter(range(TIMES))
        found = {
            f"define.{at}": cpu(
                lambda: tracefs.write("kprobe_events", b"p:new/p%d do_sys_openat2 dfd=%%di:s32\n" % next(numbers)),
                TIMES,
            ),
            f"enable.{at}": cpu(lambda: tracefs.write(f"events/new/p{next(enabled)}/enable", b"1"), TIMES),
        }
        tracefs.write("events/new/enable", b"0")
        tracefs.write("events/new/p0/enable", b"1")
        hit()
        found[f"hit.{at}"] = cpu(hit, 200)
        tracefs.write("events/new/p0/enable", b"0")
        tracefs.write("trace", b"", truncate=True)
        entries = tracefs.read("kprobe_events").count(b"\n")
        found[f"list.{at}"] = cpu(lambda: tracefs.read("kprobe_events")) / entries
        found[f"delete.{at}"] = cpu(lambda: tracefs.write("kprobe_events", b"-:new/p%d\n" % next(gone)), TIMES)
        found["append to a file"] = cpu(append, 500)
        return found

    return measure


def instances(there: int, scratch: Path) -> Round:
    """What one more instance costs where so many are."""
    plain = scratch / "new"
    tracefs = SimulatedKernel(KERNEL).tracefs
    for number in range(there):
        tracefs.mkdir(f"instances/i{number}")

    def one() -> None:
        tracefs.mkdir("instances/new")
        tracefs.rmdir("instances/new")

    def directory() -> None:
        plain.mkdir()
        plain.rmdir()

    one()
    return lambda: {
        f"instance.at_{there or 1}": cpu(one, 20),
        "mkdir, rmdir of a directory": cpu(directory, 200),
    }


def _figures(at: str, where: str) -> tuple[Figure, ...]:
    anchor = "append to a file"
    return (
        Figure(f"define.{at}", f"define a probe, {where}", anchor),
        Figure(f"enable.{at}", f"enable its event, {where}", anchor),
        Figure(f"hit.{at}", f"a hit, {where}", anchor),
        Figure(f"list.{at}", f"a line of kprobe_events, {where}", anchor),
        Figure(f"delete.{at}", f"delete a probe, {where}", anchor),
    )


GROUPS = (
    Group("probes, few", lambda scratch: probes(0, scratch), _figures("at_1", "no others there")),
    Group(
        "probes, many",
        lambda scratch: probes(MANY, scratch),
        _figures(f"at_{MANY}", f"{MANY:,} others there"),
        is_quick=False,
    ),
    Group(
        "instances, few",
        lambda scratch: instances(0, scratch),
        (Figure("instance.at_1", "mkdir, rmdir of an instance", "mkdir, rmdir of a directory"),),
    ),
    Group(
        "instances, many",
        lambda scratch: instances(INSTANCES, scratch),
        (
            Figure(
                f"instance.at_{INSTANCES}",
                f"the same, {INSTANCES:,} others there",
                "mkdir, rmdir of a directory",
            ),
        ),
        is_quick=False,
    ),
)
