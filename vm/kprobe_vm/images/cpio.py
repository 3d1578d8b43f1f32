"""The archive format of an initial RAM disk: cpio, "newc" (Documentation/driver-api/early-userspace/buffer-format)."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from typing import NamedTuple


class CpioEntry(NamedTuple):
    """One file of the archive; `path` is relative to the root, without a leading slash."""

    path: str
    mode: int  # with the file type bits
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def regular(path: str, data: bytes, mode: int = 0o644) -> CpioEntry:
    """Return a regular file."""
    return CpioEntry(path, stat.S_IFREG | mode, data)


def directory(path: str, mode: int = 0o755) -> CpioEntry:
    """Return a directory."""
    return CpioEntry(path, stat.S_IFDIR | mode)


def symlink(path: str, target: str) -> CpioEntry:
    """Return a symbolic link."""
    return CpioEntry(path, stat.S_IFLNK | 0o777, target.encode())


def device(path: str, major: int, minor: int, mode: int = 0o600) -> CpioEntry:
    """Return a character device; writing one into an archive needs no privilege."""
    return CpioEntry(path, stat.S_IFCHR | mode, device=(major, minor))


def _record(entry: CpioEntry, inode: int) -> bytes:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    # owner and times are 0, so that the same content always gives the same archive
    numbers = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08x" % number for number in numbers)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def archive(entries: Iterable[CpioEntry]) -> bytes:
    """Return the newc archive of the entries, in their order: a directory must come before what is in it."""
    records = [_record(entry, inode) for inode, entry in enumerate(entries, 1)]
    records.append(_record(CpioEntry("TRAILER!!!", 0), 0))
    joined = b"".join(records)
    return joined + b"\0" * (-len(joined) % 512)
