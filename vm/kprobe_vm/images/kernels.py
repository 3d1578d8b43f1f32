"""The available kernels, which of them a spec means, and where each is fetched from.

A kernel is asked for by series ("6.1": the one that the lock names), by release ("6.1.0-54-cloud-amd64", also without
the flavour), or by a path to a bzImage or vmlinux.  Debian's other flavours are asked for by their names, for a series
too: "6.12-rt-amd64", and "6.12-amd64" for the generic one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kprobe_vm.debian.archives import Archives
from kprobe_vm.debian.lock import NAME, Lock, Locked, Locks
from kprobe_vm.debian.packages import INDEX_AGE, Absent, Package, Progress, version_key
from kprobe_vm.errors import CacheCorrupt, FetchFailed, KernelGone, NoSuchKernel, WrongArchitecture
from kprobe_vm.host.cache import Cache
from kprobe_vm.host.progress import measured
from kprobe_vm.images import kerneltree
from kprobe_vm.images.bzimage import (
    ELF,
    KernelImage,
    boot_header_version,
    check_whole,
    has_pvh_entry,
    startable_vmlinux,
)
from kprobe_vm.images.kerneltree import Kernel, release_of, series_of
from kprobe_vm.images.modules import modules_below, modules_beside

__all__ = ["BOOKWORM", "SERIES", "SUITES", "Kernel", "Kernels", "Series", "lock_name", "series_of", "suites_for"]

FLAVOUR = "cloud-amd64"  # of a kernel whose name says none
# From 6.19 on linux-image is a metapackage of 2 KB and the kernel, 13 MB or more, is in linux-binary.
PACKAGES = r"linux-(?:image|binary)-\d+\.\d+.*-amd64"
SMALLEST = 1_000_000


class Series(NamedTuple):
    """Where a series of Debian kernels lives."""

    name: str
    suites: tuple[str, ...]


BULLSEYE = ("bullseye", "bullseye-security")
BOOKWORM = ("bookworm", "bookworm-updates", "bookworm-security")
TRIXIE = ("trixie", "trixie-updates", "trixie-security")
NEWEST = ("trixie-backports", "forky", "sid", "experimental")
SUITES = (*BULLSEYE, *BOOKWORM, *TRIXIE, *NEWEST)

SERIES = (
    Series("5.10", BULLSEYE),
    Series("6.1", BOOKWORM),
    Series("6.12", TRIXIE),
    Series("6.16", ("trixie-backports",)),
    Series("6.17", ("trixie-backports",)),
    Series("6.18", ("trixie-backports",)),
    Series("6.19", ("trixie-backports",)),
    Series("7.0", ("trixie-backports",)),
    Series("7.1", ("trixie-backports",)),
    Series("7.2", ("trixie-backports", "forky", "sid")),
    Series("7.3", ("sid", "experimental")),
)


def suites_for(name: str) -> Series:
    """Return the row of a series; a series that isn't in the table is looked for in the newest suites."""
    return next((row for row in SERIES if row.name == name), Series(name, NEWEST))


class Kernels:
    """The kernels of Debian's archive and of the cache; `environment` names archive and lock, by default os.environ."""

    def __init__(
        self,
        cache: Cache,
        progress: Progress,
        *,
        locks: Locks | None = None,
        archives: Archives | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        environment = os.environ if environment is None else environment
        self.cache = cache
        self.progress = progress
        self.archives = archives or Archives.of(environment, cache, progress)
        self.locks = locks or Locks.of(environment, cache)

    def get(self, spec: str, modules: Path | None = None) -> Kernel:
        """Return the kernel of a series, a release or a path, fetched if need be; raise `NotReady`.

        A series that no lock names means the newest kernel, which is locked from then on.  `modules` is the
        directory of the modules of a kernel that comes as a path.
        """
        if "/" in spec:
            return self._from_file(Path(spec).expanduser(), modules)
        if modules is not None:
            raise NoSuchKernel(f"{spec} isn't a path (which has a /): modules are for a kernel that comes as a file")
        series = series_of(spec)
        if not series:
            raise NoSuchKernel(
                f"{spec!r} is neither a kernel series (such as 6.1) nor a release nor a path (which has a /)"
            )
        if spec in (series, lock_name(spec)):
            locked = self.locks.kernel(spec)
            if locked is None:
                locked = self.newest(spec)
                self.progress(f"no lock names {spec}: it is {locked.package.version} from now on")
                self.lock({spec: locked})
            return self._unpacked(locked)
        fitting = [row for row in self.locks.kernels() if _fits(row.package, spec)]
        if fitting:
            return self._unpacked(fitting[0])
        cached = [kernel for kernel in self.cached() if kernel.release in (spec, f"{spec}-{FLAVOUR}")]
        return cached[-1] if cached else self._unpacked(self.newest(spec))

    def newest(self, spec: str, *, at_most_old: float = INDEX_AGE) -> Locked:
        """Return the newest kernel that the archive offers for a series or a release; raise `NoSuchKernel`."""
        series, name = series_of(spec), lock_name(spec)
        offers = self.offers(name, at_most_old=at_most_old)
        if not offers:
            suites = ", ".join(suites_for(series).suites)
            raise NoSuchKernel(f"Debian offers no kernel {series} for {flavour_of(spec)} in {suites}")
        fitting = [row for row in offers if spec in (series, name) or _fits(row.package, spec)]
        if not fitting:
            near = nearest(offers, spec, release_of)
            raise KernelGone(f"Debian has no kernel {spec} (any more); the nearest is {release_of(near.package)}")
        return fitting[-1]

    def offers(self, name: str, *, at_most_old: float = INDEX_AGE) -> list[Locked]:
        """Return the kernels of a series ("6.12", "6.12-rt-amd64") that its suites offer, oldest first."""
        suites = suites_for(series_of(name)).suites
        rows = [row for suite in suites for row in self.offered_by(suite, at_most_old=at_most_old)]
        rows = [row for row in rows if lock_name(release_of(row.package)) == name]
        return sorted(rows, key=lambda row: version_key(row.package.version))

    def offered_by(self, suite: str, *, offline: bool = False, at_most_old: float = INDEX_AGE) -> list[Locked]:
        """Return all the kernels that a suite offers, oldest first; none if the archive doesn't have the suite.

        Offline: by the index that was fetched last, however old that is.
        """
        digested = self.cache.directory("offers") / f"{self.archives.label}-{suite}.json"
        known: dict[str, Any] = self.cache.note(digested) or {}
        if known.get("packages") != PACKAGES:
            known = {"packages": PACKAGES, "index": 0, "rows": []}
        if not offline:
            archive = self.archives.suite(suite)
            try:
                index = archive.update(at_most_old=at_most_old)
            except Absent as error:
                self.progress(f"{suite} is left out: {error}")
                return []
            if known["index"] != index:
                rows = sorted(archive.packages(PACKAGES), key=lambda package: version_key(package.version))
                known = {**known, "index": index, "rows": [package for package in rows if package.size >= SMALLEST]}
                self.cache.write_note(digested, known)
        return [Locked(suite, Package(*row)) for row in known["rows"]]

    def cached(self) -> list[Kernel]:
        """Return the kernels that need no network, oldest first."""
        trees = [path.parent for path in self.cache.directory("kernels").glob("*/kernel.json")]
        kernels = [kerneltree.load(tree) for tree in trees if kerneltree.is_whole(tree)]
        return sorted(kernels, key=lambda kernel: version_key(kernel.package_version))

    def drop_damaged(self) -> list[str]:
        """Read everything that is cached, remove what is damaged, and return its names."""
        damaged = []
        for tree in self.cache.directory("kernels").glob("[!.]*"):
            if not kerneltree.is_whole(tree, thoroughly=True):
                shutil.rmtree(tree)
                damaged.append(f"kernels/{tree.name}")
        for file in self.cache.directory("packages").glob("*.deb"):
            if hashlib.sha256(file.read_bytes()).hexdigest() != file.stem:
                file.unlink()
                damaged.append(f"packages/{file.name}")
        return [*damaged, *self.cache.drop_damaged()]

    def lock(self, rows: dict[str, Locked], path: Path | None = None) -> Path:
        """Write kernels into a lock file (the user's own, in the cache, if none is given); return its path."""
        path = path or self.cache.directory(".") / NAME
        with self.cache.lock(NAME):
            lock = Lock.read(path)
            lock.kernels.update(rows)
            self.cache.replace(path, lock.text().encode())
        return path

    def _unpacked(self, locked: Locked) -> Kernel:
        package = locked.package
        name = f"{release_of(package)}-{package.sha256[:12]}"

        def fill(fresh: Path) -> None:
            file = self._fetch(locked)
            with measured(self.progress, f"unpacking {package.name} {package.version}"):
                kerneltree.fill(fresh, file, package)

        damaged = (self.cache.root / "kernels" / name).exists()
        try:
            return kerneltree.load(self.cache.tree("kernels", name, fill, kerneltree.is_whole))
        except FetchFailed as error:
            if damaged:
                raise CacheCorrupt(
                    f"the cached kernel {name} was damaged, and could not be fetched again: {error}"
                ) from error
            raise

    def _fetch(self, locked: Locked) -> Path:
        """Return a locked package, wherever it is by now; raise `KernelGone` if it is nowhere."""
        try:
            return self.archives.suite(locked.suite).fetch(locked.package)
        except Absent:
            pass
        series = lock_name(release_of(locked.package))
        offers = self.offers(series)
        for row in offers:
            if row.package.sha256 == locked.package.sha256:
                return self.archives.suite(row.suite).fetch(row.package)
        what = f"Debian no longer has {locked.package.name} {locked.package.version}"
        if not offers:
            raise KernelGone(f"{what}, and no other kernel {series}")
        near = nearest(offers, locked.package.version, lambda package: package.version).package
        raise KernelGone(
            f"{what}; the nearest is {release_of(near)} ({near.version}): ask for that one, "
            f"or renew the lock: kprobe-vm update {series}"
        )

    def _from_file(self, path: Path, modules: Path | None) -> Kernel:
        image, release = image_of(path)
        name = hashlib.sha256(image).hexdigest()
        if image.startswith(ELF):
            return Kernel(release, series_of(release), path.absolute(), name, self._modules_of(path, release, modules))
        try:
            start = self.cache.file("vmlinux", name, lambda: startable_vmlinux(image))
        except KernelImage as error:
            self.progress(f"{path}: started as it is, which is slower: {error}")
            start = path.absolute()
        return Kernel(release, series_of(release), start, name, self._modules_of(path, release, modules))

    def _modules_of(self, path: Path, release: str, given: Path | None) -> tuple[Path, ...]:
        """Return modules for a kernel that came alone: those given, those beside it, a cached kernel's, this host's."""
        if given is not None:
            return modules_below(given.expanduser(), release, self.cache)
        if (beside := modules_beside(path.absolute(), release)) is not None:
            return modules_below(beside, release, self.cache)
        for kernel in self.cached():
            if kernel.release == release:
                return kernel.modules
        host = Path("/lib/modules", release)
        return modules_below(host, release, self.cache) if release and host.is_dir() else ()


def image_of(path: Path) -> tuple[bytes, str]:
    """Return a kernel's image that QEMU can start, and its release; raise `NotReady` where the file isn't one."""
    try:
        image = path.read_bytes()
    except OSError as error:
        raise NoSuchKernel(f"{path}: {error.strerror}") from error
    if (processor := kerneltree.architecture(image)) not in ("x86-64", ""):
        raise WrongArchitecture(f"{path} is a kernel for {processor}, not for x86-64")
    if image.startswith(ELF):
        match = re.search(rb"Linux version ([\w.+~-]+) \(", image)
        if not has_pvh_entry(image):
            raise NoSuchKernel(
                f"{path} is a vmlinux that QEMU can't start by itself (no PVH entry: CONFIG_PVH, since 5.0): "
                "name the bzImage (arch/x86/boot/bzImage, /boot/vmlinuz-RELEASE) instead"
            )
        return image, match[1].decode() if match else ""
    try:
        release = boot_header_version(image).partition(" ")[0]
    except KernelImage as error:
        raise NoSuchKernel(f"{path} is neither a bzImage nor a vmlinux: {error}") from error
    try:
        check_whole(image)
    except KernelImage as error:
        raise NoSuchKernel(f"{path} is not a complete bzImage: {error}") from error
    return image, release


def flavour_of(release: str) -> str:
    """Return the flavour of a release or a series: "rt-amd64" of "6.12-rt-amd64"."""
    match = re.search(r"-((?:[a-z]+-)?amd64)\Z", release)
    return match[1] if match else FLAVOUR


def lock_name(release: str) -> str:
    """Return the lock's name for the series of a release: "6.12", or "6.12-rt-amd64" of another flavour."""
    series, flavour = series_of(release), flavour_of(release)
    return series if flavour == FLAVOUR else f"{series}-{flavour}"


def _fits(package: Package, release: str) -> bool:
    return release_of(package) in (release, f"{release}-{FLAVOUR}")


def nearest(offers: Sequence[Locked], version: str, of: Callable[[Package], str]) -> Locked:
    """Return the first offer, of some oldest first, that is newer than a version, else the last."""

    def order(text: str) -> tuple[object, ...]:
        return version_key(text.removesuffix(f"-{flavour_of(text)}"))

    newer = (row for row in offers if order(of(row.package)) > order(version))
    return next(newer, offers[-1])
