"""The texts of many files of a tracefs: a guest gives them in one request, instead of one for each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from kprobe_sim.tree.files.capabilities import Capabilities


def read_each(tracefs: Any, paths: Iterable[str], *, most: int = 0) -> dict[str, bytes]:
    """Return the readable files by path; with `most` only what one read(2) of that many bytes gives."""
    at_once = Capabilities(tracefs).read_each
    if at_once is not None:
        return dict(at_once(paths, most=most))
    texts = {}
    for path in paths:
        with contextlib.suppress(OSError):
            if most:
                with tracefs.open(path, 0) as file:
                    texts[path] = file.read(most)
            else:
                texts[path] = tracefs.read(path)
    return texts


def names(tracefs: Any, path: str) -> list[str]:
    """Return the names in a directory; none if it doesn't exist."""
    try:
        return list(tracefs.listdir(path))
    except FileNotFoundError:
        return []


def lines(text: bytes) -> list[str]:
    """Return the lines that aren't comments."""
    every = text.decode("utf-8", "surrogateescape").splitlines()
    return [line for line in every if line and not line.startswith("#")]
