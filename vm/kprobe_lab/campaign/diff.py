"""The verb `diff`: a campaign, cut into shards."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from kprobe_lab.campaign.difference import Difference
from kprobe_lab.campaign.regression import write_test
from kprobe_lab.campaign.shards import Plan, Shrinking, Stretch, lacking, stretches
from kprobe_lab.campaign.tally import Tally
from kprobe_lab.generators.cases import AREAS
from kprobe_lab.operations.reference import release_of
from kprobe_lab.scheduling.choice import add_options, chosen
from kprobe_lab.scheduling.shard import Ended
from kprobe_lab.scheduling.work import Scheduler, ends
from kprobe_vm.errors import MachineError
from kprobe_vm.host.progress import Progress, measured, say


class Diff:
    """A running campaign: the merged results of the shards that have ended, in any order."""

    def __init__(self, scheduler: Scheduler, progress: Progress) -> None:
        self.tally = Tally()
        self.shards = 0
        self.failed: list[Ended] = []
        self.smallest: dict[tuple[str, ...], Difference] = {}  # by the signature of the difference as it was found
        self._scheduler = scheduler
        self._progress = progress

    def search(self, shards: Iterator[Stretch]) -> None:
        """Run shards and merge their results."""
        for end in ends(self._scheduler, shards, self._progress):
            if end.fault:
                self.failed.append(end)
                continue
            before = {sighting.difference.signature() for sighting in self.tally.sightings}
            self.shards += 1
            self.tally = self.tally.merged(end.result)
            for sighting in end.result.sightings:
                new = sighting.difference
                if new.signature() not in before:
                    self._progress(f"found in shard {sighting.shard}: {new.area}: {new.asked}")

    def shrink(self, plan: Plan) -> None:
        """Shrink the differences."""
        differences = [each.difference for each in self.tally.sightings if each.difference.answers]
        shards = [Shrinking(plan, number, difference) for number, difference in enumerate(differences)]
        for end in ends(self._scheduler, shards, self._progress):
            if end.fault:  # then the difference is shown as it was found
                self.failed.append(end)
            else:
                self.smallest[differences[end.number].signature()] = end.result

    def differences(self) -> list[Difference]:
        """Return the differences, shrunk where possible; those that became equal count once."""
        kinds: dict[tuple[str, ...], Difference] = {}
        for sighting in self.tally.sightings:
            shown = self.smallest.get(sighting.difference.signature(), sighting.difference)
            kinds.setdefault(shown.signature(), shown)
        return list(kinds.values())

    def state(self) -> str:
        """Return how far it is, in words."""
        words = [f"{self.tally.operations} operations", f"{self.tally.total} differences", self._scheduler.workers()]
        return ", ".join(filter(None, words))


def add_parser(verbs: Any) -> None:
    """Add the verb `diff` to the command."""
    verb = verbs.add_parser("diff", help="run generated operations on a simulator and on a kernel, and compare")
    verb.add_argument(
        "--kernel",
        default="6.1",
        metavar="KERNEL",
        help="the kernel to simulate: a series, a release or a profile's path (6.1)",
    )
    verb.add_argument(
        "--against",
        default="",
        metavar="SPEC",
        help="compare with the guest vm:KERNEL or the simulator sim:KERNEL (a guest with the simulator's release)",
    )
    verb.add_argument("--seconds", type=float, default=60.0, metavar="N", help="end after this many seconds (60)")
    verb.add_argument("--operations", type=int, default=0, metavar="N", help="end after this many operations")
    verb.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed gives the same operations (0)")
    verb.add_argument("--area", choices=list(AREAS), default="", help="only operations of one kind")
    verb.add_argument(
        "--tests", default="differences", metavar="DIR", help="where to write a test of each difference (differences)"
    )
    verb.add_argument("--no-shrink", action="store_true", help="show differences as they were found")
    add_options(verb)
    verb.set_defaults(function=_diff)


def _in_time(shards: Iterator[Stretch], seconds: float) -> Iterator[Stretch]:
    start = time.monotonic()
    for shard in shards:
        if time.monotonic() - start > seconds:
            return
        yield shard


def _diff(options: argparse.Namespace) -> int:
    if not options.no_shrink:
        import kprobe_lab.campaign.shrink  # noqa: F401  # says before a kernel boots what it lacks
    try:
        plan = plan_of(options.kernel, options.against)
    except (ValueError, LookupError) as error:
        say(f"kprobe-vm diff: {error}")
        return 2
    start = time.monotonic()
    status = 0
    with closing(chosen(options, partial(lacking, plan, shrinks=not options.no_shrink))) as scheduler:
        diff = Diff(scheduler, options.progress)
        shards = _in_time(stretches(plan, options.seed, options.operations, options.area), options.seconds)
        try:
            with measured(options.progress, f"comparing sim:{options.kernel} with {plan.against}", diff.state):
                diff.search(shards)
                if not options.no_shrink:
                    diff.shrink(plan)
        except KeyboardInterrupt:
            status = 128 + signal.SIGINT
            options.progress("interrupted: results so far")
        except MachineError as error:
            say(f"kprobe-vm: {error}")
            status = error.exit_status
    if diff.tally.operations or status in (0, 128 + signal.SIGINT):
        _report(diff, options, plan, time.monotonic() - start)
    failed = diff.failed[0].status if diff.failed else 0
    return status or (1 if diff.tally.total else failed)


def plan_of(kernel: str, against: str) -> Plan:
    """Return the two sides of a comparison; raise `ValueError` or `LookupError` if there is no such simulator."""
    release = release_of(kernel)
    kind, _, other = against.partition(":")
    if kind == "vm" and other:
        return Plan(kernel, other)
    if against:
        release_of(against.removeprefix("sim:"))
    return Plan(kernel, against or release)


def _report(diff: Diff, options: argparse.Namespace, plan: Plan, seconds: float) -> None:
    """Print what was found and what failed, and write the tests."""
    for difference in diff.differences():
        print(difference.text())
        if difference.answers and not plan.against.startswith("sim:"):  # a kernel that crashed gave no answers
            test = write_test(difference, plan.kernel, plan.against, options.seed, Path(options.tests))
            print(f"  test:   {test} (to be renamed after the rule that it shows)")
    for end in diff.failed:
        say(f"kprobe-vm: failed: {end.fault}")
    tally = diff.tally
    print(f"{tally.operations} operations in {seconds:.0f} s, seed {options.seed}; differences: {tally.text()}")
