"""`make bench` imports it: the figures of a benchmark, and the groups in which they are measured."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# one round of a group: what each of its figures and anchors came to, by key
Round = Callable[[], dict[str, float]]


class Figure(NamedTuple):
    """Something that is measured, and the plain thing that it is measured against.

    `key` names it in the history; `anchor` is the key of the plain thing in the same round; `unit` is "s" (of one go),
    "B" or "MB/s".  `most` is what it is to be at most (of a rate: at least), `most_ratio` how many times as long as its
    anchor it may take.
    """

    key: str
    what: str
    anchor: str
    unit: str = "s"
    most: float | None = None
    most_ratio: float | None = None

    def ratio(self, ours: float, anchor: float) -> float:
        """Return how many times as long as its anchor it takes, or as many bytes: less is better, of rates too."""
        return anchor / ours if self.unit == "MB/s" else ours / anchor

    def is_met(self, value: float, ratio: float) -> bool:
        """Return whether it is as good as it is to be."""
        if self.most is not None and (value < self.most if self.unit == "MB/s" else value > self.most):
            return False
        return self.most_ratio is None or ratio <= self.most_ratio

    @property
    def goal(self) -> str:
        """Return what it is to be, in words; "" if nothing was set."""
        if self.most_ratio is not None:
            return f"≤ {self.most_ratio:g} ×"
        return "" if self.most is None else f"{'≥' if self.unit == 'MB/s' else '≤'} {shown(self.most, self.unit)}"


class Group(NamedTuple):
    """Figures that are measured together.

    `prepare` is given a directory for files and returns what measures one round; a figure that this checkout can't have
    (a function that it lacks) is missing from what the round returns.  `is_quick`: `make bench-check` measures it, too.
    """

    name: str
    prepare: Callable[[Path], Round]
    figures: tuple[Figure, ...]
    is_quick: bool = True


def cpu(action: Callable[[], object], times: int = 1) -> float:
    """Return the seconds of this process's CPU time that one go takes.

    It is that of the best of five parts: what else runs on the machine makes CPU time longer, too, and never shorter.
    """
    gc.collect()
    parts = 5 if times >= 10 else 1
    each = times // parts
    found = []
    for _ in range(parts):
        start = time.process_time()
        for _ in range(each):
            action()
        found.append((time.process_time() - start) / each)
    return min(found)


def wall(action: Callable[[], object], times: int = 1) -> float:
    """Return the seconds that one go takes, for what several processes do together."""
    start = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - start) / times


def shown(value: float, unit: str) -> str:
    """Return a value in a unit that suits it."""
    if unit == "MB/s":
        return f"{value:.1f} MB/s" if value < 10 else f"{value:.0f} MB/s"
    sizes = (("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)) if unit == "B" else (("s", 1), ("ms", 1e-3), ("µs", 1e-6))
    for name, size in sizes:
        if value >= size:
            return f"{value / size:.1f} {name}"
    return f"{value:.1f} B" if unit == "B" else f"{value / 1e-9:.0f} ns"
