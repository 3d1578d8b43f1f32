"""Kernels from the small archive, by both ways: its index by URL, and apt with the archive as its proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kprobe_vm.debian.archives import Archives
from kprobe_vm.debian.lock import Lock, Locked, Locks
from kprobe_vm.debian.packages import Package
from kprobe_vm.host.cache import Cache
from kprobe_vm.images.kernels import Kernels

from .archive import Key, LocalArchive


@pytest.fixture(scope="session")
def key(requires: Callable[..., None]) -> Iterator[Key]:
    requires("gpg", "gpgv")
    made = Key()
    yield made
    made.forget()


@pytest.fixture
def archive(key: Key) -> Iterator[LocalArchive]:
    served = LocalArchive(key)
    yield served
    served.close()


class Lab:
    """A host of its own: a cache, a lock, an archive; `said` is its progress."""

    def __init__(self, cache: Path, archive: LocalArchive, way: str) -> None:
        self.cache = Cache(cache)
        self.archive = archive
        self.way = way
        self.said: list[str] = []
        self.lock = Lock(None, "")
        self.environment = {"KPROBE_VM_KEYRING": str(archive.key.keyring), "KPROBE_VM_CACHE": str(cache)}
        if way == "web":
            self.environment["KPROBE_VM_INDEX"] = archive.url
        else:
            # the system's sources don't count but for ours, every server is our proxy, and apt tries again at once
            settings = cache.parent / "apt.conf"
            sources = cache.parent / "sources.list"
            sources.write_text("deb http://mirror.example/debian bookworm main\n")
            ours = f'Dir::Etc::sourcelist "{sources}";\nDir::Etc::sourceparts "/dev/null";\n'
            settings.write_text(f'{ours}Acquire::http::Proxy "{archive.base}";\nAcquire::Retries::Delay "false";\n')
            self.environment["APT_CONFIG"] = str(settings)

    @property
    def kernels(self) -> Kernels:
        archives = Archives.of(self.environment, self.cache, self.said.append)
        own = Lock.read(self.cache.root / "kernels.lock")
        return Kernels(self.cache, self.said.append, locks=Locks([own, self.lock]), archives=archives)

    def hold(self, series: str, package: Package) -> None:
        """Lock a series to a package."""
        self.lock.kernels[series] = Locked("bookworm", package)

    def left(self) -> list[str]:
        """The files in the cache that hold something of a package or a kernel, whole or not."""
        names = [path.relative_to(self.cache.root) for path in self.cache.root.rglob("*") if path.is_file()]
        return sorted(
            str(name) for name in names if name.parts[0] in ("packages", "kernels") or "download" in str(name)
        )


@pytest.fixture(params=["web", pytest.param("apt", marks=pytest.mark.requires("apt-get"))])
def lab(request: pytest.FixtureRequest, tmp_path: Path, archive: LocalArchive, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(tmp_path / "cache", archive, request.param)
    for name in ("KPROBE_VM_INDEX", "KPROBE_VM_KEYRING", "KPROBE_VM_LOCK", "APT_CONFIG", "http_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made
