"""Debian packages for the guest's root: unpacked into an archive that is laid over the ordinary root.

apt resolves the dependencies; no maintainer script runs.  Their versions are settled when a set of packages is first
asked for, and stay until `kprobe-vm update` forgets them.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kprobe_vm.debian import deb
from kprobe_vm.debian.apt import Sourced
from kprobe_vm.debian.archives import Archives
from kprobe_vm.debian.packages import Package
from kprobe_vm.errors import FetchFailed
from kprobe_vm.host.cache import Cache, digest
from kprobe_vm.images.cpio import CpioEntry, archive
from kprobe_vm.images.kernels import BOOKWORM

# Not for a guest: it would only take memory.
LEFT_OUT = re.compile(r"usr/share/(?:doc|man|info|locale|lintian|bug|doc-base)(?:/.*)?")
NAME = re.compile(r"=?[a-z0-9][a-z0-9+.-]+")


def addition(cache: Cache, names: Sequence[str], archives: Archives) -> Path:
    """Return an archive (cpio) of packages with all that they depend on; of "=NAME" comes that package alone.

    Raise `FetchFailed`, `PackageMissing` without apt.
    """
    for name in names:
        if not NAME.fullmatch(name):
            raise FetchFailed(f"{name!r} is no package's name")
    chosen = cache.directory("additions") / f"{digest(*sorted(name.encode() for name in set(names)))[:24]}.json"
    suites = archives.together(BOOKWORM)
    if known := cache.note(chosen):
        sources = [Sourced(url, Package(*row)) for url, row in known]
    else:
        suites.update()
        sources = suites.closure(names)
        cache.write_note(chosen, sources)
    parts = digest(*(source.package.sha256.encode() for source in sources))[:24]

    def build() -> bytes:
        return archive(entries(suites.fetch_all(sources)))

    return cache.file("additions", f"{parts}.cpio", build)


def forget(cache: Cache) -> None:
    """Let the next guests get the newest packages."""
    for chosen in cache.directory("additions").glob("*.json"):
        chosen.unlink(missing_ok=True)


def entries(packages: Iterable[Path]) -> Iterator[CpioEntry]:
    """Yield the files of some packages, directories before what is in them; of equal paths the last package's."""
    by_path: dict[str, CpioEntry] = {}
    for package in packages:
        with deb.members(package) as members:
            for member, content in members:
                path = member.name.removeprefix("./").strip("/")
                if path in ("", ".") or LEFT_OUT.fullmatch(path):
                    continue
                if member.isdir():
                    by_path.setdefault(path, CpioEntry(path, stat.S_IFDIR | member.mode & 0o7777))
                elif member.issym():
                    by_path[path] = CpioEntry(path, stat.S_IFLNK | 0o777, member.linkname.encode())
                elif member.islnk():
                    target = by_path.get(member.linkname.removeprefix("./"))
                    if target is None:
                        raise FetchFailed(f"{package}: {path} is a link to {member.linkname}, which is not there")
                    by_path[path] = target._replace(path=path)
                elif content is not None:
                    by_path[path] = CpioEntry(path, stat.S_IFREG | member.mode & 0o7777, content.read())
    yield from (by_path[path] for path in sorted(by_path))
