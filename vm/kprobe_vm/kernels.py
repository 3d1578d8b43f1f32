"""Which kernels there are, and how each is fetched, verified and unpacked.

A kernel is asked for by series ("6.1": the newest that Debian offers), by release ("6.1.0-54-cloud-amd64", also without
the flavour), or by a path to a bzImage or vmlinux.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kprobe_vm import programs
from kprobe_vm.apt import Archive, Package, Progress, version_key
from kprobe_vm.bzimage import ELF, KernelImage, boot_header_version, extract_vmlinux
from kprobe_vm.cache import Cache, digest
from kprobe_vm.errors import FetchFailed, NoSuchKernel

__all__ = ["SERIES", "Kernel", "Kernels", "Series", "series_of", "suites_for"]

FLAVOUR = "cloud-amd64"
# A metapackage of the same name pattern weighs 2 KB, a kernel 13 MB or more.
SMALLEST = 1_000_000
# From the port to the bus: what the agent needs, where Debian builds it as modules.
WANTED_MODULES = ("virtio_pci", "virtio_console")


class Series(NamedTuple):
    """Where a series of Debian kernels lives, and what is different about it.

    `package` is the prefix of the package that holds the kernel: from 6.19 on linux-image is a 2 KB metapackage and the
    kernel is in linux-binary; its path is /boot/vmlinuz-RELEASE up to 6.19 and /usr/lib/modules/RELEASE/vmlinuz from
    7.2 on.
    """

    name: str
    suites: tuple[str, ...]
    package: str = "linux-image"


BULLSEYE = ("bullseye", "bullseye-security")
BOOKWORM = ("bookworm", "bookworm-updates", "bookworm-security")
TRIXIE = ("trixie", "trixie-updates", "trixie-security")

SERIES = (
    Series("5.10", BULLSEYE),
    Series("6.1", BOOKWORM),
    Series("6.12", TRIXIE),
    Series("6.16", ("trixie-backports",)),
    Series("6.17", ("trixie-backports",)),
    Series("6.18", ("trixie-backports",)),
    Series("6.19", ("trixie-backports",), "linux-binary"),
    Series("7.0", ("trixie-backports",), "linux-binary"),
    Series("7.1", ("trixie-backports",), "linux-binary"),
    Series("7.2", ("trixie-backports", "forky", "sid"), "linux-binary"),
    Series("7.3", ("sid", "experimental"), "linux-binary"),
)


class Kernel(NamedTuple):
    """A kernel that is on this machine's disk, ready to start."""

    release: str  # uname -r; "" if the file doesn't tell
    series: str  # "6.1"; "" if not known
    image: Path  # what QEMU starts: a vmlinux where unpacking it was possible, else the bzImage
    digest: str  # names the content
    modules: tuple[Path, ...] = ()  # to be loaded in this order
    package_version: str = ""
    symbols: Path | None = None  # System.map, where the package has one


def series_of(release: str) -> str:
    """Return "6.1" of "6.1.0-54-cloud-amd64"; "" if it doesn't look like a release."""
    found = re.match(r"(\d+)\.(\d+)(?![\d])", release)
    return f"{found[1]}.{found[2]}" if found else ""


def suites_for(name: str) -> Series:
    """Return the row of a series; a series that isn't in the table is looked for in the newest suites."""
    for row in SERIES:
        if row.name == name:
            return row
    return Series(name, ("trixie-backports", "sid", "experimental"), "linux-(?:image|binary)")


def _release_of(package: Package) -> str:
    found = re.fullmatch(r"linux-(?:image|binary)-(\d.*)", package.name)
    return found[1] if found else ""


class Kernels:
    """The kernels of Debian's archive and of the cache."""

    def __init__(self, cache: Cache, progress: Progress) -> None:
        self.cache = cache
        self.progress = progress

    def get(self, spec: str) -> Kernel:
        """Return the kernel of a series, a release or a path, fetched if need be; raise `NotReady`."""
        if "/" in spec:
            return self._from_file(Path(spec).expanduser())
        if not series_of(spec):
            raise NoSuchKernel(f"{spec!r} is no kernel series (as 6.1), no release and no path (which has a /)")
        pin = self.cache.directory("pins") / f"{spec}.json"
        if pin.exists():
            package = Package(*json.loads(pin.read_text()))
            if self._tree(package).exists() or (self.cache.root / "packages" / f"{package.sha256}.deb").exists():
                return self._unpacked(package, None)
        archive, package = self.newest(spec)
        kernel = self._unpacked(package, archive)
        self.cache.replace(pin, json.dumps(package).encode())
        return kernel

    def newest(self, spec: str) -> tuple[Archive, Package]:
        """Return the package of the newest kernel that fits a series or release, and the archive that has it."""
        offers = self.offers(series_of(spec))
        if spec != series_of(spec):
            offers = [(a, p) for a, p in offers if _release_of(p) in (spec, f"{spec}-{FLAVOUR}")]
        if not offers:
            suites = ", ".join(suites_for(series_of(spec)).suites)
            raise NoSuchKernel(f"Debian offers no kernel {spec} for {FLAVOUR} in {suites}")
        return max(offers, key=lambda offer: version_key(offer[1].version))

    def offers(self, series: str) -> list[tuple[Archive, Package]]:
        """Return the kernels of a series that its suites offer, oldest first."""
        row = suites_for(series)
        archive = Archive(self.cache, row.suites, self.progress)
        archive.update()
        pattern = rf"{row.package}-{re.escape(series)}([.\-+~].*)?-{FLAVOUR}"
        found = [package for package in archive.packages(pattern) if package.size >= SMALLEST]
        return [(archive, package) for package in sorted(found, key=lambda package: version_key(package.version))]

    def cached(self) -> list[Kernel]:
        """Return the kernels that need no network, oldest first."""
        trees = sorted(self.cache.directory("kernels").glob("*/kernel.json"))
        kernels = [self._load(path.parent) for path in trees]
        return sorted(kernels, key=lambda kernel: version_key(kernel.package_version))

    def _tree(self, package: Package) -> Path:
        return self.cache.directory("kernels") / f"{_release_of(package)}-{package.sha256[:12]}"

    def _unpacked(self, package: Package, archive: Archive | None) -> Kernel:
        tree = self._tree(package)

        def fill(fresh: Path) -> None:
            source = archive or Archive(self.cache, suites_for(series_of(_release_of(package))).suites, self.progress)
            deb = source.fetch(package)
            self.progress(f"unpacking {package.name} {package.version}")
            _unpack(deb, fresh, package)

        return self._load(self.cache.tree("kernels", tree.name, fill))

    def _load(self, tree: Path) -> Kernel:
        facts = json.loads((tree / "kernel.json").read_text())
        return Kernel(
            release=facts["release"],
            series=series_of(facts["release"]),
            image=tree / facts["image"],
            digest=facts["digest"],
            modules=tuple(tree / name for name in facts["modules"]),
            package_version=facts["version"],
            symbols=tree / "System.map" if (tree / "System.map").exists() else None,
        )

    def _from_file(self, path: Path) -> Kernel:
        try:
            image = path.read_bytes()
        except OSError as error:
            raise NoSuchKernel(f"{path}: {error.strerror}") from error
        name = hashlib.sha256(image).hexdigest()
        if image.startswith(ELF):
            found = re.search(rb"Linux version ([\w.+~-]+) \(", image)
            release = found[1].decode() if found else ""
            return Kernel(release, series_of(release), path.absolute(), name, self._modules_of(release))
        try:
            release = boot_header_version(image).partition(" ")[0]
        except KernelImage as error:
            raise NoSuchKernel(f"{path} is neither a bzImage nor a vmlinux: {error}") from error
        try:
            start = self.cache.file("vmlinux", name, lambda: extract_vmlinux(image))
        except KernelImage as error:
            self.progress(f"{path}: started as it is, which is slower: {error}")
            start = path.absolute()
        return Kernel(release, series_of(release), start, name, self._modules_of(release))

    def _modules_of(self, release: str) -> tuple[Path, ...]:
        """Return modules for a kernel that came alone: those of a cached kernel of that release, else this host's."""
        for kernel in self.cached():
            if kernel.release == release:
                return kernel.modules
        drivers = Path("/lib/modules", release, "kernel/drivers") if release else Path("/nonexistent")
        found = {file.stem: file for place in ("virtio", "char") for file in (drivers / place).glob("*.ko")}
        order = load_order({name: file.read_bytes() for name, file in found.items()}, list(WANTED_MODULES))
        return tuple(found[name] for name in order)


def _unpack(deb: Path, tree: Path, package: Package) -> None:
    """Take the kernel and the modules it needs out of a package."""
    release = _release_of(package)
    modules: dict[str, bytes] = {}
    builtin = ""
    kernel = b""
    for name, data in _members(deb, release):
        base = name.rpartition("/")[2]
        if base.startswith("vmlinuz"):
            kernel = data
        elif base.startswith("System.map"):
            (tree / "System.map").write_bytes(data)
        elif base == "modules.builtin":
            builtin = data.decode()
        elif base.endswith(".ko"):
            modules[base.removesuffix(".ko").replace("-", "_")] = data
    if not kernel:
        raise FetchFailed(f"{package.name} {package.version} holds no kernel")
    try:
        image, content = "vmlinux", extract_vmlinux(kernel)
    except KernelImage:
        image, content = "vmlinuz", kernel
    (tree / image).write_bytes(content)
    present = {Path(line).stem.replace("-", "_") for line in builtin.split()}
    names = load_order(modules, [name for name in WANTED_MODULES if name not in present])
    for name in names:
        (tree / f"{name}.ko").write_bytes(modules[name])
    facts = {
        "release": release,
        "version": package.version,
        "image": image,
        "digest": digest(content, *(modules[name] for name in names)),
        "modules": [f"{name}.ko" for name in names],
        "fetched": int(time.time()),
    }
    (tree / "kernel.json").write_text(json.dumps(facts, indent=1))


def _members(deb: Path, release: str) -> Iterator[tuple[str, bytes]]:
    wanted = re.compile(
        rf"\.?/?(boot/(vmlinuz|System\.map)-.*|(usr/)?lib/modules/{re.escape(release)}/"
        r"(vmlinuz|System\.map|modules\.builtin|kernel/drivers/(virtio|char)/[^/]*\.ko))"
    )
    unpacker = [programs.find("dpkg-deb"), "--fsys-tarfile", str(deb)]
    with subprocess.Popen(unpacker, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for member in archive:
                    if member.isreg() and wanted.fullmatch(member.name):
                        handle = archive.extractfile(member)
                        assert handle is not None
                        yield member.name, handle.read()
        except tarfile.TarError as error:
            process.kill()
            raise FetchFailed(f"{deb}: {error}: {process.stderr.read().decode(errors='replace')}") from error


def load_order(modules: dict[str, bytes], wanted: list[str]) -> list[str]:
    """Return the wanted modules and what they depend on, dependencies first, by the modules' own .modinfo."""
    order: list[str] = []

    def add(name: str) -> None:
        if name in order or name not in modules:  # not there: built in, or absent from this kernel
            return
        found = re.search(rb"\0depends=([^\0]*)\0", modules[name])
        for needed in found[1].decode().split(",") if found else []:
            add(needed.replace("-", "_"))
        order.append(name)

    for name in wanted:
        add(name)
    return order
