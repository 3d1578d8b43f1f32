"""A kernel on this machine's disk: unpacked from its package into the cache, with the modules that the agent needs."""

from __future__ import annotations

import json
import re
import struct
import time
from pathlib import Path
from typing import NamedTuple

from kprobe_vm.debian import deb
from kprobe_vm.debian.packages import Package
from kprobe_vm.errors import PackageCorrupt, WrongArchitecture
from kprobe_vm.host import seal
from kprobe_vm.host.cache import digest
from kprobe_vm.images.bzimage import ELF, KernelImage, startable_vmlinux
from kprobe_vm.images.modules import WANTED_MODULES, load_order, unpacked

FACTS = "kernel.json"
SEAL = f"tree{seal.SUFFIX}"
X86_64 = 62  # e_machine, elf(5)
MACHINES = {3: "i386", 40: "arm", 183: "arm64", 21: "powerpc64", 22: "s390x", 243: "riscv", 258: "loongarch"}


class Kernel(NamedTuple):
    """A kernel that is on this machine's disk, ready to start."""

    release: str  # uname -r; "" if the file doesn't say
    series: str  # "6.1"; "" if not known
    image: Path  # what QEMU starts: a vmlinux where unpacking it was possible, else the bzImage
    digest: str  # names the content
    modules: tuple[Path, ...] = ()  # to be loaded in this order
    package_version: str = ""
    symbols: Path | None = None  # System.map, where the package has one


def series_of(release: str) -> str:
    """Return "6.1" of "6.1.0-54-cloud-amd64"; "" if it doesn't look like a release."""
    match = re.match(r"(\d+)\.(\d+)(?![\d])", release)
    return f"{match[1]}.{match[2]}" if match else ""


def release_of(package: Package) -> str:
    """Return the release of the kernel that a package holds, by its name; "" if it holds none."""
    match = re.fullmatch(r"linux-(?:image|binary)-(\d.*)", package.name)
    return match[1] if match else ""


def architecture(image: bytes) -> str:
    """Return which processor a kernel image is for: "x86-64", another's name, "" if it isn't a kernel."""
    if image.startswith(ELF):
        (machine,) = struct.unpack_from("<H" if image[5:6] == b"\1" else ">H", image.ljust(20, b"\0"), 18)
        return "x86-64" if machine == X86_64 else MACHINES.get(machine, f"ELF machine {machine}")
    if image[0x202:0x206] == b"HdrS":
        # XLF_KERNEL_64, from boot protocol 2.12 on
        (protocol,) = struct.unpack_from("<H", image, 0x206)
        return "i386" if protocol >= 0x20C and not image[0x236] & 1 else "x86-64"
    if image[0x38:0x3C] == b"ARM\x64":  # Documentation/arch/arm64/booting.rst
        return "arm64"
    if image[0x38:0x3C] == b"RSC\x05":  # Documentation/arch/riscv/boot-image-header.rst
        return "riscv"
    return ""


def _unpacked(kernel: bytes) -> tuple[str, bytes]:
    """Return what QEMU is to start, and its name: a vmlinux where unpacking it is possible, else the bzImage."""
    try:
        return "vmlinux", startable_vmlinux(kernel)
    except KernelImage:
        return "vmlinuz", kernel


def fill(tree: Path, file: Path, package: Package) -> None:
    """Take the kernel and the modules it needs out of a package; raise `PackageCorrupt` or `WrongArchitecture`."""
    of_package = deb.control(file).get("Architecture", "")
    if of_package not in ("amd64", "all"):
        raise WrongArchitecture(f"{package.name} {package.version} is for {of_package}, not for amd64")
    release = release_of(package)
    modules: dict[str, bytes] = {}
    builtin = ""
    kernel = b""
    for name, data in _needed(file, release):
        base = name.rpartition("/")[2]
        if base.startswith("vmlinuz"):
            kernel = data
        elif base.startswith("System.map"):
            (tree / "System.map").write_bytes(data)
        elif base == "modules.builtin":
            builtin = data.decode()
        elif base.endswith((".ko", ".ko.xz")):
            modules[base.partition(".")[0].replace("-", "_")] = unpacked(base, data)
    if not kernel:
        raise PackageCorrupt(f"{package.name} {package.version} holds no kernel")
    if (processor := architecture(kernel)) != "x86-64":
        raise WrongArchitecture(f"the kernel in {package.name} is for {processor or 'no known processor'}")
    image, content = _unpacked(kernel)
    (tree / image).write_bytes(content)
    present = {Path(line).stem.replace("-", "_") for line in builtin.split()}
    names = load_order(modules, [name for name in WANTED_MODULES if name not in present])
    for name in names:
        (tree / f"{name}.ko").write_bytes(modules[name])
    facts = {
        "release": release,
        "version": package.version,
        "package": package,
        "image": image,
        "digest": digest(content, *(modules[name] for name in names)),
        "modules": [f"{name}.ko" for name in names],
        "sizes": {path.name: path.stat().st_size for path in tree.iterdir()},
        "fetched": int(time.time()),
    }
    (tree / FACTS).write_text(json.dumps(facts, indent=1))
    (tree / SEAL).write_bytes(seal.content(sorted(tree.iterdir())))


def load(tree: Path) -> Kernel:
    """Return the kernel in a tree that is whole."""
    facts = json.loads((tree / FACTS).read_text())
    return Kernel(
        release=facts["release"],
        series=series_of(facts["release"]),
        image=tree / facts["image"],
        digest=facts["digest"],
        modules=tuple(tree / name for name in facts["modules"]),
        package_version=facts["version"],
        symbols=tree / "System.map" if (tree / "System.map").exists() else None,
    )


def is_whole(tree: Path, *, thoroughly: bool = False) -> bool:
    """Return whether nothing of a tree is missing or was changed; `thoroughly`: by reading it."""
    sealed = tree / SEAL
    if not sealed.exists() and not _adopt(tree):
        return False
    try:
        return seal.holds(sealed, thoroughly=thoroughly, renew=sealed.write_bytes) and bool(load(tree).digest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _adopt(tree: Path) -> bool:
    """Seal a tree that was made before there were seals, if it is whole."""
    try:
        facts = json.loads((tree / FACTS).read_text())
        names = [facts["image"], *facts["modules"]]
        if any((tree / name).stat().st_size != size for name, size in facts["sizes"].items()):
            return False
        if digest(*((tree / name).read_bytes() for name in names)) != facts["digest"]:
            return False
        (tree / SEAL).write_bytes(seal.content(sorted(tree.iterdir())))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _needed(file: Path, release: str) -> list[tuple[str, bytes]]:
    files = re.compile(
        rf"\.?/?(boot/(vmlinuz|System\.map)-.*|(usr/)?lib/modules/{re.escape(release)}/"
        r"(vmlinuz|System\.map|modules\.builtin|kernel/drivers/(virtio|char)/[^/]*\.ko(\.xz)?))"
    )
    with deb.members(file) as members:
        return [(member.name, data.read()) for member, data in members if data and files.fullmatch(member.name)]
