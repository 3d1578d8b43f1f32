"""Lists the kernels that the suites offer, and which of them are locked and cached."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from kprobe_vm.debian.lock import Locked
from kprobe_vm.debian.packages import version_key
from kprobe_vm.errors import FetchFailed
from kprobe_vm.images.kernels import SUITES, Kernels, lock_name, series_of, suites_for
from kprobe_vm.images.kerneltree import release_of


class SeriesKernels(NamedTuple):
    """One series, of one flavour; a field is empty if there is no such kernel."""

    series: str
    locked: str  # the version
    cached: tuple[str, ...]  # versions, oldest first
    offered: tuple[Locked, ...]  # oldest first

    @property
    def is_usual(self) -> bool:
        """Whether it has the default flavour, or is used here."""
        return self.series == series_of(self.series) or bool(self.locked or self.cached)

    @property
    def newest(self) -> Locked | None:
        """The kernel that `kprobe-vm update` would lock: the newest in the suites of the series."""
        of_series = [row for row in self.offered if row.suite in suites_for(series_of(self.series)).suites]
        return of_series[-1] if of_series else None


def builds(kernels: Kernels, *, offline: bool) -> list[Locked]:
    """Return all kernels that the suites offer, oldest first; a suite that can't be reached counts as last known."""

    def of(suite: str) -> list[Locked]:
        try:
            return kernels.offered_by(suite, offline=offline)
        except FetchFailed as error:
            kernels.progress(f"{suite}: {error}")
            return kernels.offered_by(suite, offline=True)

    with ThreadPoolExecutor(4) as pool:  # most of the time goes to the network
        found = [row for rows in pool.map(of, SUITES) for row in rows]
    return sorted(found, key=lambda row: version_key(row.package.version))


def survey(kernels: Kernels, offered: Iterable[Locked]) -> list[SeriesKernels]:
    """Return a row for each series that is offered, locked or cached."""
    by_series: dict[str, list[Locked]] = {}
    for row in offered:
        by_series.setdefault(lock_name(release_of(row.package)), []).append(row)
    cached: dict[str, list[str]] = {}
    for kernel in kernels.cached():
        cached.setdefault(lock_name(kernel.release), []).append(kernel.package_version)
    locked = {lock_name(release_of(row.package)) for row in kernels.locks.kernels()}
    names = sorted(
        by_series.keys() | cached.keys() | locked, key=lambda name: [int(part) for part in re.findall(r"\d+", name)]
    )
    return [
        SeriesKernels(
            name,
            held.package.version if (held := kernels.locks.kernel(name)) else "",
            tuple(cached.get(name, ())),
            tuple(by_series.get(name, ())),
        )
        for name in names
    ]


def _cells(row: SeriesKernels) -> Iterator[str]:
    yield row.series
    yield row.locked or "-"
    yield ", ".join(row.cached) or "-"
    if row.newest is None:
        yield "-"
    else:
        yield f"{row.newest.package.version} in {row.newest.suite}; builds: {len(row.offered)}"


def table(rows: Sequence[Sequence[str]], write: Callable[[str], object]) -> None:
    """Write rows in columns; the last one isn't padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        write("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def lines(rows: Iterable[SeriesKernels]) -> list[list[str]]:
    """Return the cells of a table of series, with a head."""
    return [["SERIES", "LOCKED", "CACHED", "OFFERED"], *([*_cells(row)] for row in rows)]
