"""Refusals to open or read a file, or to make a directory, rather than of a command."""

from __future__ import annotations

import errno

from kprobe.errors import Busy, KprobeError, NotPermitted, Refused
from kprobe.tracefs.capabilities import Capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.tracefs.tracefs import Tracefs

_NOT_KNOWN = "the simulator doesn't know what this kernel does here; the probe can be defined, but not traced"
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


def denied(tracefs: Tracefs, path: str, error: OSError) -> KprobeError:
    """Return the error for a refusal of a file or directory: `NotPermitted`, `Busy` or `Refused`."""
    number = error.errno or errno.EIO
    name = str(error.filename or path)
    if number in DENIED:
        root = Capabilities(tracefs).root
        if root is None:
            return NotPermitted(name, number)
        from kprobe.tracefs.mounts import permission_hint

        return NotPermitted(name, number, permission_hint(root))
    if number == errno.EBUSY:
        return Busy(name, "", number, hint="somebody else is reading it: a file of events has one reader at a time")
    return Refused(name, "", number, hint=_NOT_KNOWN if number == errno.ENOSYS else "")
