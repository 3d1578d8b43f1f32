"""uname(2) and statfs(2) inside `kprobe-sim run`: the simulated kernel's release, and the type of its file systems.

A namespace can change no more than the host name, and a FUSE mount's type is FUSE; so the calls are answered in the
kernel's stead (seccomp_unotify(2)), by writing into the caller's memory.
"""

from __future__ import annotations

import os
import struct
from fcntl import ioctl
from typing import TYPE_CHECKING

from kprobe_sim.expose.caller_mounts import DEBUGFS, TRACEFS, Mount

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

_ROOM = 65  # of each name in struct new_utsname
_STILL_VALID = 0x40082102  # SECCOMP_IOCTL_NOTIF_ID_VALID
UNAME, STATFS, FSTATFS = 63, 137, 138  # numbers of system calls on x86-64
_TYPES = {TRACEFS: 0x74726163, DEBUGFS: 0x64626720}  # f_type
# struct statfs: f_type, f_bsize, five counts, f_fsid, f_namelen, f_frsize, f_flags, f_spare
_STATFS = struct.Struct("<2q5Q2i3q4q")
_COUNTS = (0,) * 7
_BLOCK, _NAME_MAX, _VALID_RELATIME = 4096, 255, 0x1020


def utsname(kernel: SimulatedKernel) -> bytes:
    """Return struct new_utsname: the kernel is the simulated one, the host this machine."""
    host = os.uname()
    version = "#" + kernel.profile.banner.rpartition("#")[2]
    names = ("Linux", host.nodename, kernel.release, version, "x86_64", "(none)")
    return b"".join(name.encode()[: _ROOM - 1].ljust(_ROOM, b"\0") for name in names)


def statfs(kernel: SimulatedKernel, mount: Mount | None) -> bytes | None:
    """Return struct statfs of a file in the simulated tracefs, or of its debugfs; None elsewhere, and where none is.

    Source: simple_statfs() in fs/libfs.c.
    """
    if mount is None or not ((mount.system == TRACEFS and kernel.tracefs.exists(mount.rest)) or mount == (DEBUGFS, "")):
        return None
    return _STATFS.pack(_TYPES[mount.system], _BLOCK, *_COUNTS, _NAME_MAX, _BLOCK, _VALID_RELATIME, 0, 0, 0, 0)


def told(listener: int, identity: int, pid: int, address: int, answer: bytes) -> bool:
    """Write the answer where the caller wants it; False if that can't be done: the kernel shall answer."""
    try:
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            ioctl(listener, _STILL_VALID, identity.to_bytes(8, "little"))  # the pid isn't somebody else's by now
            memory.seek(address)
            return memory.write(answer) == len(answer)
    except (OSError, OverflowError, ValueError):
        return False
