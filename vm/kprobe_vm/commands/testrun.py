"""The verb `test`: runs pytest on guests."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from kprobe_vm.errors import ExtraMissing

PLUGIN = "kprobe_sim.pytest_plugin"  # by name: nothing of it is imported here


def add_parser(verbs: Any, source: argparse.ArgumentParser) -> None:
    """Add the verb `test` to the command."""
    usage = "kprobe-vm test KERNEL ... [OPTION ...] -- PYTEST'S ARGUMENTS"
    verb = verbs.add_parser(
        "test", parents=[source], help="run pytest with its fixture `tracefs` on guests", usage=usage
    )
    verb.add_argument(
        "kernels", nargs="+", metavar="KERNEL", help="each test that asks for a tracefs runs on each of them"
    )
    verb.add_argument("--cpus", type=int, default=1, metavar="N", help="each guest's number of CPUs (1)")
    verb.add_argument("--memory", type=int, default=256, metavar="MIB", help="each guest's memory (256)")
    verb.add_argument("--boot", action="store_true", help="boot guests instead of cloning one that has just booted")
    verb.add_argument("--guest-per", choices=["module", "test"], help="how often a new guest is started (module)")
    verb.set_defaults(function=_test)


def _specs(options: argparse.Namespace) -> list[str]:
    words = []
    if options.cpus != 1:
        words.append(f"cpus={options.cpus}")
    if options.memory != 256:
        words.append(f"memory={options.memory}")
    if options.boot:
        words.append("cold")
    return [",".join([f"vm:{kernel}", *words]) for kernel in options.kernels]


def _test(options: argparse.Namespace) -> int:
    if find_spec("pytest") is None:
        raise ExtraMissing("kprobe-vm test needs pytest: pip install 'kprobe-sim[test]'")
    words = [sys.executable, "-m", "pytest"]
    if all(point.value != PLUGIN for point in entry_points(group="pytest11")):  # not installed: a checkout in sys.path
        words += ["-p", PLUGIN]
    for spec in _specs(options):
        words += ["--tracefs", spec]
    if options.guest_per:
        words += ["--guest-per", options.guest_per]
    sys.stdout.flush()
    os.execv(sys.executable, [*words, *options.command])  # signals and the exit status are pytest's own
