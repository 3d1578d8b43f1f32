"""The file system that a path of a followed program leads to, according to the program's mount table.

This process may not look into the mounts that it serves: they belong to the command's user namespace.
"""

from __future__ import annotations

import os

from kprobe_sim.named_tuple import NamedTuple

TRACEFS, DEBUGFS = ("fuse.tracefs", "tracefs"), ("tmpfs", "debugfs")  # type and source of the stand-ins


class Mount(NamedTuple):
    """A mount, and the path below its mount point."""

    system: tuple[str, str]
    path: str


def mount_of(pid: int, path: bytes, directory: int | None = None) -> Mount | None:
    """Return the mount that a path leads to, ignoring symbolic links; None if that can't be told."""
    try:
        if not path.startswith(b"/"):
            base = os.readlink(f"/proc/{pid}/cwd" if directory is None else f"/proc/{pid}/fd/{directory}")
            path = os.fsencode(base) + b"/" + path
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            table = file.readlines()
    except OSError:
        return None
    target = os.path.normpath(os.fsdecode(path))
    deepest, length = None, 0
    for line in table:  # a later mount covers an earlier one
        mount, _, system = line.partition(" - ")
        point = mount.split()[4].rstrip("/")
        if len(point) >= length and f"{target}/".startswith(f"{point}/"):
            kind, source = system.split()[:2]
            deepest, length = Mount((kind, source), target[len(point) + 1 :]), len(point)
    return deepest
