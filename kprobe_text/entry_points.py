"""Entry points of installed packages, found without importlib.metadata, whose import takes longer than the command.

They are looked for as importlib.metadata does it (the directories of sys.path in order, of distributions with one name
the first), and remembered until one of these directories changes.  Where only importlib.metadata can look, in an
archive or through its own finder, it does.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class EntryPoint:
    """The name of an object, and its module."""

    __slots__ = ("attribute", "module", "name")

    def __init__(self, name: str, value: str) -> None:
        module, _, attribute = value.partition("[")[0].partition(":")
        self.name = name
        self.module = module.strip()
        self.attribute = attribute.strip()

    def load(self) -> Any:
        """Import the object."""
        found: Any = import_module(self.module)
        for name in self.attribute.split(".") if self.attribute else ():
            found = getattr(found, name)
        return found


def find(group: str, name: str) -> EntryPoint | None:
    """Return the first entry point of that group and name, or None."""
    points = (point for known in (_installed_points, _known_to_metadata) for point in known(group))
    return next((point for point in points if point.name == name), None)


def names(group: str) -> set[str]:
    """Return the names of a group's entry points."""
    return {point.name for point in entries(group)}


def entries(group: str) -> list[EntryPoint]:
    """Return a group's entry points."""
    if any(os.path.isfile(directory) for directory in sys.path):  # an archive
        return _known_to_metadata(group)
    first: dict[str, EntryPoint] = {}
    for point in _installed_points(group):
        first.setdefault(point.name, point)
    return list(first.values())


def _installed_points(group: str) -> Iterator[EntryPoint]:
    """Yield a group's entry points in the order of sys.path; of distributions with one name only those of the first."""
    before: list[frozenset[str]] = []
    for directory in sys.path:
        distributions, points = _installed(directory, _changed(directory))
        for (of, _), those in points.items():
            for distribution, point in those if of == group else ():
                if not any(distribution in known for known in before):
                    yield point
        before.append(distributions)


def _known_to_metadata(group: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return [EntryPoint(point.name, point.value) for point in entry_points(group=group)]


def _changed(directory: str) -> int:
    """Return when a directory last changed, in ns; 0 if it doesn't exist."""
    try:
        return os.stat(directory or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=64)
def _installed(
    directory: str, changed: int
) -> tuple[frozenset[str], dict[tuple[str, str], list[tuple[str, EntryPoint]]]]:
    """Return the distributions in a directory, with their entry points by group and name; `changed` is its time."""
    try:
        entries = os.listdir(directory or ".") if changed else []
    except OSError:
        entries = []
    known: set[str] = set()
    points: dict[tuple[str, str], list[tuple[str, EntryPoint]]] = {}
    for entry in entries:
        stem, dot, kind = entry.rpartition(".")
        name = stem.partition("-")[0].lower().replace(".", "_")
        if dot and kind.lower() in ("dist-info", "egg-info") and name not in known:
            known.add(name)
            for group, point in _read(os.path.join(directory, entry, "entry_points.txt")):
                points.setdefault((group, point.name), []).append((name, point))
    return frozenset(known), points


def _read(path: str) -> Iterator[tuple[str, EntryPoint]]:
    """Yield each entry point in a file after its group; nothing if there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError:
        return
    group = ""
    for line in lines:
        if line.startswith("[") and line.endswith("]"):
            group = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield group, EntryPoint(name.strip(), value.strip())
