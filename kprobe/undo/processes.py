"""Processes and threads of the traced machine."""

from __future__ import annotations

import os

from kprobe.errors import NoSuchProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.tracefs.tracefs import Tracefs

PROC = "/proc"


def threads(tracefs: Tracefs, pid: int, proc: str = PROC) -> list[int]:
    """Return the ids of the threads of process `pid` now, sorted.

    A tracefs of another machine answers itself, by its method `threads`; for this machine's it is `proc`.
    Raise `NoSuchProcess`.
    """
    own = getattr(tracefs, "threads", None)
    try:
        found = list(own(pid)) if own is not None else [int(name) for name in os.listdir(f"{proc}/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        found = []
    if not found:
        raise NoSuchProcess(pid)
    return sorted(found)


def check_thread(tracefs: Tracefs, tid: int, proc: str = PROC) -> None:
    """Raise `NoSuchProcess` if this machine is traced and has no thread `tid`; elsewhere there is no way to ask."""
    if getattr(tracefs, "threads", None) is None and not os.path.isdir(f"{proc}/{tid}"):
        raise NoSuchProcess(tid, "thread")
