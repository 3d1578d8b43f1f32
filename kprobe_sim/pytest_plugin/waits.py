"""Reads of a real kernel's trace that wait no longer than a test may, and the message when time is up."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from kprobe_sim.tree.files.operation import below
from kprobe_sim.tree.files.patience import patience
from kprobe_sim.tree.files.tracefs import Tracefs
from kprobe_sim.tree.leftovers.texts import lines

_SHOWN = 3  # events, at most


class _Bounded:
    """An open file of a real kernel's tracefs: without a timeout a read waits no longer than a test may."""

    def __init__(self, file: Any, tracefs: Tracefs, path: str) -> None:
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
        """Let `read` wait as long as the test still may; raise when no time is left."""
        limit = patience()
        if limit is None:
            return read(None)
        left, began = limit.left(), time.monotonic()
        with contextlib.suppress(TimeoutError):
            if left and (result := read(left)) != 0:  # 0: a poll(2) whose time is up
                limit.spend(time.monotonic() - began)
                return result
        limit.spend(left)
        raise limit.over(self._tracefs, self._path)


class BoundedStream(_Bounded):
    """A stream of trace_pipe."""

    def read(self, timeout: float | None = None) -> bytes:
        """Read as the stream does."""
        data: bytes = self._wait(self._file.read) if timeout is None else self._file.read(timeout)
        return data


class BoundedFile(_Bounded):
    """An open file whose methods take a timeout."""

    def read(self, size: int, timeout: float | None = None) -> bytes:
        """Read as the file does."""
        read = self._file.read
        data: bytes = self._wait(lambda left: read(size, left)) if timeout is None else read(size, timeout)
        return data

    def poll(self, timeout: float | None = 0, events: int = 1) -> int:
        """Poll as the file does."""
        poll = self._file.poll
        mask: int = self._wait(lambda left: poll(left, events)) if timeout is None else poll(timeout, events)
        return mask


def overdue(seconds: float, tracefs: Tracefs, path: str) -> str:
    """Return the message for a test that has waited that long for that file."""
    thread = threading.current_thread()
    where = "" if thread is threading.main_thread() else f" in thread {thread.name}"
    facts = _facts(tracefs, path)
    width = max(len(what) for what, _ in facts)
    table = "".join(f"\n  {what:{width}}  {how}" for what, how in facts)
    return (
        f"waited {seconds:.3g} s in all for {path}{where}, where nothing came:{table}\n"
        "hint: do what is to be traced before the read, or in another thread; kprobe_timeout says how many seconds a "
        "test may wait"
    )


def _facts(tracefs: Tracefs, path: str) -> list[tuple[str, str]]:
    """Return the state of the trace that was waited for, as pairs of a name and a value."""
    parts = below(path).split("/")
    directory = f"instances/{parts[1]}/" if parts[0] == "instances" and len(parts) > 2 else ""
    enabled = _lines(tracefs, f"{directory}set_event")
    hits = ["{}: {}".format(*line.split()[:2]) for line in _lines(tracefs, "kprobe_profile")]
    return [
        ("probes", _few(_lines(tracefs, "kprobe_events"))),
        ("hits so far", _few(hits)),
        ("events that are on", _few(enabled)),
        ("tracing_on", _few(_lines(tracefs, f"{directory}tracing_on"))),
    ]


def _few(values: list[str]) -> str:
    return ", ".join(values[:_SHOWN]) + (f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else "") or "none"


def _lines(tracefs: Tracefs, path: str) -> list[str]:
    with contextlib.suppress(OSError):
        return lines(tracefs.read(path))
    return []
