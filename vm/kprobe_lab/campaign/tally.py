"""The results of one part of a campaign, and of several parts together, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kprobe_lab.campaign.difference import Difference

__all__ = ["Sighting", "Tally"]


class Sighting(NamedTuple):
    """A difference, and where in the campaign it was found: in which shard, after how many of its operations."""

    shard: int
    operation: int
    difference: Difference


class Tally(NamedTuple):
    """How many operations were done, how many differences each area has, and the first of those of a kind.

    `merged` is associative and commutative.
    """

    operations: int = 0
    counts: tuple[tuple[str, int], ...] = ()  # by area
    sightings: tuple[Sighting, ...] = ()  # in the order of shards and operations

    def merged(self, other: Tally) -> Tally:
        """Return what both came to."""
        counts = Counter(dict(self.counts)) + Counter(dict(other.counts))
        return Tally(
            self.operations + other.operations,
            tuple(sorted(counts.items())),
            _first([*self.sightings, *other.sightings]),
        )

    @property
    def total(self) -> int:
        """How many differences there were, those of a kind included."""
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
