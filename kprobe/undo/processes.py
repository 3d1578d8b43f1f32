"""Processes and threads of the traced machine."""

from __future__ import annotations

import os

from kprobe.errors import NoSuchProcess
from kprobe.tracefs.capabilities import Capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.tracefs.tracefs import Tracefs

PROC = "/proc"


def threads(tracefs: Tracefs, pid: int, proc: str = PROC) -> list[int]:
    """Return the ids of the current threads of process `pid`, sorted.

    For another machine the tracefs knows them; this machine's are in `proc`.
    Raise `NoSuchProcess`.
    """
    threads_there = Capabilities(tracefs).threads
    try:
        ids = list(threads_there(pid)) if threads_there else [int(name) for name in os.listdir(f"{proc}/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        ids = []
    if not ids:
        raise NoSuchProcess(pid)
    return sorted(ids)


def check_thread(tracefs: Tracefs, tid: int, proc: str = PROC) -> None:
    """Raise `NoSuchProcess` if this machine is traced and has no thread `tid`; other machines can't be asked."""
    if Capabilities(tracefs).threads is None and not os.path.isdir(f"{proc}/{tid}"):
        raise NoSuchProcess(tid, "thread")
