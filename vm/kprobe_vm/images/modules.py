"""Modules for a kernel that came alone: found below a directory, unpacked, in the order in which they load."""

from __future__ import annotations

import gzip
import lzma
import re
import subprocess
from pathlib import Path

from kprobe_vm.errors import NoSuchKernel, PackageCorrupt
from kprobe_vm.host import programs
from kprobe_vm.host.cache import Cache, digest
from kprobe_vm.images.kerneltree import WANTED_MODULES, load_order

__all__ = ["modules_below"]

_NAME = re.compile(r"(virtio\w*)\.ko(?:\.(xz|gz|zst))?")  # all that the wanted ones need is called so


def modules_below(directory: Path, release: str, cache: Cache) -> tuple[Path, ...]:
    """Return the modules that a guest needs for its virtio port, as files; () where the kernel has them built in.

    `directory` is that of the modules (/lib/modules/RELEASE), or one that has lib/modules/RELEASE in it.  Raise
    `NoSuchKernel` if there is no such directory, `PackageCorrupt`, `PackageMissing` (zstd).
    """
    places = [directory / "lib/modules" / release, directory / "usr/lib/modules" / release, directory / release]
    place = next((place for place in places if release and place.is_dir()), directory)
    if not place.is_dir():
        raise NoSuchKernel(f"{place}: no directory with a kernel's modules")
    files = {found[1].replace("-", "_"): file for file in place.rglob("virtio*.ko*") if (found := _matched(file))}
    contents = {name: _unpacked(file) for name, file in files.items()}
    return tuple(_kept(cache, name, contents[name]) for name in load_order(contents, list(WANTED_MODULES)))


def _matched(file: Path) -> re.Match[str] | None:
    return _NAME.fullmatch(file.name.replace("-", "_"))


def _unpacked(file: Path) -> bytes:
    data = file.read_bytes()
    try:
        if file.suffix == ".xz":
            return lzma.decompress(data)
        if file.suffix == ".gz":
            return gzip.decompress(data)
        if file.suffix == ".zst":
            command = [programs.find("zstd"), "-dc"]
            return subprocess.run(command, input=data, capture_output=True, timeout=120, check=True).stdout
    except (lzma.LZMAError, OSError, EOFError, subprocess.SubprocessError) as error:
        raise PackageCorrupt(f"{file} can't be unpacked: {error}") from error
    return data


def _kept(cache: Cache, name: str, content: bytes) -> Path:
    return cache.file("modules", f"{name}-{digest(content)[:24]}.ko", lambda: content)
