"""The sources of packages: Debian's archive through apt, or any archive through its index (`KPROBE_VM_INDEX`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kprobe_vm.debian.apt import AptArchive
from kprobe_vm.debian.packages import Archive, Progress
from kprobe_vm.debian.webarchive import WebArchive
from kprobe_vm.errors import PackageMissing
from kprobe_vm.host.cache import Cache, digest
from kprobe_vm.host.programs import KEYRING


@dataclass(frozen=True, slots=True)
class Archives:
    """The way to reach suites: `index` is "URL" or "URL URL-OF-SECURITY-SUITES", or empty for apt."""

    cache: Cache
    progress: Progress
    index: str = ""
    keyring: Path = Path(KEYRING)

    @classmethod
    def of(cls, environment: Mapping[str, str], cache: Cache, progress: Progress) -> Archives:
        """Return what `KPROBE_VM_INDEX` and `KPROBE_VM_KEYRING` ask for."""
        keyring = Path(environment.get("KPROBE_VM_KEYRING") or KEYRING).expanduser()
        return cls(cache, progress, environment.get("KPROBE_VM_INDEX", "").strip(), keyring)

    @property
    def label(self) -> str:
        """The archive's name in file names, which tells archives apart."""
        return digest(self.index.encode())[:12] if self.index else "apt"

    def suite(self, name: str) -> Archive:
        """Return one suite."""
        if not self.index:
            return AptArchive(self.cache, (name,), self.progress, self.keyring)
        main, _, security = self.index.partition(" ")
        base = (security.strip() or main.rstrip("/") + "-security") if name.endswith("-security") else main
        return WebArchive(self.cache, base.rstrip("/"), name, self.progress, self.keyring)

    def together(self, suites: Sequence[str]) -> AptArchive:
        """Return several suites as one archive that can resolve dependencies; raise `PackageMissing`."""
        if self.index:
            raise PackageMissing("apt-get", "apt", "resolves packages' dependencies, and not with KPROBE_VM_INDEX")
        return AptArchive(self.cache, suites, self.progress, self.keyring)
