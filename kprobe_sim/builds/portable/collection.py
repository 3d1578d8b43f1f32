"""All available profiles, from every place that is searched for them: `kprobe-sim profiles`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kprobe_sim.builds import profile
from kprobe_sim.builds.packed import open_sections
from kprobe_sim.builds.portable import found, installed
from kprobe_sim.builds.portable.cache import is_unpacked
from kprobe_sim.builds.portable.facts import checked
from kprobe_sim.builds.portable.file import MAGIC, ProfileFile
from kprobe_sim.named_tuple import NamedTuple


class StoredProfile(NamedTuple):
    """A profile in one of the places; `trouble` is why it can't be used."""

    name: str
    version: str
    size: int  # in bytes
    where: str
    hidden: bool = False  # an earlier place has one of that name
    trouble: str = ""

    def line(self) -> str:
        """Return what is said of it: name, version, size, where it is, and what is amiss."""
        notes = f"{'; hidden by the one before' * self.hidden}{self.trouble and f': {self.trouble}'}"
        return f"{self.name:<28} {self.version or '-':<9} {self.size / 1e6:4.1f} MB  {self.where}{notes}"


def stored() -> list[StoredProfile]:
    """Return the profiles in all places, by version, of one name first what that name means."""
    named: dict[str, list[StoredProfile]] = {}
    for one in _everywhere():
        before = named.setdefault(one.name, [])
        before.append(one._replace(hidden=bool(before)))
    return [one for name in profile.ordered(tuple(named)) for one in named[name]]


def _everywhere() -> Iterator[StoredProfile]:
    for place, directory in profile.places():
        for name, path in found.profiles(directory):
            yield _looked_at(name, path, f"{path} ({place})")
    for release in profile.available():
        yield _looked_at(release, profile.PROFILES / release, "package")
    for distribution, directory in installed.places():
        for name, path in found.profiles(directory):
            yield _looked_at(name, path, distribution)


def _looked_at(name: str, path: Path, where: str) -> StoredProfile:
    size = 0
    try:
        files = list(path.iterdir()) if path.is_dir() else [path]
        size = sum([file.stat().st_size for file in files])
        return StoredProfile(name, _version(path), size, where)
    except OSError as error:
        return StoredProfile(name, "", size, where, trouble=f"{error.strerror}")
    except ValueError as error:
        return StoredProfile(name, "", size, where, trouble=str(error).removeprefix(f"{path}: "))


def _version(path: Path) -> str:
    """Return the version of a profile.  Raises ValueError for one that isn't sound."""
    if path.is_dir():
        version: str = checked((path / "profile.json").read_bytes())["version"]
        for file, magic in MAGIC.items():
            if file != "prototypes.bin" or (path / file).exists():
                open_sections(path / file, magic)
        return version
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise ValueError("neither a file nor a directory")
    return (is_unpacked(path, os.environ) or ProfileFile(path.read_bytes()).head).version
