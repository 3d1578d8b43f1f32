"""Removes what sessions left whose owners were killed, and nothing that anybody else made."""

from __future__ import annotations

import errno

from . import leftovers
from .errors import KprobeError
from .instance import ROOM
from .processes import PROC
from .undo import GONE, full

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .leftovers import Leftover
    from .listing import Line
    from .tracefs import Tracefs


class Cleaning:
    """One go over a tracefs; `is_dry`: only look.

    `lines` say what became of each thing, `notes` what the user should know beside; `has_failed` if something is left
    that should have gone.
    """

    def __init__(self, tracefs: Tracefs, is_dry: bool = False) -> None:
        self._tracefs = tracefs
        self._is_dry = is_dry
        self._gone: list[str] = []
        self.lines: list[str] = []
        self.notes: list[str] = []
        self.has_failed = False

    def take(self, leftover: Leftover) -> None:
        """Remove what there is of a session if its owner is dead: its instance, then its events.

        The kernel keeps an event (EBUSY) while an instance has it enabled.
        """
        directory = leftover.directory
        if leftover.holder:
            self.lines.append(f"kept {directory or leftover.name}: {leftover.holder} may be using it")
            return
        if directory:
            if not self._do(directory, lambda: self._tracefs.rmdir(directory), "somebody reads there"):
                return
            self._gone.append(directory)
            self._removed(directory, f"process {leftover.pid} is gone")
        lines = leftovers.probes(self._tracefs) if leftover.events else {}
        for event in leftover.events:
            self._take_event(event, lines.get(event, []), is_named=not event.startswith(f"{leftover.name}/"))
        if leftover.is_named and all(event.startswith(f"{leftover.name}/") for event in leftover.events):
            self._doubt(directory)

    def _take_event(self, event: str, here: list[Line], *, is_named: bool) -> None:
        """Remove an event; in a group that the user named only if nothing speaks for another's use of it."""
        users = self._users(event)
        if not is_named and "" in users and not self._is_dry:  # at the top level it was the session's own doing
            path = f"events/{event}/enable"
            if not self._do(path, lambda: self._tracefs.write(path, b"0\n"), "somebody changes it"):
                return
        if not is_named:
            users = [place for place in users if place]
        if is_named and len(here) > 1:
            self.lines.append(f"kept {event}: {len(here)} probes are on it, and whose each is can't be told")
        elif users:
            self.lines.append(
                f"kept {event}: it is in use in {' and '.join(place or 'the top level' for place in users)}"
            )
            self.has_failed |= not is_named
        elif here:
            command = f"-:{event}\n".encode(errors="surrogateescape")
            if self._do(event, lambda: self._tracefs.write(here[0].file, command), "somebody has it enabled"):
                for line in here:
                    self._removed(event, line.text)

    def _users(self, event: str) -> list[str]:
        """Return the places that use an event: "" for the top level, or instances/NAME."""
        places = [""]
        if self._tracefs.exists(ROOM):
            places += [f"{ROOM}/{name}/" for name in self._tracefs.listdir(ROOM)]
        left = [place for place in places if place.rstrip("/") not in self._gone]
        return [place.rstrip("/") for place in left if leftovers.uses(self._tracefs, place, event)]

    def _doubt(self, directory: str) -> None:
        """Name the events that a kprobe may have left that was killed before it enabled its own."""
        probes = leftovers.probes(self._tracefs)
        idle = [probes[event][0] for event in probes if not self._users(event)]
        if idle:
            self.notes.append(
                f"NOTE: no event was enabled in {directory}. If one that nobody uses was added for it, remove it:"
                + "".join(f"\n  echo '-:{line.event}' >> {full(self._tracefs, line.file)}" for line in idle)
            )

    def _removed(self, what: str, why: str) -> None:
        self.lines.append(f"{'would remove' if self._is_dry else 'removed'} {what} ({why})")

    def _do(self, what: str, action: Callable[[], object], busy: str) -> bool:
        """Take an action; return False, and say why, if the kernel refuses it."""
        if self._is_dry:
            return True
        try:
            action()
        except OSError as error:
            if error.errno in GONE:
                return True
            self.has_failed = True
            reason = f"{error.strerror} ({busy})" if error.errno == errno.EBUSY else f"{error.strerror}"
            self.lines.append(f"kept {what}: {reason}")
            return False
        return True


def clear(tracefs: Tracefs, proc: str = PROC) -> list[str]:
    """Remove what killed sessions left, as every session does before it begins; return what the user should know."""
    try:
        dead = [leftover for leftover in leftovers.find(tracefs, proc) if not leftover.holder]
        cleaning = Cleaning(tracefs)
        for leftover in dead:
            cleaning.take(leftover)
    except (KprobeError, OSError):  # it is for the session's own operations to fail
        return []
    return [f"of a kprobe that was killed: {line}" for line in cleaning.lines]
