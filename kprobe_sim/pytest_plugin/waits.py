"""Waits of a test for a trace by reading its file: how long they may take on a real kernel, and what is told then."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from kprobe_sim.tree.files.patience import patience
from kprobe_sim.tree.leftovers.texts import lines

__all__ = ["BoundedFile", "BoundedStream", "overdue"]

_MOUNTS = ("/sys/kernel/tracing/", "/sys/kernel/debug/tracing/")
_SHOWN = 3  # events, at most


class _Bounded:
    """What is read of a real kernel's tracefs: without a timeout it waits no longer than a test may."""

    def __init__(self, file: Any, tracefs: Any, path: str) -> None:
        self._file = file
        self._tracefs = tracefs
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _wait(self, read: Callable[[float | None], Any]) -> Any:
        """Have `read` wait so many seconds at most; raise when there is no time left."""
        limit = patience()
        if limit is None:
            return read(None)
        left, began = limit.left(), time.monotonic()
        with contextlib.suppress(TimeoutError):
            if left and (found := read(left)) != 0:  # 0: a poll(2) that found nothing
                limit.spend(time.monotonic() - began)
                return found
        limit.spend(left)
        raise limit.over(self._tracefs, self._path)


class BoundedStream(_Bounded):
    """A stream of trace_pipe."""

    def read(self, timeout: float | None = None) -> bytes:
        """Read as the stream does."""
        found: bytes = self._wait(self._file.read) if timeout is None else self._file.read(timeout)
        return found


class BoundedFile(_Bounded):
    """An open file whose methods know a timeout."""

    def read(self, size: int, timeout: float | None = None) -> bytes:
        """Read as the file does."""
        found: bytes = (
            self._wait(lambda left: self._file.read(size, left)) if timeout is None else self._file.read(size, timeout)
        )
        return found

    def poll(self, timeout: float | None = 0, events: int = 1) -> int:
        """Poll as the file does."""
        found: int = (
            self._wait(lambda left: self._file.poll(left, events))
            if timeout is None
            else self._file.poll(timeout, events)
        )
        return found


def overdue(seconds: float, tracefs: Any, path: str) -> str:
    """Return the text about a test that has waited so long for that file."""
    thread = threading.current_thread()
    where = "" if thread is threading.main_thread() else f" in thread {thread.name}"
    facts = _facts(tracefs, path)
    width = max(len(what) for what, _ in facts)
    told = "".join(f"\n  {what:{width}}  {how}" for what, how in facts)
    return (
        f"waited {seconds:.3g} s in all for {path}{where}, where nothing came:{told}\n"
        "hint: what is to be traced must be done before, or by another thread; kprobe_timeout says how many seconds a "
        "test may wait"
    )


def _facts(tracefs: Any, path: str) -> list[tuple[str, str]]:
    """Return how the trace stands that was waited for: (what, how it is)."""
    for mount in _MOUNTS:
        path = path.removeprefix(mount)
    parts = path.split("/")
    place = f"instances/{parts[1]}/" if parts[0] == "instances" and len(parts) > 2 else ""
    enabled = _lines(tracefs, f"{place}set_event")
    hits = ["{}: {}".format(*line.split()[:2]) for line in _lines(tracefs, "kprobe_profile")]
    return [
        ("probes", _few(_lines(tracefs, "kprobe_events"))),
        ("hits so far", _few(hits)),
        ("events that are on", _few(enabled)),
        ("tracing_on", _few(_lines(tracefs, f"{place}tracing_on"))),
    ]


def _few(found: list[str]) -> str:
    return ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "") or "none"


def _lines(tracefs: Any, path: str) -> list[str]:
    with contextlib.suppress(OSError):
        return lines(tracefs.read(path))
    return []
