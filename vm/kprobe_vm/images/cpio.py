"""The archive format of an initial RAM disk: cpio, "newc" (Documentation/driver-api/early-userspace/buffer-format)."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Entry", "archive", "device", "directory", "regular", "symlink"]


class Entry(NamedTuple):
    """One file of the archive; `path` is relative to the root, without a leading slash."""

    path: str
    mode: int  # with the file type bits
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def regular(path: str, data: bytes, mode: int = 0o644) -> Entry:
    """Return a regular file."""
    return Entry(path, stat.S_IFREG | mode, data)


def directory(path: str, mode: int = 0o755) -> Entry:
    """Return a directory."""
    return Entry(path, stat.S_IFDIR | mode)


def symlink(path: str, target: str) -> Entry:
    """Return a symbolic link."""
    return Entry(path, stat.S_IFLNK | 0o777, target.encode())


def device(path: str, major: int, minor: int, mode: int = 0o600) -> Entry:
    """Return a character device; writing one into an archive needs no privilege."""
    return Entry(path, stat.S_IFCHR | mode, device=(major, minor))


def _record(entry: Entry, inode: int) -> bytes:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    # owner and times are 0, so that the same content always gives the same archive
    numbers = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08x" % number for number in numbers)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def archive(entries: Iterable[Entry]) -> bytes:
    """Return the newc archive of the entries, in their order: a directory must come before what is in it."""
    records = [_record(entry, inode) for inode, entry in enumerate(entries, 1)]
    records.append(_record(Entry("TRAILER!!!", 0), 0))
    joined = b"".join(records)
    return joined + b"\0" * (-len(joined) % 512)
