"""The raw pages of a trace, where the kernel offers pages that are understood."""

from __future__ import annotations

import errno

from kprobe.errors import Unsupported
from kprobe.tracefs.capabilities import Capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.tracing.live import RawPipe

ABSENT = (errno.ENOENT, errno.ENOSYS, errno.EINVAL)  # what a tracefs without them says


def open_raw(tracefs: Tracefs, prefix: str, events: tuple[str, ...], *, insists: bool) -> RawPipe | None:
    """Open the raw pages of all CPUs of an instance; None if the kernel offers none that are understood.

    Where the tracefs says `has_all_symbols` is false, text is read instead: it alone has the sizes of functions.
    Raise `Unsupported` and `OSError` in place of that if it `insists`.
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
