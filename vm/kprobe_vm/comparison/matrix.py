"""The table of features, asked of kernels and simulators: what each said, and where a simulator says something else."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kprobe_vm.comparison import matrix_page
from kprobe_vm.comparison.answers import Column, measure
from kprobe_vm.sides.side import open_backend

__all__ = ["add_parser", "columns"]


# ---- kernels and simulators ----


def columns(
    kernels: Sequence[str], simulators: Sequence[str], progress: Callable[[str], None] = lambda line: None
) -> list[Column]:
    """Measure kernels ("6.1"), one guest after the other, and simulators ("sim:6.1").

    A simulator stands beside the kernel of its series, or by itself where that isn't asked for.
    """
    simulated: dict[str, Column] = {}
    for spec in simulators:
        column = _column(spec, progress)
        simulated[column.name] = column._replace(name=f"simulator {column.name}", is_simulator=True)
    found = []
    for kernel in kernels:
        column = _column(f"vm:{kernel},idle", progress)
        beside = simulated.pop(column.name, None)
        found.append(column._replace(simulated=beside.answers if beside else None))
    return [*found, *simulated.values()]


def _column(spec: str, progress: Callable[[str], None]) -> Column:
    progress(f"asking {spec}")
    tracefs = open_backend("kprobe.tracefs", spec)
    try:
        machine = tracefs.machine if hasattr(tracefs, "machine") else tracefs.kernel
        built = re.search(r"Debian (\S+)", str(getattr(machine, "version", "")))
        series = re.match(r"\d+\.\d+", machine.release)
        name = series[0] if series else machine.release
        return Column(name, machine.release, built[1] if built else "", measure(tracefs))
    finally:
        tracefs.close()


def _offered_simulators(kernels: Sequence[str]) -> list[str]:
    """Return specs of the simulators that there are of kernels."""
    found = []
    for kernel in kernels:
        try:
            open_backend("kprobe.tracefs", f"sim:{kernel}").close()
        except (ValueError, LookupError):
            continue
        found.append(f"sim:{kernel}")
    return found


# ---- the command ----

DEFAULT = ("5.10", "6.1", "6.12", "6.19", "7.2", "7.3")


def add_parser(verbs: Any) -> None:
    """Add the verb `matrix` to the command."""
    verb = verbs.add_parser("matrix", help="ask kernels and simulators which features they have, and write two pages")
    verb.add_argument(
        *("--kernel", "-k"), action="append", default=[], metavar="SERIES", help=f"more than once; {', '.join(DEFAULT)}"
    )
    verb.add_argument(
        "--simulator",
        action="append",
        default=[],
        metavar="SPEC",
        help="sim:6.1; those of the kernels if neither is given",
    )
    verb.add_argument(
        "--out", type=Path, default=Path("docs"), metavar="DIR", help="for kernels.md and kernels.html (docs)"
    )
    verb.add_argument("--offline", action="store_true", help="leave out kernels that would have to be fetched")
    verb.set_defaults(function=_matrix)


def _cached(series: str) -> bool:
    from kprobe_vm.host.cache import Cache
    from kprobe_vm.images.kernels import Kernels

    kernels = Kernels(Cache.of(os.environ), lambda line: None)
    locked = kernels.locks.kernel(series)
    return locked is not None and any(
        kernel.package_version == locked.package.version and kernel.series == series for kernel in kernels.cached()
    )


def _matrix(options: argparse.Namespace) -> int:
    kernels = options.kernel or ([] if options.simulator else list(DEFAULT))
    if options.offline:
        absent = [series for series in kernels if not _cached(series)]
        if absent:
            options.progress(f"left out, as not cached: {', '.join(absent)}")
        kernels = [series for series in kernels if series not in absent]
    simulators = options.simulator or _offered_simulators(kernels)
    if not kernels and not simulators:
        print("kprobe-vm matrix: no kernel and no simulator to ask", file=sys.stderr)
        return 2
    found = columns(kernels, simulators, options.progress)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, page in (("kernels.md", matrix_page.markdown(found)), ("kernels.html", matrix_page.html(found))):
        (options.out / name).write_text(page, encoding="utf-8")
        options.progress(f"written: {options.out / name}")
    for column in found:
        beside = "" if column.simulated is None else f"; the simulator differs in {column.differences}"
        print(f"{column.name}\t{column.release}\t{len(column.answers)} rows{beside}")
    return 0
