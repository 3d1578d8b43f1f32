"""The file system that a followed program's path leads to, by the mount table that it sees.

This process may not look into the mounts of its own: they belong to the command's user namespace.
"""

from __future__ import annotations

import os

from kprobe_sim.named_tuple import NamedTuple

TRACEFS, DEBUGFS = ("fuse.tracefs", "tracefs"), ("tmpfs", "debugfs")  # what stands for them: type and source


class Mount(NamedTuple):
    """A mount, and where in it a path leads."""

    system: tuple[str, str]
    rest: str


def mount_of(pid: int, path: bytes, directory: int | None = None) -> Mount | None:
    """Return the mount that a path leads to, without a look at links; None if that can't be told."""
    try:
        if not path.startswith(b"/"):
            base = os.readlink(f"/proc/{pid}/cwd" if directory is None else f"/proc/{pid}/fd/{directory}")
            path = os.fsencode(base) + b"/" + path
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            table = file.readlines()
    except OSError:
        return None
    whole = os.path.normpath(os.fsdecode(path))
    found, length = None, 0
    for line in table:  # a later one lies over an earlier one
        mount, _, system = line.partition(" - ")
        point = mount.split()[4].rstrip("/")
        if len(point) >= length and f"{whole}/".startswith(f"{point}/"):
            kind, source = system.split()[:2]
            found, length = Mount((kind, source), whole[len(point) + 1 :]), len(point)
    return found
