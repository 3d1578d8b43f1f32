"""Removes what killed sessions left behind, and nothing that anybody else made."""

from __future__ import annotations

import errno

from kprobe.definitions.definition import parse
from kprobe.errors import KprobeError
from kprobe.kernel.listing import find
from kprobe.tracefs.turn import Turn

from . import leftovers, markers
from .instance import ROOM
from .processes import PROC
from .top_files import current, holders, is_value
from .undo import GONE, full

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe.kernel.listing import Line
    from kprobe.tracefs.tracefs import Tracefs

    from .leftovers import Leftover
    from .markers import Kept
    from .owners import Owner


class Cleaning:
    """One pass over a tracefs; `is_dry`: change nothing.

    `lines` say what became of each thing, `notes` what else the user should know; `has_failed` if a removal failed.
    """

    def __init__(self, tracefs: Tracefs, is_dry: bool = False, proc: str = PROC) -> None:
        self._tracefs = tracefs
        self._proc = proc
        self._is_dry = is_dry
        self._gone: list[str] = []
        self.lines: list[str] = []
        self.notes: list[str] = []
        self.has_failed = False

    def take(self, leftover: Leftover) -> None:
        """Remove what a session left if its owner is dead: its instance, then its events; restore its files.

        The kernel keeps an event (EBUSY) while an instance has it enabled.
        """
        directory = leftover.directory
        if leftover.holder:
            self.lines.append(f"kept {directory or leftover.name}: {leftover.holder} may be using it")
            return
        kept = [one for one in markers.read(self._tracefs) if one.session == leftover.name]
        for marker in kept:
            if marker.file:
                with Turn(self._tracefs):
                    self._take_file(marker, leftover.owner.pid)
        if directory:
            if not self._do(directory, lambda: self._tracefs.rmdir(directory), "somebody reads there"):
                return
            self._gone.append(directory)
            self._removed(directory, f"process {leftover.owner.pid} is gone")
        self._take_events(leftover, kept)

    def _take_events(self, leftover: Leftover, kept: list[Kept]) -> None:
        known = {one.event for one in kept}
        for marker in kept:
            if marker.definition:
                with Turn(self._tracefs):
                    known.add(self._take_marked(marker))
        lines = leftovers.probes(self._tracefs) if leftover.events else {}
        ours = f"{leftover.name}/"
        for event in leftover.events:
            if event not in known and event in lines:
                self._take_event(event, lines[event], is_named=not event.startswith(ours))
        if leftover.is_named and not kept and all(event.startswith(ours) for event in leftover.events):
            self._doubt(leftover.directory)

    def _take_file(self, marker: Kept, pid: int) -> None:
        """Restore a file of the top level, if it still holds what the session wrote and nobody else needs it."""
        tracefs, path = self._tracefs, marker.file
        if not markers.is_there(tracefs, marker.event):  # another came first
            return
        why = f"process {pid} is gone"
        shown = current(tracefs, path)
        users = holders(tracefs, path, marker.event, self._proc)
        if is_value(tracefs, path, marker.old, shown):
            done = f"removed {marker.event} ({path} is {shown}, as it was)"
        elif users:
            done = f"removed {marker.event} ({path} stays {shown} for {markers.holder(tracefs, users[0], self._proc)})"
        elif not is_value(tracefs, path, marker.new, shown):
            done = f"kept {path}: it is {shown}, and {marker} by process {pid}, which is gone"
        else:
            done = f"set {path} back to {marker.old} ({why})"
            if not self._do(path, lambda: tracefs.write(path, marker.old.encode() + b"\n"), "somebody uses it"):
                return
        if self._do(marker.event, lambda: markers.remove(tracefs, marker.event), "somebody has it enabled"):
            is_deed = not done.startswith("kept")
            self.lines.append(f"would {done.replace('removed', 'remove', 1)}" if self._is_dry and is_deed else done)

    def _take_marked(self, marker: Kept) -> str:
        """Remove an event in a group that the user named, if the session made it and nobody else uses it.

        Return the event, or "" if it isn't the session's.
        """
        tracefs, event = self._tracefs, ""
        here = markers.read(tracefs)
        if not any(one.event == marker.event for one in here):  # another came first
            return ""
        probe = parse(marker.definition)
        lines = leftovers.probes(tracefs).get(probe.event, [])
        rivals = [one for one in here if one.event != marker.event and one.definition]
        kinds = {"u": "pr"}.get(probe.kind, probe.kind)
        if lines and lines[0].text[0] in kinds and find(lines[:1], probe.with_args(lines[0].args)):
            if any(parse(one.definition).event == probe.event for one in rivals):
                self.lines.append(f"kept {probe.event}: another kprobe is adding it")
            else:
                self._take_event(probe.event, lines, is_named=True, is_top=marker.is_top)
                event = probe.event
        if self.has_failed and event in leftovers.probes(tracefs):
            return event  # for the next one to try
        if self._do(marker.event, lambda: markers.remove(tracefs, marker.event), "somebody has it enabled"):
            self._removed(marker.event, f"it kept {marker}")
        return event

    def _take_event(self, event: str, here: list[Line], *, is_named: bool, is_top: bool = False) -> None:
        """Remove an event; in a group that the user named, only if nobody else seems to use it."""
        users = self._users(event)
        is_top |= not is_named  # there the session itself enabled it
        if is_top and "" in users and (not is_named or len(here) == 1) and not self._is_dry:
            path = f"events/{event}/enable"
            if not self._do(path, lambda: self._tracefs.write(path, b"0\n"), "somebody changes it"):
                return
        if is_top:
            users = [place for place in users if place]
        if is_named and len(here) > 1:
            self.lines.append(f"kept {event}: {len(here)} probes are on it, and their owners can't be told apart")
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
        """Return the users of an event: "" for the top level, or instances/NAME."""
        places = [""]
        if self._tracefs.exists(ROOM):
            places += [f"{ROOM}/{name}/" for name in self._tracefs.listdir(ROOM)]
        left = [place for place in places if place.rstrip("/") not in self._gone]
        return [place.rstrip("/") for place in left if leftovers.uses(self._tracefs, place, event)]

    def _doubt(self, directory: str) -> None:
        """Name the events that a kprobe may have left if it was killed before enabling them."""
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
        """Run an action; return False, and say why, if the kernel refuses it."""
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


def clear(tracefs: Tracefs, proc: str = PROC, ours: Owner | None = None) -> list[str]:
    """Remove what killed sessions left, as every session does before it begins; return what the user should know.

    Sessions of `ours` stay: their owner is the caller.
    """
    try:
        found = leftovers.find(tracefs, proc)
        dead = [leftover for leftover in found if not leftover.holder and leftover.owner != ours]
        cleaning = Cleaning(tracefs, proc=proc)
        for leftover in dead:
            cleaning.take(leftover)
    except (KprobeError, OSError):  # the session's operations will report the error
        return []
    return [f"of a kprobe that was killed: {line}" for line in cleaning.lines]
