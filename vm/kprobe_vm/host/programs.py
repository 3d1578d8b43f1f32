"""The host's programs that machines need: the package of each, and the message if one is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

from kprobe_vm.errors import CompilerMissing, PackageMissing, QemuMissing, QemuTooOld

QEMU = "qemu-system-x86_64"
QEMU_OLDEST = (5, 2)  # Debian bullseye's; -chardev socket,fd= of a connected socket and virtio-serial are older
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
PYTHON = {"pexpect": "pexpect", "qemu.qmp": "qemu"}  # a distribution's name -> its package


class Program(NamedTuple):
    """A program, the Debian packages that have it, and its purpose."""

    name: str
    packages: str
    purpose: str


REQUIRED = (
    Program(QEMU, "qemu-system-x86", "runs the guest kernels"),
    Program("cc", "gcc libc6-dev", "compiles the guest's agent"),
    Program("apt-get", "apt", "fetches Debian's kernels; elsewhere set KPROBE_VM_INDEX to an archive's URL"),
    Program("setpriv", "util-linux", "ends QEMU when its parent dies"),
)
OPTIONAL = (
    Program("lz4", "lz4", "unpacks kernels up to 6.6, which then start faster"),
    Program("gpgv", "gpgv", "verifies an archive's index"),
    Program("zstd", "zstd", "unpacks kernels from 6.7 on, which then start faster"),
)


def find(name: str) -> str:
    """Return the path of a program of the table; raise `PackageMissing` with one line that says what to install."""
    if path := shutil.which(name):
        return path
    program = next(program for program in REQUIRED + OPTIONAL if program.name == name)
    if name == QEMU:
        raise QemuMissing
    if name == "cc":
        raise CompilerMissing
    raise PackageMissing(*program)


def missing(environment: Mapping[str, str]) -> list[Program]:
    """Return the programs that the host lacks to fetch and start kernels."""
    programs = [program for program in REQUIRED if not shutil.which(program.name)]
    if environment.get("KPROBE_VM_INDEX"):
        programs = [program for program in programs if program.name != "apt-get"]
        programs += [program for program in OPTIONAL if program.name == "gpgv" and not shutil.which(program.name)]
    if not environment.get("KPROBE_VM_KEYRING") and not os.path.exists(KEYRING):
        programs.append(Program("Debian's keyring", "debian-archive-keyring", "verifies Debian's packages"))
    if (compiler := shutil.which("cc")) and not _has_static_libc(compiler):
        programs.append(Program("libc.a", "libc6-dev", "is in the guest's agent"))
    return programs


def missing_python() -> list[str]:
    """Return which Python packages of the extra [vm] are not installed."""
    return [name for name, package in PYTHON.items() if importlib.util.find_spec(package) is None]


def _has_static_libc(compiler: str) -> bool:
    asked = [compiler, "-print-file-name=libc.a"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return os.path.isabs(answer.strip())


def qemu_version(path: str) -> str:
    """Return QEMU's version, such as "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"."""
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise QemuTooOld(f"{path} --version does not run: {error}") from error
    found = re.search(r"version (\S+.*)", answer)
    return found.group(1).strip() if found else "unknown"


def qemu() -> tuple[str, str]:
    """Return QEMU's path and version; raise `QemuMissing` or `QemuTooOld`."""
    path = find(QEMU)
    version = qemu_version(path)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if not numbers or (int(numbers[1]), int(numbers[2])) < QEMU_OLDEST:
        oldest = ".".join(map(str, QEMU_OLDEST))
        raise QemuTooOld(f"{path} is version {version}; {oldest} or newer is needed: apt-get install qemu-system-x86")
    return path, version
