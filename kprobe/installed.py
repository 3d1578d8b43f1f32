"""Entry points of what is installed, found without importlib.metadata, whose import costs more than the whole command.

They are looked for as importlib.metadata does it (the directories of sys.path in order, of distributions with one name
the first), and remembered until one of these directories changes.  Where only importlib.metadata can look, in an
archive or through a finder of its own, it does.
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
    """The name of an object, and where it is."""

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
    for point in _directories_points(group):
        if point.name == name:
            return point
    return next((point for point in _all_points(group) if point.name == name), None)


def names(group: str) -> set[str]:
    """Return the names of a group's entry points."""
    return {point.name for point in _all_points(group)}


def _all_points(group: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    return [EntryPoint(point.name, point.value) for point in entry_points(group=group)]


def _directories_points(group: str) -> tuple[EntryPoint, ...]:
    return _points(group, tuple((path, _changed(path)) for path in sys.path))


def _changed(path: str) -> int:
    """Return when a directory was last changed in ns, 0 if it isn't there."""
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=16)
def _points(group: str, path: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """Return a group's entry points in these directories, each with the time when it was changed."""
    found: list[EntryPoint] = []
    known: set[str] = set()
    for directory, _ in path:
        try:
            entries = os.listdir(directory or ".")
        except OSError:
            continue
        for entry in entries:
            stem, dot, kind = entry.rpartition(".")
            distribution = stem.partition("-")[0].lower().replace(".", "_")
            if dot and kind.lower() in ("dist-info", "egg-info") and distribution not in known:
                known.add(distribution)
                found += _read(os.path.join(directory, entry, "entry_points.txt"), group)
    return tuple(found)


def _read(path: str, group: str) -> Iterator[EntryPoint]:
    """Yield the entry points of a group in a file; none if there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError:
        return
    section = ""
    for line in lines:
        if line.startswith("[") and line.endswith("]"):
            section = line.strip("[]")
        elif section == group and line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            if equals:
                yield EntryPoint(name.strip(), value.strip())
