"""`kprobe clean`: remove what kprobes left that were killed, and nothing that anybody else made."""

from __future__ import annotations

from . import leftovers
from .instance import ROOM
from .listing import PATH
from .output import say
from .processes import PROC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .leftovers import Leftover
    from .output import Output
    from .signals import Signals
    from .tracefs import Tracefs

OK = 0
LEFT_BEHIND = 4


def run(tracefs: Tracefs, output: Output, signals: Signals, *, is_dry: bool = False, proc: str = PROC) -> int:
    """Remove it, with `is_dry` only look; print a line for each instance and event, and return the exit status.

    An instance is removed before its events, which the kernel keeps (EBUSY) while one has them enabled.
    """
    signals.end_by(lambda: None)  # an instance without its events' removal would hide whose they are
    cleaning = Cleaning(tracefs, is_dry)
    for leftover in leftovers.find(tracefs, proc):
        cleaning.take(leftover)
    cleaning.take_events()
    for line in cleaning.lines:
        output.write(f"{line}\n".encode(errors="surrogateescape"), lambda: bool(signals.received))
    output.finish(lambda: bool(signals.received))
    for note in cleaning.notes:
        say(note)
    if signals.received:
        return 128 + signals.received
    return LEFT_BEHIND if cleaning.has_failed else OK


class Cleaning:
    """One go over a tracefs: `lines` say what became of each thing, `notes` what the user should know beside."""

    def __init__(self, tracefs: Tracefs, is_dry: bool) -> None:
        self._tracefs = tracefs
        self._is_dry = is_dry
        self._gone: list[str] = []
        self._events: list[str] = []
        self.lines: list[str] = []
        self.notes: list[str] = []
        self.has_failed = False

    def take(self, leftover: Leftover) -> None:
        """Remove an instance if its maker is dead."""
        directory = leftover.directory
        if leftover.holder:
            self.lines.append(f"kept {directory}: {leftover.holder} may be using it")
            return
        if not self._is_dry:
            try:
                self._tracefs.rmdir(directory)
            except OSError as error:
                self._fail(directory, error, "somebody reads there")
                return
        self._gone.append(directory)
        self._events += [event for event in leftover.events if event not in self._events]
        self._removed(directory, f"process {leftover.pid} is gone")
        if not leftover.events:
            self._doubt(directory)

    def take_events(self) -> None:
        """Remove the events of the instances that were removed."""
        lines = leftovers.probes(self._tracefs) if self._events else {}
        for event in self._events:
            here = lines.get(event, [])
            users = self._users(event)
            if len(here) > 1:
                self.lines.append(f"kept {event}: {len(here)} probes are on it, and whose each is can't be told")
            elif users:
                self.lines.append(f"kept {event}: it is in use in {' and '.join(users)}")
            elif here:
                self._remove(event, here[0])

    def _remove(self, event: str, line: str) -> None:
        if not self._is_dry:
            try:
                self._tracefs.write(PATH, f"-:{event}\n".encode(errors="surrogateescape"))
            except OSError as error:
                self._fail(event, error, "somebody has it enabled")
                return
        self._removed(event, line)

    def _users(self, event: str) -> list[str]:
        places = [""]
        if self._tracefs.exists(ROOM):
            places += [f"{ROOM}/{name}/" for name in self._tracefs.listdir(ROOM)]
        left = [place for place in places if place.rstrip("/") not in self._gone]
        return [place.rstrip("/") or "the top level" for place in left if leftovers.uses(self._tracefs, place, event)]

    def _doubt(self, directory: str) -> None:
        """Name the events that a kprobe may have left that was killed before it enabled its own."""
        idle = [event for event in leftovers.probes(self._tracefs) if not self._users(event)]
        if idle:
            self.notes.append(
                f"NOTE: no event was enabled in {directory}. If one that nobody uses was added for it, remove it:"
                + "".join(f"\n  echo '-:{event}' >> {PATH}" for event in idle)
            )

    def _removed(self, what: str, why: str) -> None:
        self.lines.append(f"{'would remove' if self._is_dry else 'removed'} {what} ({why})")

    def _fail(self, what: str, error: OSError, busy: str) -> None:
        import errno

        self.has_failed = True
        reason = f"{error.strerror} ({busy})" if error.errno == errno.EBUSY else f"{error.strerror}"
        self.lines.append(f"kept {what}: {reason}")
