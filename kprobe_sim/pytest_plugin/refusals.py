"""The report of a test that failed by a refusal: the kernel's own words, and no frames of ours above them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

__all__ = ["noted", "told"]

# explains(tracefs, path, command): what the kernel says of a refused command, "" if nothing
Explain = Callable[[Any, str, str], str]

_OURS = ("kprobe", "kprobe_sim", "kprobe_vm")
_OWN_ERROR = ("kprobe.errors", "KprobeError")


@contextlib.contextmanager
def told(excinfo: Any, *also: type[BaseException]) -> Iterator[None]:
    """Within it the report of an error of the tracer's, or of a refusal, has the frames of the tests alone.

    `also` are other errors that we raise on purpose.

    Any other error may be a bug of ours, and is shown as it is.
    """
    error: BaseException = excinfo.value
    is_own = isinstance(error, also) or any(
        (kind.__module__, kind.__name__) == _OWN_ERROR for kind in type(error).__mro__
    )
    entries = excinfo.traceback
    shown = _others(error.__traceback__)
    if not (is_own or isinstance(error, OSError)) or shown is None or not _is_ours(entries[-1].frame.raw):
        yield
        return
    cause, context, is_suppressed = error.__cause__, error.__context__, error.__suppress_context__
    excinfo.traceback = type(entries)(shown)  # pytest cuts it by its links, so that leaving entries out isn't enough
    if is_own:  # its text says what the refusal was that it comes from
        error.__cause__ = error.__context__ = None
    try:
        yield
    finally:
        error.__cause__, error.__context__, error.__suppress_context__ = cause, context, is_suppressed
        excinfo.traceback = entries


def noted(excinfo: Any, tracefs: Any, explain: Explain) -> None:
    """Add to a refusal that the tracefs's user got what the kernel says of the command."""
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
            said = explain(tracefs, path if isinstance(path, str) else "", line)
            if said:
                error.add_note(said)
                return
        return


def _others(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without our frames, linked anew; None if there are no others."""
    if traceback is None:
        return None
    rest = _others(traceback.tb_next)
    if _is_ours(traceback.tb_frame):
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OURS
