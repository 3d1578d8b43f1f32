"""A row of the tables of gates: one feature, and the versions that have it."""

from __future__ import annotations

from typing import Any

from kprobe_sim.named_tuple import NamedTuple

Version = tuple[int, int, int]


class Gate(NamedTuple):
    """One feature: (first version, value) pairs in rising order, and where that is known from."""

    name: str
    values: tuple[tuple[Version, Any], ...]
    source: str


START: Version = (0, 0, 0)


def since(name: str, version: Version, source: str) -> Gate:
    return Gate(name, ((START, False), (version, True)), source)
