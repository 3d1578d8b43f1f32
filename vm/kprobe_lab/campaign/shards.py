"""The shards of a campaign: some hundred operations each, from their own seed; and the shrinking of differences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import NamedTuple

from kprobe_lab.campaign.campaign import Campaign
from kprobe_lab.campaign.difference import Difference
from kprobe_lab.campaign.tally import Sighting, Tally
from kprobe_lab.operations.reference import Reference
from kprobe_lab.scheduling.kept import Kept
from kprobe_lab.scheduling.readiness import lacking_for_guests

OPERATIONS = 250  # per shard, or a few more, as cases aren't cut.  With another number, a seed gives other operations


class Plan(NamedTuple):
    """What is compared: the simulator of a kernel, and a guest's kernel, or a spec as "sim:6.12"."""

    kernel: str
    against: str

    def reference(self, kept: Kept) -> AbstractContextManager[Reference]:
        """Borrow the side that the simulator is held to, or start it."""
        return kept.borrow(f"compared {self.against}", lambda: Reference(self.against, kept.progress))


class Stretch(NamedTuple):
    """A part of the operations that a seed gives, in an area or in all ("")."""

    plan: Plan
    seed: int
    number: int
    operations: int = OPERATIONS
    area: str = ""

    def __str__(self) -> str:
        first = self.number * OPERATIONS
        return f"operations {first} to {first + self.operations - 1} of seed {self.seed}"

    def run(self, kept: Kept) -> Tally:
        """Run them on both sides."""
        with self.plan.reference(kept) as reference:
            campaign = Campaign(self.plan.kernel, f"{self.seed}/{self.number}", reference)
            sightings = []
            while campaign.operations < self.operations:
                kept.check()
                if (difference := campaign.step(self.area)) is not None:
                    sightings.append(Sighting(self.number, campaign.operations, difference))
            return Tally(campaign.operations, tuple(sorted(campaign.differences.items())), tuple(sightings))


class Shrinking(NamedTuple):
    """A difference to shrink."""

    plan: Plan
    number: int
    difference: Difference

    def __str__(self) -> str:
        return f"shrinking {self.difference.area}: {self.difference.asked}"

    def run(self, kept: Kept) -> Difference:
        """Shrink it."""
        with self.plan.reference(kept) as reference:
            return Campaign(self.plan.kernel, 0, reference).shrunk(self.difference)


def stretches(plan: Plan, seed: int, operations: int = 0, area: str = "") -> Iterator[Stretch]:
    """Yield the parts of a campaign: as many as the operations need, endlessly without a number."""
    for number in itertools.count():
        left = operations - number * OPERATIONS if operations else OPERATIONS
        if left <= 0:
            return
        yield Stretch(plan, seed, number, min(left, OPERATIONS), area)


def lacking(plan: Plan, *, shrinks: bool) -> str:
    """Return what this machine lacks to run the shards of a plan, and how to get it; "" if nothing."""
    if shrinks and find_spec("hypothesis") is None:
        return "it has no hypothesis to shrink differences: pip install 'kprobe-sim[campaign]' there, or --no-shrink"
    return lacking_for_guests(() if plan.against.startswith("sim:") else (plan.against,))
