"""The probe in kprobe_events: added by appending one line, removed by name."""

from __future__ import annotations

import errno

from . import refusal
from .errorlog import read_log
from .errors import AlreadyExists, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .definition import Probe
    from .tracefs import Tracefs
    from .undo import Undo

PATH = "kprobe_events"


def add_probe(tracefs: Tracefs, undo: Undo, probe: Probe) -> None:
    """Append the probe to kprobe_events, with the undo that removes it.

    Raise `AlreadyExists` if there is an event of that group and name: another probe of the same event would be
    added to it, and be removed with it.  Raise `Refused`, or `Unsupported` if the kernel has no kprobe events, or made
    another event of it (before Linux 4.12 it takes `r10:name` but doesn't know the 10).
    """
    if not tracefs.exists(PATH):
        raise Unsupported("kprobe events", f"there is no {PATH}: it was built without CONFIG_KPROBE_EVENTS")
    directory = f"events/{probe.event}"
    if tracefs.exists(directory):
        raise AlreadyExists(
            PATH,
            str(probe),
            errno.EEXIST,
            says="",
            hint=f"{directory} is somebody's; choose another name, or remove it: echo '-:{probe.event}' >> {PATH}",
        )
    log = read_log(tracefs)
    before = _lines(tracefs)
    step = undo.push(f"remove {probe.event} from {PATH}", lambda: _remove(tracefs, probe.event))
    try:
        tracefs.write(PATH, str(probe).encode(errors="surrogateescape") + b"\n")
    except OSError as error:
        undo.drop(step)
        raise refusal.probe_refused(tracefs, PATH, probe, error, log) from error
    if not tracefs.exists(directory):
        undo.drop(step)
        made = [line.split()[0].partition(":")[2] for line in _lines(tracefs) if line not in before]
        for event in made:
            undo.push(f"remove {event} from {PATH}", lambda event=event: _remove(tracefs, event))  # type: ignore[misc]
        raise Unsupported(f"event {probe.event}", f"{probe} made {' '.join(made) or 'no event'} instead")


def missed(tracefs: Tracefs, probe: Probe) -> int:
    """Return how many hits the kernel could not record, by kprobe_profile; 0 if that can't be read."""
    try:
        rows = tracefs.read("kprobe_profile").decode(errors="replace").splitlines()
    except OSError:
        return 0
    words = [row.split() for row in rows]
    return sum(int(row[2]) for row in words if len(row) == 3 and row[0] == probe.name and row[2].isdigit())


def _remove(tracefs: Tracefs, event: str) -> None:
    tracefs.write(PATH, f"-:{event}\n".encode())


def _lines(tracefs: Tracefs) -> list[str]:
    try:
        return tracefs.read(PATH).decode(errors="replace").splitlines()
    except OSError:
        return []
