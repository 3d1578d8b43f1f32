"""Mounting: the system calls that Python lacks, and errors that say what would help."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator

from kprobe_sim.named_tuple import NamedTuple

DEVICE = "/dev/fuse"
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

HELPER = "fusermount3"
SUBTYPE = "fuse.tracefs"  # what /proc/mounts shows; the kernel demands the prefix


class CannotMount(Exception):
    """Mounting fails here; the message says why, and what would help."""


class SystemCalls:
    """mount(2), umount2(2), unshare(2) and prctl(2)."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def mount(self, source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        """Call mount(2)."""
        arguments = (os.fsencode(source), os.fsencode(target), kind.encode() or None)
        self._check(self._libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() or None), target)

    def unmount(self, target: str) -> None:
        """Unmount a file system even if it is busy."""
        self._check(self._libc.umount2(os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW), target)

    def unshare(self, flags: int) -> None:
        """Move this process into new namespaces."""
        self._check(self._libc.unshare(flags), "")

    def die_with_parent(self, signal: int) -> None:
        """Have the kernel send this process a signal when its parent ends."""
        self._check(self._libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "")

    def adopt_orphans(self, adopts: bool) -> None:
        """Become, or stop being, the parent of descendants whose parent has ended."""
        self._check(self._libc.prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0), "")

    def _check(self, result: int, target: str) -> None:
        if result:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), target or None)


def open_device() -> int:
    """Open /dev/fuse.  Raises CannotMount, which says what is wrong with it."""
    try:
        return os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise CannotMount(
            f"there is no {DEVICE}: load the kernel module fuse, or give the container the device "
            "(docker run --device /dev/fuse)"
        ) from None
    except PermissionError:
        raise CannotMount(
            f"{DEVICE} can't be opened by this user (mode {_mode(DEVICE)}): the administrator can allow it with "
            f"'chmod 666 {DEVICE}', its mode on most distributions"
        ) from None
    except OSError as error:
        raise CannotMount(f"{DEVICE} can't be opened: {error.strerror}; is the kernel module fuse there?") from None


def _mode(path: str) -> str:
    return f"{os.stat(path).st_mode & 0o7777:04o}"


def mount_options(descriptor: int, root_mode: int, *, uid: int = 0, gid: int = 0) -> str:
    """Return the data of mount(2): the kernel checks permissions, for all users, as on tracefs."""
    return (
        f"fd={descriptor},rootmode={0o40000 | root_mode:o},user_id={uid},group_id={gid},default_permissions,allow_other"
    )


def mount_fuse(calls: SystemCalls, descriptor: int, directory: str, root_mode: int) -> None:
    """Mount the file system that `descriptor` will serve.  Raises OSError if that isn't allowed."""
    options = mount_options(descriptor, root_mode)
    calls.mount("tracefs", directory, SUBTYPE, MS_NOSUID | MS_NODEV | MS_NOEXEC, options)


def mount_with_helper(directory: str, held: int) -> int:
    """Mount with the set-user-id program fusermount3; return the descriptor to serve on.

    The program keeps the descriptor `held` open.  Raises CannotMount if it is missing or refuses.
    """
    import shutil  # importing these takes as long as all the rest, and root needs neither
    import subprocess

    program = shutil.which(HELPER)
    if program is None:
        raise CannotMount(
            "only root may mount here: install fuse3, whose fusermount3 mounts for users, or use "
            "'kprobe-sim run -- COMMAND', which needs neither"
        )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        options = "default_permissions,nosuid,nodev,noexec,subtype=tracefs,fsname=tracefs"
        done = subprocess.run(
            [program, "-o", options, "--", directory],
            pass_fds=[theirs.fileno(), held],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            check=False,
        )
        theirs.close()
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    if done.returncode or not descriptors:
        raise CannotMount(f"fusermount3 refused to mount on {directory}")
    os.set_inheritable(descriptors[0], False)
    return descriptors[0]


def unmount_with_helper(directory: str) -> None:
    """Unmount what fusermount3 mounted, even if it is busy."""
    import subprocess

    subprocess.run([HELPER, "-u", "-z", "-q", "--", directory], stderr=subprocess.DEVNULL, check=False)


class MountPoint(NamedTuple):
    """A line of the mount table."""

    source: str
    directory: str
    kind: str


def mount_table(path: str = "/proc/self/mounts") -> Iterator[MountPoint]:
    """Yield the mounts of this mount namespace."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            source, directory, kind, *_ = line.split(" ")
            for escape in ("\\040", "\\011", "\\012", "\\134"):
                directory = directory.replace(escape, chr(int(escape[1:], 8)))
            yield MountPoint(source, directory, kind)


def explain(error: OSError) -> str:
    """Return why a mount or a namespace was refused, and what would help."""
    if error.errno in (errno.EPERM, errno.EACCES):
        return (
            "it isn't allowed here: user namespaces are switched off (sysctl kernel.unprivileged_userns_clone, "
            "user.max_user_namespaces or kernel.apparmor_restrict_unprivileged_userns), or the container's seccomp "
            "profile forbids unshare and mount (docker run --security-opt seccomp=unconfined)"
        )
    if error.errno in (errno.ENOSPC, errno.EUSERS):
        return "no more user namespaces are allowed (sysctl user.max_user_namespaces)"
    if error.errno == errno.ENODEV:
        return "this kernel has no FUSE: load the kernel module fuse"
    return error.strerror or str(error)
