"""Seals: the hash, size and times of a cached file, kept beside it, so that damage is found before the file is used.

A seal holds each file's hash, size and times.  As long as size and times are those, nobody has written to the file
since (the kernel sets the time of the last change, ctime, whatever a program says); else the hash decides.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

SUFFIX = ".seal"


def content(files: Iterable[Path]) -> bytes:
    """Return the seal of some files of one directory; reads them."""
    return json.dumps({file.name: [_digest(file), *_state(file)] for file in files}).encode()


def names(seal: Path) -> list[str]:
    """Return the names of what a seal is for; none if it is damaged."""
    try:
        return list(json.loads(seal.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return []


def holds(seal: Path, *, thoroughly: bool = False, renew: Callable[[bytes], object] | None = None) -> bool:
    """Return whether all that a seal is for is as it was; `thoroughly`: by reading it.

    `renew` is given another seal where the times have changed, as they do when a cache is copied.
    """
    try:
        known = json.loads(seal.read_bytes())
        changed = False
        for name, (digest, *state) in known.items():
            file = seal.parent / name
            if thoroughly or _state(file) != state:
                if _digest(file) != digest:
                    return False
                changed = changed or _state(file) != state
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return False
    if changed and renew is not None:
        with contextlib.suppress(OSError):
            renew(content(seal.parent / name for name in known))
    return bool(known)


def _digest(file: Path) -> str:
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _state(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
