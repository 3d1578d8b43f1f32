"""The contents of a tracefs, read once for all checks; files that can't be read are remembered."""

from __future__ import annotations

import errno

from kprobe.tracefs.value import value
from kprobe.undo.instance import ROOM
from kprobe.undo.undo import full

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.doctor.machine import Machine
    from kprobe.tracefs.tracefs import Tracefs

ABSENT = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR)
DEBUGFS = "/sys/kernel/debug"


class Facts:
    """A tracefs and its machine, to be read and never written.

    `denied` has, by path, the errors of existing files that can't be read.
    """

    def __init__(self, tracefs: Tracefs, machine: Machine) -> None:
        self.tracefs = tracefs
        self.machine = machine
        self.denied: dict[str, OSError] = {}
        self._texts: dict[str, str | None] = {}

    def text(self, path: str) -> str | None:
        """Return a file's text, stripped; None if it doesn't exist or can't be read."""
        if path not in self._texts:
            self._texts[path] = self._text(path)
        return self._texts[path]

    def names(self, path: str) -> list[str]:
        """Return the names in a directory of the tracefs, sorted; [] if there is none or it can't be read."""
        try:
            return sorted(self.tracefs.listdir(path))
        except OSError as error:
            self._remember(path, error)
            return []

    def prefixes(self) -> list[str]:
        """Return the prefixes of the top level and of all instances."""
        return ["", *(f"{ROOM}/{name}/" for name in self.names(ROOM))]

    def typed(self, path: str) -> str:
        """Return a path of the tracefs, as typed on the traced machine."""
        return full(self.tracefs, path)

    def _text(self, path: str) -> str | None:
        try:
            return value(self.tracefs, path)
        except OSError as error:
            self._remember(path, error)
            return None

    def _remember(self, path: str, error: OSError) -> None:
        if error.errno not in ABSENT:
            self.denied[path] = error
