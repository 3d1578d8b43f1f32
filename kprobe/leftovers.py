"""What kprobes left in a tracefs that were killed: instances of owners that are gone, and the events enabled there."""

from __future__ import annotations

import os

from . import owners
from .denial import denied
from .instance import ROOM
from .listing import PATH, read_lines
from .processes import PROC, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .tracefs import Tracefs


class Leftover:
    """An instance that a kprobe made, instances/kprobe_PID_N.

    `holder` says which process may still use it, "" if its maker is dead; `events` are the kprobe events, GROUP/NAME,
    that are enabled there or have a filter there: those that its maker added.
    """

    __slots__ = ("directory", "events", "holder", "pid")

    def __init__(self, directory: str, pid: int, holder: str, events: tuple[str, ...]) -> None:
        self.directory = directory
        self.pid = pid
        self.holder = holder
        self.events = events


def find(tracefs: Tracefs, proc: str = PROC) -> list[Leftover]:
    """Return the instances that kprobes made, with what is known of their makers.

    Raise `NotPermitted` or `Refused` if the tracefs can't be read.
    """
    if not tracefs.exists(ROOM):
        return []
    try:
        names = sorted(tracefs.listdir(ROOM))
    except OSError as error:
        raise denied(tracefs, ROOM, error) from error
    pids = {name: pid for name in names if (pid := _pid(name))}
    events = list(probes(tracefs)) if pids else []
    found = []
    for name, pid in pids.items():
        directory = f"{ROOM}/{name}"
        used = tuple(event for event in events if uses(tracefs, f"{directory}/", event))
        found.append(Leftover(directory, pid, _holder(tracefs, directory, pid, proc), used))
    return found


def probes(tracefs: Tracefs) -> dict[str, list[str]]:
    """Return the lines of kprobe_events by their event, GROUP/NAME."""
    try:
        lines = read_lines(tracefs.read(PATH))
    except OSError as error:
        raise denied(tracefs, PATH, error) from error
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(line.event, []).append(line.text)
    return found


def uses(tracefs: Tracefs, place: str, event: str) -> bool:
    """True if the event is enabled in a place ("" or "instances/NAME/"), or has a filter there."""
    return _state(tracefs, f"{place}events/{event}/enable", "0") != "0" or has_filter(tracefs, place, event)


def has_filter(tracefs: Tracefs, place: str, event: str) -> bool:
    """True if the event has a filter in a place."""
    return _state(tracefs, f"{place}events/{event}/filter", "none") != "none"


def whose(tracefs: Tracefs, event: str, proc: str = PROC) -> str:
    """Say what can be done about an event that is there already, if a kprobe made it; else ""."""
    try:
        found = [leftover for leftover in find(tracefs, proc) if event in leftover.events]
    except Exception:  # it is for a hint only
        return ""
    for leftover in found:
        if not leftover.holder:
            return (
                f"a kprobe that was killed left events/{event} and {leftover.directory} (process {leftover.pid} is "
                "gone): kprobe clean removes both"
            )
    return "".join(
        f"events/{event} is traced in {leftover.directory} by {leftover.holder}; choose another name"
        for leftover in found[:1]
    )


def _pid(name: str) -> int:
    """Return the pid of a name as `open_instance` gives it, 0 of any other."""
    words = name.split("_")
    if len(words) != 3 or words[0] != "kprobe" or any(not word.isascii() or not word.isdigit() for word in words[1:]):
        return 0
    return int(words[1]) if all(word == str(int(word)) for word in words[1:]) and len(words[1]) < 10 else 0


def _holder(tracefs: Tracefs, directory: str, pid: int, proc: str) -> str:
    own = getattr(tracefs, "threads", None)
    if own is not None:  # another machine's, where the maker may have run as well as here
        from .errors import NoSuchProcess

        try:
            threads(tracefs, pid, proc)
        except NoSuchProcess:
            pass
        else:
            return f"process {pid} there"
    return owners.holder(pid, _made(tracefs, directory), proc)


def _made(tracefs: Tracefs, directory: str) -> float | None:
    """Return when a directory was made; None where it isn't known."""
    full: Callable[[str], str] | None = getattr(tracefs, "full", None)
    if full is None:
        return None
    try:
        made, mounted = os.stat(full(directory)).st_ctime, os.stat(full("")).st_ctime
    except OSError:
        return None
    return None if made <= mounted else made  # a mount that keeps no times has the same for all


def _state(tracefs: Tracefs, path: str, default: str) -> str:
    try:
        return tracefs.read(path).decode(errors="replace").strip() or default
    except OSError:
        return default
