"""All available profiles, from every place that is searched for them: `kprobe-sim profiles`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from kprobe_sim.builds import profile
from kprobe_sim.builds.packed import open_sections
from kprobe_sim.builds.portable import directory, installed
from kprobe_sim.builds.portable.cache import is_unpacked
from kprobe_sim.builds.portable.facts import checked
from kprobe_sim.builds.portable.file import MAGIC, ProfileFile
from kprobe_sim.named_tuple import NamedTuple


class StoredProfile(NamedTuple):
    """A profile in one of the directories that are searched; `trouble` is why it can't be used."""

    name: str
    version: str
    size: int  # in bytes
    where: str
    hidden: bool = False  # an earlier directory has one of that name
    trouble: str = ""

    def line(self) -> str:
        """Return its line in the list: name, version, size, where it is, and what is wrong."""
        notes = f"{'; hidden by the one before' * self.hidden}{self.trouble and f': {self.trouble}'}"
        return f"{self.name:<28} {self.version or '-':<9} {self.size / 1e6:4.1f} MB  {self.where}{notes}"


def stored() -> list[StoredProfile]:
    """Return the profiles in all directories by version; of several of a name, the one that it means is first."""
    named: dict[str, list[StoredProfile]] = {}
    for candidate in _everywhere():
        before = named.setdefault(candidate.name, [])
        before.append(candidate._replace(hidden=bool(before)))
    return [known for name in profile.ordered(tuple(named)) for known in named[name]]


def _everywhere() -> Iterator[StoredProfile]:
    for kind, searched in profile.profile_directories():
        for name, path in directory.profiles(searched):
            yield _examined(name, path, f"{path} ({kind})")
    for release in profile.available():
        yield _examined(release, profile.PROFILES / release, "package")
    for distribution, searched in installed.profile_directories():
        for name, path in directory.profiles(searched):
            yield _examined(name, path, distribution)


def _examined(name: str, path: Path, where: str) -> StoredProfile:
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
    """Return the version of a profile.  Raises ValueError for a damaged one."""
    if path.is_dir():
        version: str = checked((path / "profile.json").read_bytes())["version"]
        for file, magic in MAGIC.items():
            if file != "prototypes.bin" or (path / file).exists():
                open_sections(path / file, magic)
        return version
    if path.exists() and not path.is_file():  # reading a pipe would block
        raise ValueError("neither a file nor a directory")
    return (is_unpacked(path, os.environ) or ProfileFile(path.read_bytes()).head).version
