"""The verb `matrix`: tries the table of features on kernels and simulators, and shows where a simulator differs."""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kprobe_lab.matrix.measure import Column, measure
from kprobe_lab.matrix.page import html, markdown
from kprobe_lab.operations.backends import identity, open_backend, open_simulator
from kprobe_lab.scheduling.choice import add_options, chosen
from kprobe_lab.scheduling.kept import Kept
from kprobe_lab.scheduling.readiness import lacking_for_guests
from kprobe_lab.scheduling.shard import Ended
from kprobe_lab.scheduling.work import ends
from kprobe_vm.errors import MachineError, ShardFailed
from kprobe_vm.host.cache import Cache
from kprobe_vm.host.progress import say
from kprobe_vm.images.kernels import Kernels
from kprobe_vm.images.kerneltree import release_of

# ---- kernels and simulators ----


class Question(NamedTuple):
    """The whole table, tried on one backend: a shard of the matrix."""

    number: int
    spec: str
    is_simulator: bool

    def __str__(self) -> str:
        return f"asking {self.spec}"

    def run(self, kept: Kept) -> Column:
        """Ask it."""
        return self.column(kept.progress)

    def column(self, progress: Callable[[str], None]) -> Column:
        """Return what it answers."""
        progress(str(self))
        with closing(open_backend(self.spec)) as tracefs:
            release, version = identity(tracefs)
            built = re.search(r"Debian (\S+)", version)
            series = re.match(r"\d+\.\d+", release)
            name = series[0] if series else release
            answers = measure(tracefs)
        return Column(name, release, built[1] if built else "", answers, is_simulator=self.is_simulator)


def columns(
    kernels: Sequence[str], simulators: Sequence[str], progress: Callable[[str], None] = lambda line: None
) -> list[Column]:
    """Measure kernels ("6.1"), one guest after the other, and simulators ("sim:6.1").

    A simulator stands beside the kernel of its series, or by itself if that kernel isn't measured.
    """
    return beside({shard.number: shard.column(progress) for shard in questions(kernels, simulators)})


def questions(kernels: Sequence[str], simulators: Sequence[str]) -> list[Question]:
    """Return the shards of a matrix, the slower ones first."""
    specs = [*((f"vm:{kernel},idle", False) for kernel in kernels), *((spec, True) for spec in simulators)]
    return [Question(number, *spec) for number, spec in enumerate(specs)]


def beside(answered: Mapping[int, Column]) -> list[Column]:
    """Return columns in the order of their questions, each kernel's with the answers of its simulator.

    That is a simulator of its release, or else one of its series that no other kernel claims.  If a series occurs
    twice, columns are named by their releases.
    """
    ordered = [answered[number] for number in sorted(answered)]
    kernels = [column for column in ordered if not column.is_simulator]
    left = [column for column in ordered if column.is_simulator]
    simulators = {}
    for same in (_of_release, _of_series):
        for column in kernels:
            like = None if column in simulators else next((one for one in left if same(one, column)), None)
            if like is not None:
                left.remove(like)
                simulators[column] = column._replace(simulated=like.answers)
    shown = [simulators.get(column, column) for column in kernels]
    return [*_told_apart(shown), *(one._replace(name=f"simulator {one.name}") for one in _told_apart(left))]


def _of_release(simulator: Column, kernel: Column) -> bool:
    return simulator.release == kernel.release


def _of_series(simulator: Column, kernel: Column) -> bool:
    return simulator.name == kernel.name


def _told_apart(columns: Sequence[Column]) -> list[Column]:
    """Return the columns; those that share a name are named by their release instead."""
    names = Counter(column.name for column in columns)
    return [column._replace(name=column.release) if names[column.name] > 1 else column for column in columns]


def _offered_simulators(kernels: Sequence[str]) -> list[str]:
    """Return the specs of the simulators that exist for kernels."""
    specs = []
    for kernel in kernels:
        try:
            open_simulator(kernel).close()
        except (ValueError, LookupError):
            continue
        specs.append(f"sim:{kernel}")
    return specs


# ---- the command ----

DEFAULT = ("5.10", "6.1", "6.12", "6.19", "7.2", "7.3")


def add_parser(verbs: Any) -> None:
    """Add the verb `matrix` to the command."""
    verb = verbs.add_parser("matrix", help="ask kernels and simulators which features they have, and write two pages")
    verb.add_argument(
        *("--kernel", "-k"),
        action="append",
        default=[],
        metavar="SERIES",
        help=f"a kernel to ask; may be repeated ({', '.join(DEFAULT)})",
    )
    verb.add_argument(
        "--simulator",
        action="append",
        default=[],
        metavar="SPEC",
        help="a simulator to ask, such as sim:6.1 (those of the kernels, if neither is given)",
    )
    verb.add_argument(
        "--out",
        type=Path,
        default=Path("docs/evidence"),
        metavar="DIR",
        help="where to write kernels.md and kernels.html (docs/evidence)",
    )
    verb.add_argument("--offline", action="store_true", help="leave out kernels that would have to be fetched")
    add_options(verb)
    verb.set_defaults(function=_matrix)


def _cached(series: str) -> bool:
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
        say("kprobe-vm matrix: no kernel and no simulator to ask")
        return 2
    if options.scheduler:
        kernels = [_locked(series) for series in kernels]
    measured = _answered(options, kernels, questions(kernels, simulators))
    options.out.mkdir(parents=True, exist_ok=True)
    for name, page in (("kernels.md", markdown(measured)), ("kernels.html", html(measured))):
        (options.out / name).write_text(page, encoding="utf-8")
        options.progress(f"written: {options.out / name}")
    _print(measured)
    return 0


def _answered(options: argparse.Namespace, kernels: Sequence[str], shards: Sequence[Question]) -> list[Column]:
    """Return the columns of all questions; if one fails, print the others and raise the reason."""
    columns: dict[int, Column] = {}
    failed: Ended | None = None
    with closing(chosen(options, partial(lacking_for_guests, tuple(kernels)))) as scheduler:
        try:
            for end in ends(scheduler, shards, options.progress):
                if end.fault:
                    failed = end
                    continue
                columns[end.number] = end.result
                options.progress(f"{len(columns)} of {len(shards)} answered")
            if failed is not None:
                raise ShardFailed(failed.fault, failed.status)
        except (KeyboardInterrupt, MachineError):
            _print(beside(columns))
            raise
    return beside(columns)


def _print(columns: Sequence[Column]) -> None:
    for column in columns:
        compared = "" if column.simulated is None else f"; the simulator differs in {column.differences}"
        print(f"{column.name}\t{column.release}\t{len(column.answers)} rows{compared}")


def _locked(series: str) -> str:
    """Return the release that is locked for a series, as other machines may lock another one."""
    locked = Kernels(Cache.of(os.environ), lambda line: None).locks.kernel(series)
    return release_of(locked.package) if locked else series
