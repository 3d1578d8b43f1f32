"""The choice of a verb's scheduler: its options, and the scheduler that they select."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from kprobe_lab.scheduling.processes import Processes
from kprobe_lab.scheduling.work import Scheduler

SCHEME = "dask://"


def add_options(verb: argparse.ArgumentParser) -> None:
    """Add `--jobs` and `--scheduler` to a verb."""
    group = verb.add_mutually_exclusive_group()
    group.add_argument(
        *("--jobs", "-j"), type=_count, default=1, metavar="N", help="run this many processes on this machine (1)"
    )
    group.add_argument(
        "--scheduler",
        type=_address,
        default=None,
        metavar="dask://HOST:PORT",
        help="use the workers of this dask.distributed scheduler instead (extra [scale])",
    )


def chosen(options: argparse.Namespace, check: Callable[[], str]) -> Scheduler:
    """Return the scheduler of the options, which must be closed; raise `NotReady`.

    `check` is done where workers of other machines are; see `Cluster`.
    """
    if not options.scheduler:
        return Processes(options.jobs, options.progress)
    from kprobe_lab.scheduling.cluster import Cluster  # needs the extra [scale]

    return Cluster(options.scheduler, check, options.progress)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a number of processes")
    return int(text)


def _address(text: str) -> str:
    address = text.removeprefix(SCHEME)
    if address == text or not re.fullmatch(r"[^/\s]+:\d+", address):
        raise argparse.ArgumentTypeError(f"{text!r} is no dask://HOST:PORT")
    return address
