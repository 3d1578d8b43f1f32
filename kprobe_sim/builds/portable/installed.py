"""Profiles from separate distributions, by the entry points of the group `kprobe.profiles`.

Each names an importable package, whose directory holds profiles as the user's directories do.  The package isn't
imported, so none of its code runs.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

GROUP = "kprobe.profiles"


def profile_directories() -> list[tuple[str, Path]]:
    """Return the directories of all such packages, each after the name and version of its distribution."""
    return list(_directories(tuple(sys.path)))


@lru_cache(maxsize=4)  # asking takes milliseconds
def _directories(path: tuple[str, ...]) -> tuple[tuple[str, Path], ...]:
    """Return the directories that distributions on a path have; `path` is sys.path, a key of the cache."""
    directories = []
    for point in sorted(entry_points(group=GROUP)):
        package = find_spec(point.value)  # None for what is left of a distribution that was removed by hand
        distribution = f"{point.dist.name} {point.dist.version}" if point.dist else point.name
        for directory in (package and package.submodule_search_locations) or ():
            directories.append((distribution, Path(directory)))
    return tuple(directories)
