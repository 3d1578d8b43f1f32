"""Why nothing comes: what the user is told when a trace has been silent for a while."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .session import Trace

AFTER = 10.0  # seconds without an event


def explain(trace: Trace) -> str:
    """Return a sentence on why this trace may have had nothing in `AFTER` seconds."""
    return (
        f"nothing has fired in {AFTER:.0f} seconds. The function may not run now, may have been inlined where it is "
        "called, or the filter lets nothing through."
    )
