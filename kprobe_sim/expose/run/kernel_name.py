"""uname(2) and statfs(2) in `kprobe-sim run`: the simulated kernel's release, and the type of its file systems.

A namespace can change only the host name, and a FUSE mount's type is FUSE.  So this process answers the calls in place
of the kernel (seccomp_unotify(2)), and writes the answers into the caller's memory.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import threading
from fcntl import ioctl
from typing import TYPE_CHECKING

from kprobe_sim.expose.run.caller_mounts import DEBUGFS, TRACEFS, Mount, mount_of
from kprobe_sim.expose.run.ptrace import UserMemory
from kprobe_sim.expose.run.seccomp import FSTATFS, STATFS, UNAME

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

_ROOM = 65  # for each name in struct new_utsname
_STILL_VALID = 0x40082102  # SECCOMP_IOCTL_NOTIF_ID_VALID
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_RECEIVERS = 2  # while one looks for a file's mount, the other takes the next notice
_NOTICE = struct.Struct("<QIIiIQ6Q")  # struct seccomp_notif
_ANSWER = struct.Struct("<QqiI")
_TYPES = {TRACEFS: 0x74726163, DEBUGFS: 0x64626720}  # f_type
# struct statfs: f_type, f_bsize, five counts, f_fsid, f_namelen, f_frsize, f_flags, f_spare
_STATFS = struct.Struct("<2q5Q2i3q4q")
_COUNTS = (0,) * 7
_BLOCK, _NAME_MAX, _VALID_RELATIME = 4096, 255, 0x1020


def utsname(kernel: SimulatedKernel) -> bytes:
    """Return struct new_utsname, with the simulated kernel and the name of this machine."""
    host = os.uname()
    version = "#" + kernel.profile.banner.rpartition("#")[2]
    names = ("Linux", host.nodename, kernel.release, version, "x86_64", "(none)")
    return b"".join(name.encode()[: _ROOM - 1].ljust(_ROOM, b"\0") for name in names)


def statfs(kernel: SimulatedKernel, mount: Mount | None) -> bytes | None:
    """Return struct statfs of a file in the simulated tracefs, or of its debugfs; None for any other path.

    Source: simple_statfs() in fs/libfs.c.
    """
    if mount is None or not ((mount.system == TRACEFS and kernel.tracefs.exists(mount.path)) or mount == (DEBUGFS, "")):
        return None
    return _STATFS.pack(_TYPES[mount.system], _BLOCK, *_COUNTS, _NAME_MAX, _BLOCK, _VALID_RELATIME, 0, 0, 0, 0)


class Answers:
    """Answers the calls that a seccomp listener receives."""

    def __init__(self, kernel: SimulatedKernel, listener: int) -> None:
        self._kernel = kernel
        self._listener = listener
        self._names = utsname(kernel)

    def start(self) -> None:
        """Answer in threads that end with the last process under the filter."""
        for _ in range(_RECEIVERS):
            threading.Thread(target=self._answer_all, name="answers", daemon=True).start()

    def _answer_all(self) -> None:
        """Take each notice as soon as it comes: until then a signal makes the call fail."""
        notice, memory = bytearray(_NOTICE.size), UserMemory()
        while True:
            notice[:] = bytes(len(notice))
            try:
                ioctl(self._listener, _RECEIVE, notice)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT) and self._is_used():  # the caller is gone
                    continue
                return
            identity, pid, _, number, _, _, *arguments = _NOTICE.unpack(notice)
            done = self._answer(identity, pid, number, arguments, memory)
            try:
                ioctl(self._listener, _SEND, _ANSWER.pack(identity, 0, 0, 0 if done else _CONTINUE))
            except OSError as error:
                if error.errno != errno.ENOENT:
                    raise

    def _answer(self, identity: int, pid: int, number: int, arguments: list[int], memory: UserMemory) -> bool:
        """Write an answer to the caller's buffer; return False if the kernel should answer."""
        answer: bytes | None = self._names
        address = arguments[0]
        if number in (STATFS, FSTATFS):
            path, directory = ((memory.string(pid, address) or b""), None) if number == STATFS else (b"", address)
            answer, address = statfs(self._kernel, mount_of(pid, path, directory)), arguments[1]
        else:
            assert number == UNAME
        if answer is None:
            return False
        try:
            with open(f"/proc/{pid}/mem", "r+b", buffering=0) as file:
                ioctl(self._listener, _STILL_VALID, identity.to_bytes(8, "little"))  # the pid wasn't reused
                file.seek(address)
                return file.write(answer) == len(answer)
        except (OSError, OverflowError, ValueError):
            return False

    def _is_used(self) -> bool:
        poller = select.poll()
        poller.register(self._listener, select.POLLIN)
        return not any(mask & select.POLLHUP for _, mask in poller.poll(0))
