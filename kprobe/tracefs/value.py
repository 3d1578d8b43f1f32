"""The value in a control file of a tracefs, as text without the padding around it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .tracefs import Tracefs

AROUND = " \t\n\v\f\r\0"  # the end of the line; before 4.15 tracing_cpumask has NULs after it


def value(tracefs: Tracefs, path: str) -> str:
    """Return the value in a file.  Raise `OSError`."""
    return tracefs.read(path).decode(errors="replace").strip(AROUND)


def known_value(tracefs: Tracefs, path: str) -> str:
    """Return the value in a file; "" if it can't be read."""
    try:
        return value(tracefs, path)
    except OSError:
        return ""
