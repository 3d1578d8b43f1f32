"""The entries that os.scandir() returns for a simulated directory."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator
from typing import Any, Protocol


class _Stat(Protocol):
    def stat(self, path: Any) -> os.stat_result: ...


class DirectoryEntry:
    """The counterpart of os.DirEntry, which os.scandir() yields; its name is bytes if the directory's is."""

    def __init__(self, calls: _Stat, directory: str | bytes, name: str) -> None:
        self.name: str | bytes = name
        self.path: str | bytes
        if isinstance(directory, bytes):
            self.name = os.fsencode(name)
            self.path = posixpath.join(directory, self.name)
        else:
            self.path = posixpath.join(directory, name)
        self._calls = calls

    def inode(self) -> int:
        return self.stat().st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISDIR(self.stat().st_mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISREG(self.stat().st_mode)

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._calls.stat(self.path)

    def __fspath__(self) -> str | bytes:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


class DirectoryEntries:
    """What os.scandir() returns: an iterator that can be closed."""

    def __init__(self, entries: Iterator[Any]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def close(self) -> None:
        self._entries = iter(())

    def __enter__(self) -> DirectoryEntries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
