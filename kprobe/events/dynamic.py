"""The dynamic events of a tracefs: who owns each, where it is enabled, how often it was hit and missed."""

from __future__ import annotations

import errno

from kprobe.errors import KprobeError, Unsupported
from kprobe.events.hits import FILES, profiled
from kprobe.kernel.denial import denied
from kprobe.kernel.dialect import switch
from kprobe.kernel.listing import Line, read_lines
from kprobe.undo import leftovers, markers
from kprobe.undo.instance import ROOM
from kprobe.undo.owners import read_session
from kprobe.undo.processes import PROC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.events.hits import Hits
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.leftovers import Leftover

ALL = "dynamic_events"  # since Linux 5.0
SYNTHETIC = "synthetic_events"  # since Linux 4.17
TOP = "top level"
ALIVE, DEAD, OTHER, UNKNOWN = "alive", "dead", "other", "unknown"
GROUPS = {"u": "user_events"}  # dynamic_events shows events of user_events without their group
ABSENT = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR)


class DynamicEvent:
    """One line of dynamic_events.

    `event` is its directory below events/, `owner` ALIVE or DEAD if a session of kprobe made it, of process `pid`,
    which `process` describes; OTHER if somebody else did, UNKNOWN if that can't be seen.  `keeps` says what a marker
    keeps for its session, "" for any other event.  `enabled` lists TOP and instances/NAME.  `hits` and `missed` are
    None where the kernel doesn't count them, or they can't be read.
    """

    __slots__ = ("definition", "enabled", "event", "hits", "keeps", "missed", "owner", "pid", "process")

    def __init__(
        self, definition: str, event: str, owner: str, session: Leftover | None, enabled: list[str], hits: Hits | None
    ) -> None:
        marker = markers.parse(Line(definition))
        self.keeps = "" if marker is None else str(marker)
        self.definition = definition
        self.event = event
        self.owner = owner
        self.pid = session.owner.pid if session is not None else None
        self.process = session.holder if session is not None else ""
        self.enabled = tuple(enabled)
        self.hits = hits.count if hits is not None else None
        self.missed = hits.missed if hits is not None else None


class Overview:
    """The dynamic events of a tracefs, as they are now; `notes` say what could not be read.

    Raise `NotPermitted` or `Refused` if no list of them can be read, `Unsupported` if there is none.
    """

    def __init__(self, tracefs: Tracefs, proc: str = PROC) -> None:
        self._tracefs = tracefs
        self._failed: dict[str, OSError] = {}
        self.notes: list[str] = []
        self._counts: dict[str, list[Hits | None]] = {}
        lines = self._lines()
        prefixes = self._prefixes()
        sessions = self._sessions(proc) if lines else []
        self._marked = _marked(lines)
        self.events = [self._event(line, prefixes, sessions) for line in lines]
        self.notes[:0] = [f"can't read {path}: {error.strerror}" for path, error in self._failed.items()]

    def _lines(self) -> list[Line]:
        data = self._read(ALL)
        lines = []
        found = data is not None
        for file in FILES:
            one, hits = profiled(self._read, file)
            counts: list[Hits | None] = [None] * len(one) if hits is None else [*hits]
            found |= file not in self._failed and self._tracefs.exists(file)
            if one and hits is None and FILES[file] not in self._failed:
                self.notes.append(f"{FILES[file]} doesn't show the probes of {file}: no hits of them")
            for line, count in zip(one, counts, strict=True):
                self._counts.setdefault(line.text, []).append(count)
            lines += one
        if not found:
            for path, error in self._failed.items():
                raise denied(self._tracefs, path, error) from error
            raise Unsupported("dynamic events", f"there is none of {', '.join((ALL, *FILES))}")
        return lines + self._synthetic() if data is None else read_lines(data.replace(b"\t", b" "))

    def _synthetic(self) -> list[Line]:
        """Return the synthetic events in the form of dynamic_events, for a kernel without that file."""
        data = self._read(SYNTHETIC) or b""
        return [Line(f"s:synthetic/{line.text}") for line in read_lines(data.replace(b"\t", b" "))]

    def _prefixes(self) -> list[str]:
        """Return the prefixes of the top level and of all instances."""
        try:
            return ["", *(f"{ROOM}/{name}/" for name in sorted(self._tracefs.listdir(ROOM)))]
        except OSError as error:
            if error.errno not in ABSENT:
                self._failed[ROOM] = error
            return [""]

    def _sessions(self, proc: str) -> list[Leftover] | None:
        try:
            return leftovers.find(self._tracefs, proc)
        except (KprobeError, OSError) as error:
            self.notes.append(f"the owners of these events are unknown: {error}")
            return None

    def _event(self, line: Line, prefixes: list[str], sessions: list[Leftover] | None) -> DynamicEvent:
        head = line.text.partition(" ")[0]
        event = line.event
        if "/" not in head:
            event = f"{GROUPS.get(head.partition(':')[0], event.partition('/')[0])}/{event.partition('/')[2]}"
        names = (self._marked.get(event, event), event)
        session = next((one for one in sessions or () if any(name in one.events for name in names)), None)
        if session is not None:
            owner = ALIVE if session.holder else DEAD
        else:
            owner = UNKNOWN if sessions is None or read_session(event.partition("/")[0]) is not None else OTHER
        counts = self._counts.get(line.text, [])
        enabled = [prefix.rstrip("/") or TOP for prefix in prefixes if self._is_enabled(prefix, event)]
        return DynamicEvent(line.text, event, owner, session, enabled, counts.pop(0) if counts else None)

    def _is_enabled(self, prefix: str, event: str) -> bool:
        data = self._read(f"{prefix}events/{event}/{switch(self._tracefs, event)}")
        return data is not None and data[:1] == b"1"

    def _read(self, path: str) -> bytes | None:
        """Return a file, or None if it can't be read, which is noted unless it doesn't exist."""
        try:
            return self._tracefs.read(path)
        except OSError as error:
            if error.errno not in ABSENT:
                self._failed[path] = error
            return None


def _marked(lines: list[Line]) -> dict[str, str]:
    """Return events in groups that users named, each with the marker that names its session."""
    found = {}
    for marker in map(markers.parse, lines):
        if marker is not None and marker.definition:
            found[marker.definition.partition(" ")[0].partition(":")[2]] = marker.event
    return found
