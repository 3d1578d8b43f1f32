"""Binary packages, and the interface of an archive of them, however it is reached."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from kprobe_vm.errors import CacheCorrupt, FetchFailed, PackageCorrupt
from kprobe_vm.host.cache import Cache
from kprobe_vm.host.progress import Progress

__all__ = ["INDEX_AGE", "Absent", "Archive", "Package", "Progress", "parse_stanzas", "verified", "version_key"]

INDEX_AGE = 6 * 3600.0  # seconds for which a fetched index is recent enough to choose from


class Package(NamedTuple):
    """One version of a binary package, as the archive's index describes it."""

    name: str
    version: str
    size: int
    sha256: str
    filename: str


class Absent(FetchFailed):
    """The archive doesn't have that file, or not any more."""


class Archive(Protocol):
    """The packages of one Debian suite.  Every failure is a `FetchFailed`."""

    def update(self, *, at_most_old: float = INDEX_AGE) -> float:
        """Fetch the index unless it is younger than that (seconds); return when that was, in seconds since 1970."""

    def packages(self, pattern: str) -> list[Package]:
        """Return all versions of all packages of the index whose name matches the regular expression."""

    def fetch(self, package: Package) -> Path:
        """Return the verified file, from the cache if it is there; raise `Absent` if the suite's archive lacks it.

        The index isn't needed for it: the package's path and hash are enough.
        """


def parse_stanzas(text: str) -> list[dict[str, str]]:
    """Return the stanzas of a package index; a continued field keeps its lines."""
    stanzas = []
    for block in re.split(r"\n\s*\n", text.strip()):
        stanza: dict[str, str] = {}
        last = ""
        for line in block.splitlines():
            if line[:1] in " \t" and last:
                stanza[last] += "\n" + line.strip()
            elif ":" in line:
                last, _, value = line.partition(":")
                stanza[last] = value.strip()
        if stanza:
            stanzas.append(stanza)
    return stanzas


def _order(part: str) -> tuple[object, ...]:
    """Return a key that sorts as dpkg does: "~" before the end, letters before other signs, numbers by value."""
    key: list[object] = []
    for text, number in re.findall(r"([^0-9]*)([0-9]*)", part):
        signs = [-1 if sign == "~" else ord(sign) + (0 if sign.isalpha() else 256) for sign in text]
        key.append((*signs, 0))
        key.append(int(number or 0))
    return tuple(key)


def version_key(version: str) -> tuple[object, ...]:
    """Return a sort key for a Debian version (deb-version(7))."""
    epoch, _, rest = version.rpartition(":")
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return (int(epoch or 0), _order(upstream), _order(revision))


def verified(cache: Cache, package: Package, progress: Progress, download: Callable[[], bytes]) -> Path:
    """Return a package's file in the cache if its hash is right, or else what `download` returns.

    Raise `PackageCorrupt` if that isn't right either, `CacheCorrupt` if a damaged file can't be fetched again.
    """

    path = cache.directory("packages") / f"{package.sha256}.deb"

    def is_whole() -> bool:
        return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == package.sha256

    if is_whole():
        return path
    with cache.lock(f"packages-{path.name}"):
        if is_whole():
            return path
        damaged = path.exists()
        if damaged:
            progress(f"the cached {package.name} is damaged: fetching it again")
        try:
            data = download()
            if hashlib.sha256(data).hexdigest() != package.sha256:
                raise PackageCorrupt(
                    f"{package.name} {package.version} is not the file that the index or the lock names"
                )
        except FetchFailed as error:
            if damaged:
                raise CacheCorrupt(f"the cached {path} was damaged, and could not be fetched again: {error}") from error
            raise
        cache.replace(path, data)
    return path
