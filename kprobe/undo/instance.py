"""Where a trace works: in its own instance, or at the top level of the tracefs."""

from __future__ import annotations

import errno
import time

from kprobe.definitions import filters
from kprobe.errors import KprobeError, NotPermitted, Refused
from kprobe.kernel.denial import denied
from kprobe.tracefs.capabilities import Capabilities
from kprobe.tracefs.turn import LOOK
from kprobe.tracefs.value import known_value

from .undo import full

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from kprobe.tracefs.tracefs import Tracefs

    from .owners import Owner
    from .undo import Undo

ROOM = "instances"
PATIENCE = 1.0  # seconds that others get to finish reading in an instance
TOP_NOTICE = "working at the top level, whose buffer and options are everybody's"


class Instance:
    """A buffer with its events and options; `prefix` is "" at the top level, else "instances/NAME/".

    `session` names the session that works here, and its instance and its events' group; `reason` says why it is the top
    level, "" if the user chose that.  `doubts` are notices from its making.
    """

    def __init__(
        self, tracefs: Tracefs, session: str, prefix: str = "", reason: str = "", doubts: tuple[str, ...] = ()
    ) -> None:
        self._tracefs = tracefs
        self.session = session
        self.prefix = prefix
        self.reason = reason
        self.doubts = doubts

    @property
    def is_own(self) -> bool:
        """True if nobody else works here, so that removing the directory undoes everything in it."""
        return bool(self.prefix)

    def path(self, name: str) -> str:
        """Return the path of one of its files."""
        return self.prefix + name

    def state(self, name: str) -> str:
        """Return the value in one of its files; "" if it can't be read."""
        return known_value(self._tracefs, self.path(name))

    def has(self, name: str) -> bool:
        """True if it has this file or directory."""
        return self._tracefs.exists(self.path(name))

    @property
    def picks_threads(self) -> bool:
        """True if it can let some threads alone fire events; else that takes a filter.

        It does at the top level, where set_event_pid is shared, and on kernels before 4.4, which have none.
        """
        return self.is_own and self.has("set_event_pid")

    def add_threads(self, tids: Iterable[int]) -> None:
        """Let only these threads, and those added before, fire the events that exist now."""
        path = self.path("set_event_pid")
        for tid in tids:  # one per write: a thread that is gone must not keep the others out
            try:
                self._tracefs.write(path, b"%d\n" % tid)
            except OSError as error:
                if error.errno == errno.ESRCH:
                    continue
                raise denied(self._tracefs, path, error) from error

    def notices(self) -> list[str]:
        """Say what may surprise here: tracing switched off, another's tracer or events."""
        found = list(self.doubts)
        where = self.prefix or "the top level"
        if self.state("tracing_on") == "0":
            found.append(f"tracing is off (tracing_on is 0 in {where}): nothing will be recorded")
        if self.is_own:
            return found
        if self.reason and self._tracefs.exists(ROOM):  # a kernel without instances leaves no choice
            found.append(f"{TOP_NOTICE} ({self.reason})")
        tracer = self.state("current_tracer")
        if tracer not in ("", "nop"):
            found.append(f"the tracer {tracer} is at work there: its lines are shown, too")
        if self.state("set_event_pid") not in ("", "no pid"):
            found.append("set_event_pid is set there: events of other threads won't be recorded")
        if any(not line.startswith("#") for line in self.state("trace").splitlines()):
            found.append("the buffer already holds others' events: they are shown, too")
        return found


def new_session(tracefs: Tracefs, owner: Owner, *, is_named: bool = False, after: int = -1) -> tuple[str, int]:
    """Return the owner's next session name that no instance and no group has, and its number."""
    number = after + 1
    while True:
        name = owner.session(number, is_named=is_named)
        if not tracefs.exists(f"{ROOM}/{name}") and not tracefs.exists(f"events/{name}"):
            return name, number
        number += 1


def open_instance(
    tracefs: Tracefs, undo: Undo, owner: Owner, *, top_level: bool = False, is_named: bool = False
) -> Instance:
    """Make an instance named after the session; on a kernel without instances, use the top level.

    `is_named`: the user named the group of its events.  It is the top level where the kernel has no instances or denies
    them to us.  Raise `Refused` for any other failure: a passing failure isn't a reason to use the shared top level.
    """
    number = -1
    doubts: list[str] = []
    while True:
        name, number = new_session(tracefs, owner, is_named=is_named, after=number)
        if top_level:
            return Instance(tracefs, name)
        if not tracefs.exists(ROOM):
            return Instance(tracefs, name, reason="this kernel has no instances")
        directory = f"{ROOM}/{name}"
        command = f"rmdir {full(tracefs, directory)}"
        step = undo.push(
            f"remove {directory}",
            lambda path=directory: _remove(tracefs, path),  # type: ignore[misc]
            command=lambda command=command: command,  # type: ignore[misc]
            is_left=lambda path=directory: tracefs.exists(path),  # type: ignore[misc]
            frees=True,
        )
        try:
            tracefs.mkdir(directory)
        except OSError as error:
            if error.errno == errno.EEXIST:  # somebody was faster, unless the kernel's answer is wrong
                undo.drop(step)
                doubts.append(f"{directory} was created by somebody else meanwhile; if no trace uses it: {command}")
                continue
            refused = _no_instance(tracefs, directory, error)
            if not _is_there(tracefs, directory):
                undo.drop(step)
                if isinstance(refused, NotPermitted):
                    return Instance(tracefs, name, reason=f"{directory}: {error.strerror}")
            raise refused from error
        return Instance(tracefs, name, directory + "/", doubts=tuple(doubts))


def _remove(tracefs: Tracefs, directory: str) -> None:
    """Remove an instance; wait while another process reads a file in it, as a process that met our event may."""
    end = time.monotonic() + (PATIENCE if Capabilities(tracefs).root else 0)
    while True:
        try:
            return tracefs.rmdir(directory)
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() >= end:
                raise
        time.sleep(LOOK)


def _no_instance(tracefs: Tracefs, directory: str, error: OSError) -> KprobeError:
    refused = denied(tracefs, directory, error)
    if not isinstance(refused, Refused):
        return refused
    hint = "no instance of our own can be made; to work at the top level, which is everybody's: --top-level"
    return type(refused)(refused.path, f"mkdir {directory}", refused.errno, hint=hint)


def _is_there(tracefs: Tracefs, path: str) -> bool:
    """Return whether it exists, after an error; if that is unknown, it may."""
    try:
        return tracefs.exists(path)
    except OSError:
        return True


def pick(instance: Instance, tids: list[int]) -> str:
    """Restrict an instance to threads (none given: all); return the filter that each event needs for that, or ""."""
    if tids and not instance.picks_threads:
        return filters.thread_filter(tids)
    instance.add_threads(tids)
    return ""
