"""Debian packages through the system's apt under a private configuration.

apt's state, cache and sources are our own directories, so it needs no privilege and touches nothing of the system;
the system's own apt settings (proxies, certificates) still hold.  apt itself verifies: the index by its signature, each
package by its hash in the index.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from kprobe_vm.debian.packages import INDEX_AGE, Absent, Package, Progress, parse_stanzas, verified
from kprobe_vm.errors import (
    ArchiveUnreachable,
    BadSignature,
    DiskFull,
    FetchFailed,
    NotReady,
    PackageCorrupt,
    PackageMissing,
)
from kprobe_vm.host import programs
from kprobe_vm.host.cache import Cache, digest
from kprobe_vm.host.progress import bytes_of, measured
from kprobe_vm.host.scratch import scratch

__all__ = ["AptArchive", "Mirrors", "Progress", "Sourced", "failure", "mirrors_of"]

HELPER = "/usr/lib/apt/apt-helper"
CODENAMES = ("bullseye", "bookworm", "trixie", "forky", "sid", "experimental")
ALIASES = ("oldoldstable", "oldstable", "stable", "testing", "unstable")


RELEASES = re.compile(r"'([^']+)/InRelease'")


class Mirrors(NamedTuple):
    """The mirrors of the archive and of its security updates."""

    main: str
    security: str


def mirrors_of(targets: str) -> Mirrors:
    """Return the Debian mirrors among the lines that `apt-get update --print-uris` prints.

    A missing one is assumed beside the other, where Debian's mirrors have it.  Raises `ArchiveUnreachable`.
    """
    mirrors = Mirrors("", "")
    for line in reversed(RELEASES.findall(targets)):  # the first of a kind wins
        archive, _, suite = line.partition("/dists/")
        uri = archive.rstrip("/")
        base = suite.partition("-")[0].partition("/")[0]
        if base not in (*CODENAMES, *ALIASES) or "debian" not in uri:
            continue
        if suite.endswith(("-security", "/updates")):
            mirrors = mirrors._replace(security=uri)
        elif suite == base or suite.endswith("-updates"):
            mirrors = mirrors._replace(main=uri)
    main = mirrors.main or mirrors.security.removesuffix("-security")
    if not main:
        raise ArchiveUnreachable(
            "apt's sources name no Debian archive: give the URL of one with --index or KPROBE_VM_INDEX"
        )
    return Mirrors(main, mirrors.security or f"{main}-security")


# What apt says -> what it means; the first match counts.
COMPLAINTS = (
    (r"No space left on device|Disk quota exceeded", DiskFull),
    (r"Hash Sum mismatch|unexpected size", PackageCorrupt),
    (r"NO_PUBKEY|[A-Z]+SIG\b|(?:not|no longer) signed|[Ss]ignature|not valid yet|is expired", BadSignature),
    (r"  404  |does not have a Release file", Absent),
    (r"resolv|[Cc]ould not connect|[Cc]onnection|[Uu]nable to connect|timed out|[Nn]etwork", ArchiveUnreachable),
)


def failure(what: str, complaint: str) -> NotReady:
    """Return the error that fits apt's complaint, in apt's words."""
    lines = [line.removeprefix("E: ").strip() for line in complaint.splitlines()]
    words = "; ".join(line for line in lines if line and not line.startswith("W: "))
    kind = next((kind for pattern, kind in COMPLAINTS if re.search(pattern, complaint)), FetchFailed)
    return kind(f"{what}: {words}")


class Sourced(NamedTuple):
    """A package and the URL of its file."""

    url: str
    package: Package


class AptArchive:
    """An `Archive` of one Debian suite, or of several together."""

    def __init__(self, cache: Cache, suites: Sequence[str], progress: Progress, keyring: Path) -> None:
        self.cache = cache
        self.suites = tuple(suites)
        self.progress = progress
        self.keyring = keyring
        self.home = cache.directory("apt/" + "+".join(s for s in self.suites))
        self._configured = False
        self._targets = ""

    def update(self, *, at_most_old: float = INDEX_AGE) -> float:
        """Fetch the suites' indexes unless they are younger than `at_most_old` seconds; return when that was."""
        stamp = self.home / "updated"

        def fetched() -> float:
            try:
                return stamp.stat().st_mtime
            except FileNotFoundError:
                return 0.0

        if time.time() - fetched() >= at_most_old:
            with self.cache.lock("apt-" + digest(str(self.home).encode())[:16]):
                if time.time() - fetched() >= at_most_old:
                    self._configure()
                    with measured(self.progress, f"fetching the package index of {', '.join(self.suites)}"):
                        self._apt("apt-get", "update", "-qq", "--error-on=any", deadline=600)
                    stamp.touch()
        return fetched()

    def packages(self, pattern: str) -> list[Package]:
        """Return all versions of all packages whose name matches the regular expression."""
        names = [n for n in self._apt("apt-cache", "pkgnames").split() if re.fullmatch(pattern, n)]
        if not names:
            return []
        return _packages(self._apt("apt-cache", "show", *sorted(names)))

    def fetch(self, package: Package) -> Path:
        """Return the verified package file, from the cache if it is there; raise `FetchFailed`."""

        def download() -> bytes:
            line = f"fetching {package.name} {package.version} ({package.size / 1e6:.1f} MB)"
            with scratch(self.home) as fresh, measured(self.progress, line, lambda: _fetched(fresh, package.size)):
                self._configure()
                mirrors = mirrors_of(self._targets)
                base = mirrors.security if self.suites[0].endswith("-security") else mirrors.main
                file = fresh / "package.deb"
                url = f"{base}/{package.filename}"
                self._apt(HELPER, "download-file", url, str(file), f"SHA256:{package.sha256}", deadline=1800)
                return file.read_bytes()

        return verified(self.cache, package, self.progress, download)

    def closure(self, names: Sequence[str]) -> list[Sourced]:
        """Return packages with their dependencies ("=NAME": that package alone), and the source of each."""
        resolved = [name for name in names if not name.startswith("=")]
        lines = []
        if resolved:
            options = ("--no-install-recommends", "--print-uris", "-qq", "-y")
            lines += self._apt("apt-get", "install", *options, *resolved).splitlines()
        if alone := [name[1:] for name in names if name.startswith("=")]:
            lines += self._apt("apt-get", "download", "--print-uris", "-qq", *alone).splitlines()
        urls = {}
        for line in lines:
            if match := re.match(r"'([^']+)' (\S+)", line):
                name, version, _ = match[2].split("_")
                urls[name, unquote(version)] = match[1]
        shown = self._apt("apt-cache", "show", *(f"{name}={version}" for name, version in urls))
        packages = {(package.name, package.version): package for package in _packages(shown)}
        return [Sourced(url, packages[which]) for which, url in urls.items()]

    def fetch_all(self, sources: Sequence[Sourced]) -> list[Path]:
        """Return the verified files; fetch those that aren't cached at once; raise `FetchFailed`."""
        lacking = [
            source for source in sources if not (self.cache.root / "packages" / f"{source.package.sha256}.deb").exists()
        ]
        with scratch(self.home) as directory:
            files = {source: directory / f"{source.package.sha256}.deb" for source in sources}
            words = [(s.url, str(files[s]), f"SHA256:{s.package.sha256}") for s in lacking]
            if lacking:
                size = sum(source.package.size for source in lacking)
                line = f"fetching {len(lacking)} packages for the guest ({size / 1e6:.1f} MB)"
                with measured(self.progress, line, lambda: _fetched(directory, size)):
                    self._apt(HELPER, "download-file", *(word for row in words for word in row), deadline=1800)
            return [verified(self.cache, source.package, self.progress, files[source].read_bytes) for source in sources]

    def _sources(self, mirrors: Mirrors) -> Iterable[str]:
        for suite in self.suites:
            uri = mirrors.security if suite.endswith("-security") else mirrors.main
            yield (
                f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nArchitectures: amd64\n"
                f"Signed-By: {self.keyring}\n"
            )

    def _configure(self) -> None:
        programs.find("apt-get")
        if not self.keyring.exists():
            raise PackageMissing(str(self.keyring), "debian-archive-keyring", "verifies Debian's packages")
        for name in ("sources", "lists/partial", "archives/partial"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        self._targets = subprocess.run(
            ["apt-get", "update", "--print-uris"],  # fetches nothing, and needs no index to be there
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        ).stdout
        self._write(self.home / "sources/debian.sources", "\n".join(self._sources(mirrors_of(self._targets))))
        self._write(self.home / "status", "")
        hooks = ("APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success")
        settings = {
            "Dir::State": self.home,
            "Dir::State::lists": self.home / "lists",
            "Dir::State::status": self.home / "status",
            "Dir::Cache": self.home,
            "Dir::Cache::archives": self.home / "archives",
            "Dir::Cache::pkgcache": self.home / "pkgcache.bin",
            "Dir::Cache::srcpkgcache": "",
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": self.home / "sources",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "APT::Architecture": "amd64",
            "APT::Sandbox::User": "root",  # only matters to root: otherwise apt drops to a user who can't write here
            "Acquire::Languages": "none",
            "Acquire::PDiffs": "false",
            "Acquire::Retries": "2",
            "Acquire::IndexTargets::deb::Packages::KeepCompressedAs": "lz4",
        }
        lines = [f"#clear {name};" for name in (*hooks, "APT::Architectures", "Acquire::Languages")]
        lines += [f'{name} "{value}";' for name, value in settings.items()]
        self._write(self.home / "apt.conf", "\n".join([*lines, 'APT::Architectures { "amd64"; };', ""]))
        self._configured = True

    def _write(self, path: Path, text: str) -> None:
        if not path.exists() or path.read_text() != text:
            self.cache.replace(path, text.encode())

    def _apt(self, program: str, *arguments: str, deadline: float = 120) -> str:
        if not self._configured:
            self._configure()
        try:
            done = subprocess.run(
                [program, "-c", str(self.home / "apt.conf"), *arguments],
                capture_output=True,
                text=True,
                timeout=deadline,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise FetchFailed(f"{program} {arguments[0]} did not end within {deadline:.0f} s") from error
        if done.returncode:
            raise failure(f"{program.rpartition('/')[2]} {arguments[0]}", done.stderr.strip() or done.stdout.strip())
        return done.stdout


def _fetched(directory: Path, size: int) -> str:
    """Return how far a download into a directory is."""
    done = 0
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        done = sum(entry.stat().st_size for entry in entries if entry.is_file())
    return bytes_of(done, size)


def _packages(shown: str) -> list[Package]:
    return [
        Package(s["Package"], s["Version"], int(s.get("Size", 0)), s.get("SHA256", ""), s.get("Filename", ""))
        for s in parse_stanzas(shown)
        if "Package" in s and "Version" in s
    ]
