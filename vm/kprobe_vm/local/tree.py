"""This machine's files, in the form in which the recorder asks a guest for its own."""

from __future__ import annotations

import errno
import os
import select

_PIECE = 1 << 20


class LocalFile:
    """An open file of this machine; every method is one system call."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path

    def read(self, size: int, timeout: float | None = None) -> bytes:
        """One read(2) of what arrives within `timeout` seconds; raise `TimeoutError` if nothing does."""
        if timeout is not None and not select.select([self._descriptor], [], [], timeout)[0]:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), self.path)
        return os.read(self._descriptor, size)

    def write(self, data: bytes, timeout: float | None = None) -> int:
        """One write(2); return the bytes that were taken."""
        return os.write(self._descriptor, data)

    def lseek(self, offset: int) -> int:
        """One lseek(2); return the new position."""
        return os.lseek(self._descriptor, offset, os.SEEK_SET)

    def close(self) -> None:
        """One close(2); nothing if it is closed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class LocalTree:
    """A file tree of this machine; all failures are `OSError`."""

    def __init__(self, root: str = "/") -> None:
        self._root = root

    def read(self, path: str) -> bytes:
        """Return the whole file."""
        with open(self._path(path), "rb", buffering=0) as file:
            pieces = iter(lambda: file.read(_PIECE), b"")
            return b"".join(pieces)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        """Exactly one open(2), one write(2) and one close(2); `truncate` adds O_TRUNC at open."""
        descriptor = os.open(self._path(path), os.O_WRONLY | (os.O_TRUNC if truncate else 0))
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(self._path(path)))

    def exists(self, path: str) -> bool:
        """Whether the path is there."""
        return os.path.exists(self._path(path))

    def mkdir(self, path: str) -> None:
        """One mkdir(2)."""
        os.mkdir(self._path(path))

    def rmdir(self, path: str) -> None:
        """One rmdir(2)."""
        os.rmdir(self._path(path))

    def open(self, path: str, flags: int) -> LocalFile:
        """One open(2)."""
        return LocalFile(os.open(self._path(path), flags | os.O_CLOEXEC), path)

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)
