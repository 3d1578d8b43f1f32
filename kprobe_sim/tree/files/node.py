"""Nodes and open files: every way of exposing the simulated tracefs is built on them.

A node is a directory entry.  An `OpenFile` is one open file description (one open(2)).  Neither ever blocks and
neither keeps a position: an adapter (in-process, patched Python, FUSE) owns the position, the waiting and the file
descriptor.  Every refusal is an `OSError` with the kernel's errno and no path; the adapter adds the path.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable, Iterable
from enum import Enum
from typing import ClassVar, Protocol

from kprobe_sim.language.primitives.refusal import refuse


class Seek(Enum):
    """What lseek(2) does on an open file."""

    SEQ = "seq"  # seq_lseek: SEEK_SET and SEEK_CUR
    DEFAULT = "default"  # default_llseek: of a file of size 0
    GENERIC = "generic"  # generic_file_llseek: the same, up to the file system's greatest size
    NONE = "none"  # none: ESPIPE
    TRACING = "tracing"  # tracing_lseek: as SEQ when open for reading, else always position 0


_SEEK_DATA, _SEEK_HOLE = 3, 4
_ACCESS, _READ, _WRITE, _READ_AND_WRITE = os.O_ACCMODE, os.O_RDONLY, os.O_WRONLY, os.O_RDWR
_GREATEST_SIZE = (1 << 31) - 1  # s_maxbytes of a file system that doesn't set it, like tracefs


class Holder(Protocol):
    """Something that can't be removed while its files are open."""

    open_files: int


class OpenFile:
    """One open file description, without a position and never blocking; `holder` counts it while it is open."""

    seek: ClassVar[Seek] = Seek.DEFAULT
    holder: Holder | None = None

    def __init__(self, flags: int) -> None:
        access = flags & _ACCESS
        self.flags = flags
        self.readable = access in (_READ, _READ_AND_WRITE)
        self.writable = access in (_WRITE, _READ_AND_WRITE)

    def read(self, size: int, position: int) -> bytes:
        """Return at most `size` bytes at `position`; b"" is the end.  Raise BlockingIOError if data may still come."""
        raise refuse(errno.EINVAL)

    def again(self, size: int, position: int) -> bytes:
        """Read for a caller that has waited for data and was woken."""
        return self.read(size, position)

    def splice(self, size: int, position: int) -> bytes:
        """Return what splice(2) takes, page by page; most files refuse it."""
        raise refuse(errno.EINVAL)

    def splice_ends(self) -> bool:
        """Return True if a splice that waits for data is to end without it."""
        return False

    def write(self, data: bytes, position: int) -> int:
        """Take one write(2); return the bytes consumed (may be fewer than given)."""
        raise refuse(errno.EINVAL)

    def after_write(self, position: int, written: int) -> int:
        """Return the position after a write; some files don't move it, or only by one."""
        return position + written

    def lseek(self, position: int, offset: int, whence: int) -> int:
        """Return the new position for lseek(2).  Raises OSError: EINVAL, ENXIO or ESPIPE."""
        if self.seek is Seek.NONE:
            raise refuse(errno.ESPIPE)
        if not 0 <= whence <= _SEEK_HOLE:
            raise refuse(errno.EINVAL)
        if self.seek is Seek.TRACING and not self.readable:
            return 0
        if self.seek in (Seek.SEQ, Seek.TRACING) and whence not in (os.SEEK_SET, os.SEEK_CUR):
            raise refuse(errno.EINVAL)
        if whence in (_SEEK_DATA, _SEEK_HOLE):
            if offset >= 0 or self.seek is Seek.GENERIC:
                raise refuse(errno.ENXIO)
            if whence == _SEEK_HOLE:
                return 0
        target = position + offset if whence == os.SEEK_CUR else offset
        if target < 0 or (self.seek is Seek.GENERIC and target > _GREATEST_SIZE):
            raise refuse(errno.EINVAL)
        return target

    def poll(self) -> int:
        """Return the current poll(2) mask."""
        return select.POLLIN | select.POLLOUT

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when `read` or `poll` may answer differently; return a function that ends this."""
        return lambda: None

    def release(self) -> None:
        """Release the file when its last reference is closed."""
        if self.holder is not None:
            self.holder.open_files -= 1
        self.released()

    def released(self) -> None:
        """Do what the last close of this kind of file does."""


class OpenDirectory(OpenFile):
    """A directory opened for reading: the adapter lists it, and a read is refused."""

    def read(self, size: int, position: int) -> bytes:
        raise refuse(errno.EISDIR)


class Node:
    """A directory entry: a file or a directory of the tracefs."""

    is_dir: ClassVar[bool] = False
    identity: object = None  # another object once the directory was removed and made again

    def __init__(self, mode: int) -> None:
        self.mode = mode  # permission bits, as `ls` of the real kernel shows them

    @property
    def links(self) -> int:
        """The link count that stat(2) shows."""
        return 1

    def open(self, flags: int) -> OpenFile:
        """Open the node; O_TRUNC acts here, and may refuse."""
        raise refuse(errno.EINVAL)


class DirNode(Node):
    """A directory: a lookup and a listing; mkdir and rmdir only where the kernel has them.

    A removed one that is still open is empty.
    """

    is_dir = True

    @property
    def is_gone(self) -> bool:
        """Whether the directory was removed."""
        return False

    @property
    def links(self) -> int:
        """2, and one for each directory in it; those below events/ count differently."""
        return 2 + sum(node is not None and node.is_dir for node in map(self.lookup, self.names()))

    def lookup(self, name: str) -> Node | None:
        """Return the entry of that name, or None."""
        raise NotImplementedError

    def names(self) -> Iterable[str]:
        """Yield the names in the order of the kernel's readdir, without . and .. ."""
        raise NotImplementedError

    def open(self, flags: int) -> OpenFile:
        if flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_CREAT:
            raise refuse(errno.EISDIR)
        return OpenDirectory(flags)

    def mkdir(self, name: str) -> None:
        raise refuse(errno.EPERM)

    def rmdir(self, name: str) -> None:
        raise refuse(errno.EPERM)
