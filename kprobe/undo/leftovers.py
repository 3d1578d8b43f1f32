"""Sessions in a tracefs, and the instances and events left behind by those whose owners were killed."""

from __future__ import annotations

from kprobe.definitions.probe import ALL, KPROBES, UPROBES
from kprobe.kernel.denial import denied
from kprobe.kernel.listing import read_lines
from kprobe.tracefs.capabilities import Capabilities
from kprobe.tracefs.value import known_value

from . import owners
from .instance import ROOM
from .processes import PROC, threads

KINDS = "prfte"  # the beginnings of lines in dynamic_events, which also shows synthetic and user events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.kernel.listing import Line
    from kprobe.tracefs.tracefs import Tracefs

    from .owners import Owner


class Leftover:
    """The events and the instance of a session, found by the name that `owners.Owner.session` gave it.

    `directory` is the instance, "" if there is none.  `holder` says which process may still use it, "" if its owner is
    dead.  `events` are the session's, GROUP/NAME: those of its group and, if the user named a group (`is_named`), those
    enabled or filtered in its instance.
    """

    __slots__ = ("directory", "events", "holder", "is_named", "name", "owner")

    def __init__(
        self, name: str, directory: str, owner: Owner, holder: str, events: tuple[str, ...], is_named: bool
    ) -> None:
        self.name = name
        self.directory = directory
        self.owner = owner
        self.holder = holder
        self.events = events
        self.is_named = is_named


def find(tracefs: Tracefs, proc: str = PROC) -> list[Leftover]:
    """Return all sessions and their owners.

    Raise `NotPermitted` or `Refused` if the tracefs can't be read.
    """
    instances: list[str] = []
    if tracefs.exists(ROOM):
        try:
            instances = tracefs.listdir(ROOM)
        except OSError as error:
            raise denied(tracefs, ROOM, error) from error
    events = list(probes(tracefs))
    found = []
    for name in sorted({*instances, *(event.partition("/")[0] for event in events)}):
        session = owners.read_session(name)
        if session is None:
            continue
        directory = f"{ROOM}/{name}" if name in instances else ""
        own = [event for event in events if event.startswith(f"{name}/")]
        if session.is_named and directory:
            own += [event for event in events if event not in own and uses(tracefs, f"{directory}/", event)]
        user = holder(tracefs, session.owner, proc)
        found.append(Leftover(name, directory, session.owner, user, tuple(own), session.is_named))
    return found


def probes(tracefs: Tracefs) -> dict[str, list[Line]]:
    """Return the lines of all probes by event, GROUP/NAME, from dynamic_events or, before 5.0, the other files."""
    found: dict[str, list[Line]] = {}
    for file in (ALL,) if tracefs.exists(ALL) else (KPROBES, UPROBES):
        try:
            lines = read_lines(tracefs.read(file).replace(b"\t", b" ")) if file == ALL or tracefs.exists(file) else []
        except OSError as error:
            raise denied(tracefs, file, error) from error
        for line in lines:
            if line.text[0] in KINDS:
                found.setdefault(line.event, []).append(line)
    return found


def uses(tracefs: Tracefs, prefix: str, event: str) -> bool:
    """True if the event is enabled in an instance ("instances/NAME/"; "" is the top level), or has a filter there."""
    return _state(tracefs, f"{prefix}events/{event}/enable", "0") != "0" or has_filter(tracefs, prefix, event)


def has_filter(tracefs: Tracefs, prefix: str, event: str) -> bool:
    """Return whether the event has a filter in an instance."""
    return _state(tracefs, f"{prefix}events/{event}/filter", "none") != "none"


def whose(tracefs: Tracefs, event: str, proc: str = PROC) -> str:
    """Say what to do about an event that already exists, if a kprobe made it; else ""."""
    try:
        found = [leftover for leftover in find(tracefs, proc) if event in leftover.events]
    except Exception:  # only a hint depends on it
        return ""
    for leftover in found:
        if not leftover.holder:
            return (
                f"a kprobe that was killed left events/{event} and {leftover.directory} "
                f"(process {leftover.owner.pid} is gone): kprobe clean removes both"
            )
    return "".join(
        f"events/{event} is traced in {leftover.directory} by {leftover.holder}; choose another name"
        for leftover in found[:1]
    )


def holder(tracefs: Tracefs, owner: Owner, proc: str = PROC) -> str:
    """Describe the owner, here or on the machine of the tracefs; "" if that process is dead."""
    if Capabilities(tracefs).threads is not None:  # another machine's tracefs: the owner may have run there or here
        from kprobe.errors import NoSuchProcess

        try:
            threads(tracefs, owner.pid, proc)
        except NoSuchProcess:
            pass
        else:
            return f"process {owner.pid} there"
    return owners.holder(owner, proc)


def _state(tracefs: Tracefs, path: str, default: str) -> str:
    return known_value(tracefs, path) or default
