"""The modules that a guest's agent needs, unpacked, in the order in which they load."""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
from pathlib import Path

from kprobe_vm.errors import NoSuchKernel, PackageCorrupt
from kprobe_vm.host import programs
from kprobe_vm.host.cache import Cache, digest

# From the port to the bus: what the agent needs, where Debian builds it as modules.
WANTED_MODULES = ("virtio_pci", "virtio_console")

_NAME = re.compile(r"(virtio\w*)\.ko(?:\.(xz|gz|zst))?")  # what those modules need has such names


def modules_beside(kernel: Path, release: str) -> Path | None:
    """Return the modules' directory near a kernel's file: modules/ or lib/modules/RELEASE, beside it or one level up.

    An unpacked package, which has the kernel in boot/, has it one level up.  None if there is none.
    """
    beside = kernel.parent / "modules"
    if beside.is_dir():
        return beside
    for parent in (kernel.parent, kernel.parent.parent):
        for lib in ("lib/modules", "usr/lib/modules"):
            if release and (place := parent / lib / release).is_dir():
                return place
    return None


def modules_below(directory: Path, release: str, cache: Cache) -> tuple[Path, ...]:
    """Return the modules that a guest needs for its virtio port, as files; () where the kernel has them built in.

    `directory` is that of the modules (/lib/modules/RELEASE), or one that has lib/modules/RELEASE in it.  Raise
    `NoSuchKernel` if there is no such directory, `PackageCorrupt`, `PackageMissing` (zstd).
    """
    places = [directory / "lib/modules" / release, directory / "usr/lib/modules" / release, directory / release]
    root = next((root for root in places if release and root.is_dir()), directory)
    if not root.is_dir():
        raise NoSuchKernel(f"{root}: no directory with a kernel's modules")
    files = {found[1].replace("-", "_"): file for file in root.rglob("virtio*.ko*") if (found := _matched(file))}
    contents = {name: unpacked(str(file), file.read_bytes()) for name, file in files.items()}
    return tuple(_kept(cache, name, contents[name]) for name in load_order(contents, list(WANTED_MODULES)))


def load_order(modules: dict[str, bytes], needed: list[str]) -> list[str]:
    """Return the needed modules and what they depend on, dependencies first, by the modules' own .modinfo."""
    order: list[str] = []

    def add(name: str) -> None:
        if name in order or name not in modules:  # not there: built in, or absent from this kernel
            return
        match = re.search(rb"\0depends=([^\0]*)\0", modules[name])
        for needed in match[1].decode().split(",") if match else []:
            add(needed.replace("-", "_"))
        order.append(name)

    for name in needed:
        add(name)
    return order


def _matched(file: Path) -> re.Match[str] | None:
    return _NAME.fullmatch(file.name.replace("-", "_"))


def unpacked(name: str, data: bytes) -> bytes:
    """Return what a module's file of that name holds; raise `PackageCorrupt`, `PackageMissing` (zstd)."""
    try:
        if name.endswith(".xz"):
            return lzma.decompress(data)
        if name.endswith(".gz"):
            return gzip.decompress(data)
        if name.endswith(".zst"):
            command = [programs.find("zstd"), "-dc"]
            return subprocess.run(command, input=data, capture_output=True, timeout=120, check=True).stdout
    except (lzma.LZMAError, OSError, EOFError, subprocess.SubprocessError) as error:
        raise PackageCorrupt(f"{name} can't be unpacked: {error}") from error
    return data


def _kept(cache: Cache, name: str, content: bytes) -> Path:
    return cache.file("modules", f"{name}-{digest(content)[:24]}.ko", lambda: content)
