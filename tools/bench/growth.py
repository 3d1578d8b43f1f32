"""Developers run `make growth` after a change to data structures: cost by number of probes; docs/evidence/growth.md.

    python tools/bench/growth.py            measure (about two minutes), write the page and its picture
    python tools/bench/growth.py --quick    measure up to a tenth of each, and print the table

It varies the number of probes, of instances and of events.  Times are CPU time of this machine and moment, the least
of several rounds; what counts is that the curves are flat.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from bench_figure import cpu
from bench_probes import CAT, FUNCTION, KERNEL, define_many, functions

from kprobe_sim import SimulatedKernel

ROOT = Path(__file__).resolve().parents[2]
PAGE, PICTURE = ROOT / "docs" / "evidence" / "growth.md", ROOT / "docs" / "evidence" / "growth.svg"
ROUNDS, TIMES = 5, 10
PROBES = (1, 10, 100, 1_000, 10_000)
INSTANCES = (1, 10, 100, 1_000)
EVENTS = (1_000, 10_000, 100_000, 1_000_000)
COLOURS = ("#1b6ca8", "#c0392b", "#27864b", "#8e44ad", "#b9770e", "#34495e")
WIDTH, HEIGHT, LEFT, TOP = 640, 190, 60, 34


class Curve(NamedTuple):
    """What an operation costs, in microseconds, by the number of what there is."""

    name: str
    points: list[tuple[int, float]]


class Family(NamedTuple):
    """Curves over the same numbers of something."""

    of: str
    curves: Sequence[Curve]


def least(operation: Callable[[int], object], undo: Callable[[int], object] | None = None) -> float:
    """Return the least CPU time of an operation in microseconds; `undo` isn't counted."""
    rounds, numbers = [], cycle(range(TIMES))
    for _ in range(ROUNDS):
        rounds.append(cpu(lambda: operation(next(numbers)), TIMES) * 1e6)
        if undo:
            repeated(undo)
    return min(rounds)


def once(operation: Callable[[], object], parts: int, change: Callable[[int], object]) -> float:
    """Return the least CPU time of one part of an operation in microseconds; `change` comes before each round."""
    rounds = []
    for number in range(ROUNDS):
        change(TIMES + number)
        rounds.append(cpu(operation) / parts * 1e6)
    return min(rounds)


class Machine:
    """A kernel, and the operations that are measured on it; `number` tells those of one round apart."""

    def __init__(self) -> None:
        self.kernel = SimulatedKernel(KERNEL)
        self.tracefs = self.kernel.tracefs

    def define(self, number: int) -> None:
        line = b"p:more%d do_sys_open dfd=%%di:s32 name=+0(%%si):string\n" % number
        self.tracefs.write("kprobe_events", line)

    def delete(self, number: int) -> None:
        self.tracefs.write("kprobe_events", b"-:more%d\n" % number)

    def switch(self, _: int, instance: str = "") -> None:
        self.tracefs.write(f"{instance}events/kprobes/more0/enable", b"1")
        self.tracefs.write(f"{instance}events/kprobes/more0/enable", b"0")

    def switch_in_one(self, _: int) -> None:
        self.switch(0, "instances/i0/")

    def hit(self, _: int) -> None:
        self.kernel.call(FUNCTION, task=CAT, args=(-100, "/etc/hostname"), returns=3)

    def make(self, number: int) -> None:
        self.tracefs.mkdir(f"instances/more{number}")

    def remove(self, number: int) -> None:
        self.tracefs.rmdir(f"instances/more{number}")

    def enable_one(self) -> None:
        """Have a probe that `hit` hits."""
        self.tracefs.write("kprobe_events", b"p:hit do_sys_openat2 dfd=%di:s32 name=+0(%si):string\n")
        self.tracefs.write("events/kprobes/hit/enable", b"1")


def repeated(operation: Callable[[int], object]) -> None:
    """Do it for each number of a round."""
    for number in range(TIMES):
        operation(number)


def noted(curves: Sequence[Curve], number: int, values: Sequence[float]) -> None:
    """Put one point on each curve."""
    for curve, value in zip(curves, values, strict=True):
        curve.points.append((number, value))


def probes(most: int) -> Family:
    """Measure with probes, each on a function of its own."""
    curves = [Curve(name, []) for name in ("define", "delete", "enable and disable", "hit", "list, per probe")]
    machine = Machine()
    tracefs = machine.tracefs
    others = functions(machine.kernel)
    machine.enable_one()
    there = 1
    for wanted in (number for number in PROBES if number <= most):
        define_many(machine.kernel, others, wanted - there)
        there = wanted
        defining = least(machine.define, machine.delete)
        repeated(machine.define)
        deleting = least(machine.delete, machine.define)
        listing = once(lambda: tracefs.read("kprobe_events"), wanted + TIMES, machine.define)
        for number in range(ROUNDS):
            machine.delete(TIMES + number)
        noted(curves, wanted, (defining, deleting, least(machine.switch), least(machine.hit), listing))
        repeated(machine.delete)
    return Family("probes", curves)


def instances(most: int) -> Family:
    """Measure with instances, in a kernel with a hundred probes."""
    names = ("mkdir", "rmdir", "define", "enable and disable in one", "list, per instance")
    curves = [Curve(name, []) for name in names]
    machine = Machine()
    tracefs = machine.tracefs
    for number in range(100):
        tracefs.write("kprobe_events", b"p:my%d do_sys_openat2\n" % number)
    there = 0
    for wanted in (number for number in INSTANCES if number <= most):
        for number in range(there, wanted):
            tracefs.mkdir(f"instances/i{number}")
        there = wanted
        making = least(machine.make, machine.remove)
        repeated(machine.make)
        removing = least(machine.remove, machine.make)
        repeated(machine.remove)
        defining = least(machine.define, machine.delete)
        repeated(machine.define)
        listing = once(lambda: tracefs.listdir("instances"), wanted, machine.switch)
        noted(curves, wanted, (making, removing, defining, least(machine.switch_in_one), listing))
        repeated(machine.delete)
    return Family("instances", curves)


def events(most: int) -> Family:
    """Measure while events are recorded into a buffer of bounded size, and its trace is read."""
    curves = [Curve(name, []) for name in ("record an event", "read trace, per line")]
    machine = Machine()
    machine.enable_one()
    there = 0
    for wanted in (number for number in EVENTS if number <= most):
        recording = cpu(lambda: machine.hit(0), wanted - there) * 1e6
        there = wanted
        lines = machine.tracefs.read("trace").count(b"\n")
        machine.hit(0)  # what is read next is made anew
        noted(curves, wanted, (recording, cpu(lambda: machine.tracefs.read("trace")) / lines * 1e6))
    return Family("events", curves)


def table(families: Sequence[Family]) -> str:
    """Return the page with the numbers."""
    text = "# Growth\n\nWhat an operation costs with few and with many probes, instances and events, in microseconds "
    text += "of CPU time.\n`tools/bench/growth.py` measures it and writes this page; the times are those of one machine"
    text += "\nand moment, what counts is that they don't grow.\n\n![Cost over the number of probes, instances and "
    text += "events](growth.svg)\n"
    for family in families:
        numbers = [number for number, _ in family.curves[0].points]
        text += f"\n| With so many {family.of} | {' | '.join(f'{number:,}' for number in numbers)} |\n"
        text += "|---" * (len(numbers) + 1) + "|\n"
        for curve in family.curves:
            text += f"| {curve.name} | {' | '.join(f'{value:.3g}' for _, value in curve.points)} |\n"
    text += "\nProbes stand on functions of their own; instances are made in a kernel with a hundred probes; events go "
    text += "into a buffer of the\nrecorded size, which the newest of them fill.\n"
    return text


def picture(families: Sequence[Family]) -> str:
    """Return the curves as SVG, both axes logarithmic: flat means constant."""
    parts = []
    for place, family in enumerate(families):
        parts += _panel(family, TOP + place * (HEIGHT + 70))
    height = TOP + len(families) * (HEIGHT + 70)
    style = "text { font: 12px sans-serif; fill: #222 } .grid { stroke: #ddd } .title { font-weight: bold }"
    width = LEFT + WIDTH + 240
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">',
            f"<style>{style}</style>",
            '<rect width="100%" height="100%" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _panel(family: Family, top: int) -> list[str]:
    values = [value for curve in family.curves for _, value in curve.points]
    numbers = [number for number, _ in family.curves[0].points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    start, end = math.log10(numbers[0]), math.log10(max(numbers[-1], 10 * numbers[0]))

    def x(number: float) -> float:
        return round(LEFT + (math.log10(number) - start) / (end - start) * WIDTH, 1)

    def y(value: float) -> float:
        return round(top + HEIGHT - (math.log10(value) - low) / (high - low) * HEIGHT, 1)

    parts = [f'<text class="title" x="{LEFT}" y="{top - 12}">µs over the number of {family.of}</text>']
    for power in range(low, high + 1):
        at = y(10**power)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{at}" x2="{LEFT + WIDTH}" y2="{at}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{10.0**power:g}</text>')
    for number in numbers:
        parts.append(f'<text x="{x(number)}" y="{top + HEIGHT + 18}" text-anchor="middle">{number:,}</text>')
    for place, (curve, colour) in enumerate(zip(family.curves, COLOURS, strict=False)):
        points = " ".join(f"{x(number)},{y(value)}" for number, value in curve.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        key = top + 14 + 20 * place
        parts.append(f'<rect x="{LEFT + WIDTH + 16}" y="{key - 9}" width="12" height="8" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + WIDTH + 34}" y="{key}">{escape(curve.name)}</text>')
    return parts


def measured(part: int = 1) -> list[Family]:
    """Measure all curves, up to a part of the numbers."""
    return [probes(PROBES[-1] // part), instances(INSTANCES[-1] // part), events(EVENTS[-1] // part)]


def main() -> int:
    """Run the command."""
    if "--quick" in sys.argv:
        print(table(measured(10)))
        return 0
    families = measured()
    PAGE.write_text(table(families), encoding="utf-8")
    PICTURE.write_text(picture(families), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
