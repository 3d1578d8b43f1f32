"""The traced machine outside its tracefs: /proc and /sys, as far as they can be read."""

from __future__ import annotations

import errno
import os

from kprobe.tracefs.capabilities import Capabilities
from kprobe.tracefs.mounts import is_tracefs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe.tracefs.tracefs import Tracefs


class Machine:
    """Files of the traced machine by their absolute paths; this machine's are below `top`.

    Without access (`is_known` is False) every method returns that nothing is known.  `is_own`: this process runs on
    that machine, so /proc/self describes it.
    """

    def __init__(self, read: Callable[[str], bytes] | None = None, top: str | None = None) -> None:
        self._read = read
        self._top = top
        self.unread: dict[str, str] = {}
        self.is_own = top is not None
        self.is_known = read is not None or top is not None

    def text(self, path: str) -> str | None:
        """Return a file's text, stripped; None if it doesn't exist or can't be read.

        Existing files that can't be read are noted in `unread`.
        """
        data = self.data(path)
        return None if data is None else data.decode(errors="replace").strip()

    def data(self, path: str) -> bytes | None:
        """Return a file's bytes; None if it doesn't exist or can't be read."""
        try:
            if self._top is not None:
                with open(self._top + path, "rb") as file:
                    return file.read()
            return None if self._read is None else self._read(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESRCH):
                self.unread[path] = error.strerror or str(error)
            return None

    def link(self, path: str) -> str:
        """Return the target of a symbolic link; "" if unknown."""
        try:
            return "" if self._top is None else os.readlink(self._top + path)
        except OSError:
            return ""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; [] if unknown."""
        try:
            return [] if self._top is None else os.listdir(self._top + path)
        except OSError:
            return []


def machine_of(tracefs: Tracefs | None) -> Machine:
    """Return the machine of a tracefs; without one, this machine.

    A tracefs that is mounted here belongs to this machine only if the kernel serves it.
    """
    if tracefs is None:
        return Machine(top="")
    offers = Capabilities(tracefs)
    if offers.root is not None:
        return Machine(top="") if is_tracefs(offers.root) else Machine()
    return Machine(offers.machine_file)
