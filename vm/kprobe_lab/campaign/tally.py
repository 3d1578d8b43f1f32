"""The results of one part of a campaign, and of several parts together, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kprobe_lab.campaign.difference import Difference


class Sighting(NamedTuple):
    """A difference, and where the campaign met it: in which shard, after how many of its operations."""

    shard: int
    operation: int
    difference: Difference


class Tally(NamedTuple):
    """The number of operations, the number of differences by area, and the first difference of each kind.

    `merged` is associative and commutative.
    """

    operations: int = 0
    counts: tuple[tuple[str, int], ...] = ()  # by area
    sightings: tuple[Sighting, ...] = ()  # in the order of shards and operations

    def merged(self, other: Tally) -> Tally:
        """Return both tallies as one."""
        counts = Counter(dict(self.counts)) + Counter(dict(other.counts))
        sightings = _first([*self.sightings, *other.sightings])
        return Tally(self.operations + other.operations, tuple(sorted(counts.items())), sightings)

    @property
    def total(self) -> int:
        """The number of differences, including repeated ones of a kind."""
        return sum(count for _, count in self.counts)

    def text(self) -> str:
        """Return the counts in words."""
        return ", ".join(f"{area} {count}" for area, count in self.counts) or "none"


def _first(sightings: Iterable[Sighting]) -> tuple[Sighting, ...]:
    """Return the first difference of each kind, in their order."""
    kinds: dict[tuple[str, ...], Sighting] = {}
    for sighting in sorted(sightings, key=lambda sighting: sighting[:2]):
        kinds.setdefault(sighting.difference.signature(), sighting)
    return tuple(kinds.values())
