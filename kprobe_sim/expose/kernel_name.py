"""uname(2) inside `kprobe-sim run`: it tells the simulated kernel's release and version.

A namespace can change no more than the host name; so the call is answered in the kernel's stead (seccomp_unotify(2)),
by writing into the caller's memory.
"""

from __future__ import annotations

import os
from fcntl import ioctl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

_ROOM = 65  # of each name in struct new_utsname
_STILL_VALID = 0x40082102  # SECCOMP_IOCTL_NOTIF_ID_VALID


def utsname(kernel: SimulatedKernel) -> bytes:
    """Return struct new_utsname: the kernel is the simulated one, the host this machine."""
    host = os.uname()
    version = "#" + kernel.profile.banner.rpartition("#")[2]
    names = ("Linux", host.nodename, kernel.release, version, "x86_64", "(none)")
    return b"".join(name.encode()[: _ROOM - 1].ljust(_ROOM, b"\0") for name in names)


def told(listener: int, identity: int, pid: int, address: int, names: bytes) -> bool:
    """Write the names where the caller of uname(2) wants them; False if that can't be done: the kernel shall answer."""
    try:
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            ioctl(listener, _STILL_VALID, identity.to_bytes(8, "little"))  # the pid isn't somebody else's by now
            memory.seek(address)
            return memory.write(names) == len(names)
    except (OSError, OverflowError, ValueError):
        return False
