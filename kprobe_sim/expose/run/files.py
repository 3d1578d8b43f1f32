"""Files outside tracefs that tracing programs use: in `kprobe-sim run` they are the simulated machine's.

A separate, hidden FUSE mount serves them.  Each is bind-mounted over the file of this machine.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.expose.fuse.mount import MS_NODEV, MS_NOEXEC, MS_NOSUID, SystemCalls, mount_options
from kprobe_sim.expose.python.machine import EVENT_SOURCES, MachineTree
from kprobe_sim.expose.run.kmsg import Kmsg
from kprobe_sim.tree.files.node import Node
from kprobe_sim.tree.files.texts import Directory, Missing, TextFile, Unknown

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

_SUBTYPE = "fuse.kprobe-sim"
_CPUS = "/sys/devices/system/cpu"
# by its name in the tree of `run_files`, the path that each covers; the names of sysctls have dots instead of slashes
PLACES = {
    "mounts": "/proc/mounts",
    "kallsyms": "/proc/kallsyms",
    "modules": "/proc/modules",
    "config": "/proc/config.gz",  # Debian's kernels lack it; that of others wasn't recorded
    "osrelease": "/proc/sys/kernel/osrelease",
    "build": "/proc/sys/kernel/version",
    "version": "/proc/version",
    "kmsg": "/dev/kmsg",
    "btf": "/sys/kernel/btf",  # empty: the simulated kernel's wasn't recorded
    "notes": "/sys/kernel/notes",  # nor was the build ID
    "lockdown": "/sys/kernel/security/lockdown",
    "event_sources": EVENT_SOURCES,
    "possible": f"{_CPUS}/possible",
    "present": f"{_CPUS}/present",
    "online": f"{_CPUS}/online",
}
_SYSCTLS = "/proc/sys/"
KPROBES = "kprobes"  # the directory in debugfs
_KERNEL_TEXT = re.compile(r"^(\S+ \S+) fuse\.tracefs (\S+?relatime)\S*", re.MULTILINE)
_KERNEL_DEBUG = re.compile(r"^(debugfs \S+) tmpfs (\S+?relatime)\S*", re.MULTILINE)
_OPEN_TREE, _MOVE_MOUNT, _OPEN_TREE_CLONE = 428, 429, 1  # numbers of system calls, equal on all machines
_FROM_EMPTY, _TO_EMPTY = 0x4, 0x40
_AT_FDCWD = -100


def run_files(kernel: SimulatedKernel, mounts: Callable[[], str]) -> Directory:
    """Return the files as one directory; `mounts` returns the command's mount table."""
    machine = MachineTree(kernel)
    kallsyms, kprobes, sources = map(machine.find, ("/proc/kallsyms", "/sys/kernel/debug/kprobes", EVENT_SOURCES))
    assert kallsyms is not None
    assert kprobes is not None
    assert sources is not None
    cpus = TextFile(lambda: b"0\n" if kernel.cpus == 1 else b"0-%d\n" % (kernel.cpus - 1))
    entries: dict[str, Node] = {
        "mounts": TextFile(lambda: _mount_text(mounts()).encode("utf-8", "surrogateescape")),
        "kallsyms": kallsyms,
        "modules": Unknown() if kernel.symbols.modules() else TextFile(bytes),
        "config": Missing(),
        "osrelease": TextFile(lambda: kernel.release.encode() + b"\n"),
        "build": TextFile(lambda: b"#" + kernel.profile.banner.rpartition("#")[2].encode() + b"\n"),
        "version": TextFile(lambda: kernel.profile.banner.encode() + b"\n"),
        "kmsg": Kmsg(kernel.machine),
        "btf": Directory(0o755, dict),
        "notes": Unknown(),
        "lockdown": TextFile(lambda: b"[none] integrity confidentiality\n"),
        "event_sources": sources,
        "possible": cpus,
        "present": cpus,
        "online": cpus,
        KPROBES: kprobes,
        **{path.removeprefix(_SYSCTLS).replace("/", "."): node for path, node in kernel.sysctls.items()},
    }
    return Directory(0o755, lambda: entries)


def _mount_text(text: str) -> str:
    """Return a mount table as a kernel with real tracefs and debugfs would show it."""
    lines = "".join(line for line in text.splitlines(keepends=True) if f" {_SUBTYPE} " not in line)
    return _KERNEL_DEBUG.sub(r"\1 debugfs \2", _KERNEL_TEXT.sub(r"\1 tracefs \2", lines))


def mount_files(calls: SystemCalls, descriptor: int, directory: str) -> None:
    """Mount the files that `descriptor` will serve."""
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    calls.mount("kprobe-sim", directory, _SUBTYPE, flags, mount_options(descriptor, 0o755))


def lay(directory: str) -> None:
    """Cover this machine's files with those of a mounted directory; skip what is missing or can't be covered."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name in os.listdir(directory):
        path = _SYSCTLS + name.replace(".", "/") if "." in name else PLACES.get(name, "")
        try:
            target = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)  # /proc/mounts is a link: cover the link
        except OSError:
            continue
        tree = libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(f"{directory}/{name}"), _OPEN_TREE_CLONE)
        if tree >= 0:
            libc.syscall(_MOVE_MOUNT, tree, b"", target, b"", _FROM_EMPTY | _TO_EMPTY)
            os.close(tree)
        os.close(target)
