"""`make bench` imports it: all groups of figures, in the order of its table."""

from __future__ import annotations

import bench_files
import bench_hits
import bench_memory
import bench_mount
import bench_probes
import bench_start
from bench_figure import Figure, Group

GROUPS: tuple[Group, ...] = (
    *bench_start.GROUPS,
    *bench_probes.GROUPS,
    *bench_hits.GROUPS,
    *bench_files.GROUPS,
    *bench_memory.GROUPS,
    *bench_mount.GROUPS,
)


def named(name: str) -> Group:
    """Return the group of that name."""
    return next(group for group in GROUPS if group.name == name)


def figures() -> dict[str, Figure]:
    """Return all figures by key."""
    return {figure.key: figure for group in GROUPS for figure in group.figures}
