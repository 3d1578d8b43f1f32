"""The report of a test that a refusal failed: with the kernel's own words, and without our frames."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

from kprobe_sim.tree.files.tracefs import Tracefs

# explain(tracefs, path, command): the kernel's words about a refused command, "" if there are none
Explain = Callable[[Any, str, str], str]

_OURS = ("kprobe", "kprobe_sim", "kprobe_vm")
_TRACER_ERROR = ("kprobe.errors", "KprobeError")


@contextlib.contextmanager
def without_our_frames(excinfo: Any, *also: type[BaseException]) -> Iterator[None]:
    """Within this, reports of a refusal, and of an error that we raise on purpose, leave out our frames.

    Those errors are the tracer's and `also`.  Any other may be a bug of ours: its report stays complete.
    """
    error: BaseException = excinfo.value
    is_deliberate = isinstance(error, also) or any(
        (kind.__module__, kind.__name__) == _TRACER_ERROR for kind in type(error).__mro__
    )
    entries = excinfo.traceback
    shown = _foreign(error.__traceback__)
    if not (is_deliberate or isinstance(error, OSError)) or shown is None or not _is_ours(entries[-1].frame.raw):
        yield
        return
    cause, context, is_suppressed = error.__cause__, error.__context__, error.__suppress_context__
    excinfo.traceback = type(entries)(shown)  # pytest follows the links, so leaving entries out isn't enough
    if is_deliberate:  # its text quotes the refusal that caused it
        error.__cause__ = error.__context__ = None
    try:
        yield
    finally:
        error.__cause__, error.__context__, error.__suppress_context__ = cause, context, is_suppressed
        excinfo.traceback = entries


def add_reason(excinfo: Any, tracefs: Tracefs, explain: Explain) -> None:
    """Add to a refused write what the kernel says of the command."""
    error = excinfo.value
    if not isinstance(error, OSError) or getattr(error, "__notes__", None):
        return
    for entry in excinfo.traceback:
        frame = entry.frame.raw
        data = frame.f_locals.get("data")
        if frame.f_code.co_name != "write" or not isinstance(data, bytes) or not _is_ours(frame):
            continue
        path = frame.f_locals.get("path", error.filename)
        for line in data.decode(errors="replace").splitlines():
            if reason := explain(tracefs, path if isinstance(path, str) else "", line):
                error.add_note(reason)
                return
        return


def _foreign(traceback: TracebackType | None) -> TracebackType | None:
    """Return a copy of a traceback without our frames; None if there are no others."""
    if traceback is None:
        return None
    following = _foreign(traceback.tb_next)
    if _is_ours(traceback.tb_frame):
        return following
    return TracebackType(following, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OURS
