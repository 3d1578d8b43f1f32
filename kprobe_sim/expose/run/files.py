"""Files outside the tracefs that tracing programs use: in `kprobe-sim run` they are the simulated machine's.

Served by a FUSE mount of their own, out of sight, and laid one by one over the machine's own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.expose.fuse.mount import MS_NODEV, MS_NOEXEC, MS_NOSUID, SystemCalls, mount_options
from kprobe_sim.expose.python.machine import Directory, MachineTree, TextFile
from kprobe_sim.expose.run.kmsg import Kmsg
from kprobe_sim.files.node import Node, OpenFile
from kprobe_sim.files.simple import Simple
from kprobe_sim.parsing.refusal import refuse
from kprobe_sim.parsing.words import number_from_user

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

_SUBTYPE = "fuse.kprobe-sim"
_CPUS = "/sys/devices/system/cpu"
# what lies where: the name in the tree of `run_files`, and the path that it covers
PLACES = {
    "mounts": "/proc/mounts",
    "kallsyms": "/proc/kallsyms",
    "ftrace_enabled": "/proc/sys/kernel/ftrace_enabled",
    "kptr_restrict": "/proc/sys/kernel/kptr_restrict",
    "kprobes-optimization": "/proc/sys/debug/kprobes-optimization",
    "stack_tracer_enabled": "/proc/sys/kernel/stack_tracer_enabled",
    "ftrace_dump_on_oops": "/proc/sys/kernel/ftrace_dump_on_oops",
    "traceoff_on_warning": "/proc/sys/kernel/traceoff_on_warning",
    "tracepoint_printk": "/proc/sys/kernel/tracepoint_printk",
    "osrelease": "/proc/sys/kernel/osrelease",
    "version": "/proc/version",
    "kmsg": "/dev/kmsg",
    "btf": "/sys/kernel/btf",  # an empty one: that of the simulated kernel wasn't recorded
    "possible": f"{_CPUS}/possible",
    "present": f"{_CPUS}/present",
    "online": f"{_CPUS}/online",
}
KPROBES = "kprobes"  # the directory that lies in debugfs
_KERNEL_TEXT = re.compile(r"^(\S+ \S+) fuse\.tracefs (\S+?relatime)\S*", re.MULTILINE)
_KERNEL_DEBUG = re.compile(r"^(debugfs \S+) tmpfs (\S+?relatime)\S*", re.MULTILINE)
_OPEN_TREE, _MOVE_MOUNT, _OPEN_TREE_CLONE = 428, 429, 1  # numbers of system calls, the same on all machines
_FROM_EMPTY, _TO_EMPTY = 0x4, 0x40
_AT_FDCWD = -100


class _Number(Node):
    """A number of sysctl: it is kept, and nothing depends on it."""

    def __init__(self, value: int, most: int) -> None:
        super().__init__(0o644)
        self._text = b"%d\n" % value
        self._most = most

    def open(self, flags: int) -> OpenFile:
        return Simple(flags, lambda: self._text, self._put)

    def _put(self, data: bytes) -> None:
        value = number_from_user(data)
        if value > self._most:
            raise refuse(errno.EINVAL)
        self._text = b"%d\n" % value


def run_files(kernel: SimulatedKernel, mounts: Callable[[], str]) -> Directory:
    """Return the files as one directory; `mounts` gives the mount table of the command."""
    machine = MachineTree(kernel)
    kallsyms, kprobes = machine.find("/proc/kallsyms"), machine.find("/sys/kernel/debug/kprobes")
    assert kallsyms is not None
    assert kprobes is not None
    cpus = TextFile(lambda: b"0\n" if kernel.cpus == 1 else b"0-%d\n" % (kernel.cpus - 1))
    entries: dict[str, Node] = {
        "mounts": TextFile(lambda: _mount_text(mounts()).encode("utf-8", "surrogateescape")),
        "kallsyms": kallsyms,
        "ftrace_enabled": _Number(1, 1),
        "kptr_restrict": _Number(0, 2),
        "kprobes-optimization": _Number(1, 1),
        "stack_tracer_enabled": _Number(0, 1),
        "ftrace_dump_on_oops": _Number(0, 2),
        "traceoff_on_warning": _Number(0, 1),
        "tracepoint_printk": _Number(0, 1),
        "osrelease": TextFile(lambda: kernel.release.encode() + b"\n"),
        "version": TextFile(lambda: kernel.profile.banner.encode() + b"\n"),
        "kmsg": Kmsg(kernel.machine),
        "btf": Directory(0o755, dict),
        "possible": cpus,
        "present": cpus,
        "online": cpus,
        KPROBES: kprobes,
    }
    return Directory(0o755, lambda: entries)


def _mount_text(text: str) -> str:
    """Return a mount table as it would be with the kernel's own file systems."""
    lines = "".join(line for line in text.splitlines(keepends=True) if f" {_SUBTYPE} " not in line)
    return _KERNEL_DEBUG.sub(r"\1 debugfs \2", _KERNEL_TEXT.sub(r"\1 tracefs \2", lines))


def mount_files(calls: SystemCalls, descriptor: int, directory: str) -> None:
    """Mount what will be served on `descriptor`."""
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    calls.mount("kprobe-sim", directory, _SUBTYPE, flags, mount_options(descriptor, 0o755))


def lay(directory: str) -> None:
    """Lay the files of a mounted directory over those of the machine; what isn't there, or can't be, stays as it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    for name, path in PLACES.items():
        try:
            place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)  # /proc/mounts is a link: over that itself
        except OSError:
            continue
        tree = libc.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(f"{directory}/{name}"), _OPEN_TREE_CLONE)
        if tree >= 0:
            libc.syscall(_MOVE_MOUNT, tree, b"", place, b"", _FROM_EMPTY | _TO_EMPTY)
            os.close(tree)
        os.close(place)
