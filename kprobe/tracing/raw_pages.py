"""The raw pages of a trace, where the kernel offers them in a known layout."""

from __future__ import annotations

import errno

from kprobe.errors import Unsupported
from kprobe.tracefs.capabilities import Capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.tracing.live import RawPipe

ABSENT = (errno.ENOENT, errno.ENOSYS, errno.EINVAL)  # errors of a tracefs without them


def open_raw(tracefs: Tracefs, prefix: str, events: tuple[str, ...], *, insists: bool) -> RawPipe | None:
    """Open the raw pages of all CPUs of an instance; None if the kernel offers none in a known layout.

    Where `has_all_symbols` of the tracefs is false, text is read instead: only text has the sizes of functions.  If the
    trace `insists`, raise `Unsupported` or `OSError` instead.
    """
    if not insists and not Capabilities(tracefs).has_all_symbols:
        return None
    from kprobe.tracing.live import RawPipe

    try:
        return RawPipe(tracefs, prefix, events=events)
    except ValueError as error:
        if insists:
            raise Unsupported("page layout that is understood", str(error)) from error
    except OSError as error:
        if error.errno not in ABSENT:
            raise
        if insists:
            raise Unsupported("raw pages", f"{error.filename}: {error.strerror}") from error
    return None
