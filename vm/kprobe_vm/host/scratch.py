"""Temporary directories; those that a killed process left behind are removed by the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = ".kprobe-vm-scratch-"  # our own name, because any such directory may be removed


@contextlib.contextmanager
def scratch(where: Path | None = None) -> Iterator[Path]:
    """Yield an empty directory below `where` (or else below `TMPDIR`), which is removed when the context ends.

    It is locked while somebody uses it: a lock ends with its holder, in any way and in any container, where a pid
    could be anybody's.
    """
    parent = Path(tempfile.gettempdir()) if where is None else where
    sweep(parent)
    while True:
        directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if directory.exists():
            break
        os.close(handle)  # a sweeper was quicker than our lock
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(handle)


def sweep(where: Path | None = None) -> None:
    """Remove this user's directories that nobody uses any more."""
    parent = Path(tempfile.gettempdir()) if where is None else where
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                _remove_unused(entry.path)


def _remove_unused(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # another user's, or gone
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_uid == os.getuid():
            shutil.rmtree(path, ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(handle)
