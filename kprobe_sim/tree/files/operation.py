"""Operations that change a tracefs, as a listener gets them: what was done, by whom, and how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType

from kprobe_sim.named_tuple import NamedTuple

_MOUNTS = ("/sys/kernel/tracing/", "/sys/kernel/debug/tracing/")
# packages whose frames lie between a program and the simulator
_BETWEEN = frozenset(
    ["kprobe_sim", "kprobe", "kprobe_vm", "os", "io", "_pyio", "pathlib", "codecs", "contextlib", "pyfakefs", "shutil"]
)


class Operation(NamedTuple):
    """One system call: `what` is "open" (with O_TRUNC), "write", "mkdir" or "rmdir", `error` its errno or 0.

    `path` is relative to the mount point; `who` is a process, or a line of Python.
    """

    who: str
    what: str
    path: str
    data: bytes = b""
    error: int = 0


Listener = Callable[[Operation], None]


def below(path: str) -> str:
    """Return a path without the mount point."""
    for mount in _MOUNTS:
        path = path.removeprefix(mount)
    return path


def here() -> str:
    """Return the line of a program in this process that calls the simulator: "tool.py:12"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _BETWEEN:
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return "this process"


def notify(listener: Listener | None, what: str, path: str, data: bytes = b"", error: OSError | None = None) -> None:
    """Tell a listener, if there is one, what a program in this process did."""
    if listener is not None:
        listener(Operation(here(), what, below(path), data, 0 if error is None else error.errno or 0))
