"""The texts of many files of a tracefs at once: in one request, where a guest would need one for each read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

__all__ = ["lines", "names", "read_each"]


def read_each(tracefs: Any, paths: Iterable[str], *, most: int = 0) -> dict[str, bytes]:
    """Return the files that can be read, by path; with `most` only what one read(2) of so many bytes gives.

    A tracefs may have a method `read_each` with these arguments.
    """
    at_once = getattr(tracefs, "read_each", None)
    if at_once is not None:
        return dict(at_once(paths, most=most))
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            if most:
                with tracefs.open(path, 0) as file:
                    found[path] = file.read(most)
            else:
                found[path] = tracefs.read(path)
    return found


def names(tracefs: Any, path: str) -> list[str]:
    """Return what is in a directory; nothing if it isn't there."""
    try:
        return list(tracefs.listdir(path))
    except FileNotFoundError:
        return []


def lines(text: bytes) -> list[str]:
    """Return the lines that aren't comments."""
    found = text.decode("utf-8", "surrogateescape").splitlines()
    return [line for line in found if line and not line.startswith("#")]
