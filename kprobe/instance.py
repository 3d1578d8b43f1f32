"""Where a trace does its work: an instance of its own, or the top level of the tracefs."""

from __future__ import annotations

import errno

from . import filters, refusal
from .errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .tracefs import Tracefs
    from .undo import Undo

ROOM = "instances"
TOP_NOTICE = "working at the top level, whose buffer and options are everybody's"


class Instance:
    """A buffer with its events and options; `prefix` is "" at the top level, else "instances/NAME/".

    `reason` says why it is the top level; "" if that was asked for.
    """

    def __init__(self, tracefs: Tracefs, undo: Undo, prefix: str = "", reason: str = "") -> None:
        self._tracefs = tracefs
        self._undo = undo
        self.prefix = prefix
        self.reason = reason

    @property
    def is_own(self) -> bool:
        """True if nobody else works here, so that the directory's end undoes everything in it."""
        return bool(self.prefix)

    def path(self, name: str) -> str:
        """Return the path of one of its files."""
        return self.prefix + name

    def state(self, name: str) -> str:
        """Return the stripped text of one of its files; "" if it can't be read."""
        try:
            return self._tracefs.read(self.path(name)).decode(errors="replace").strip()
        except OSError:
            return ""

    def set_option(self, name: str, is_on: bool) -> None:
        """Set an option; at the top level the undo puts the old value back."""
        path = self.path(f"options/{name}")
        old = self.state(f"options/{name}")
        new = "1" if is_on else "0"
        if old == new:
            return
        if not old:
            raise Unsupported(f"option {name}", f"{path} can't be read")
        step = None
        if not self.is_own:
            step = self._undo.push(f"set {path} back to {old}", lambda: self._tracefs.write(path, old.encode() + b"\n"))
        try:
            self._tracefs.write(path, new.encode() + b"\n")
        except OSError as error:
            if step is not None:
                self._undo.drop(step)
            raise refusal.denied(self._tracefs, path, error) from error

    def add_threads(self, tids: Iterable[int]) -> bool:
        """Let only these threads (and those added before) fire events here; False if that takes a filter.

        It does at the top level, whose set_event_pid is everybody's, and on kernels before 4.4, which have none.
        """
        path = self.path("set_event_pid")
        if not self.is_own or not self._tracefs.exists(path):
            return False
        for tid in tids:  # one a write: a thread that is gone by now must not keep the others out
            try:
                self._tracefs.write(path, b"%d\n" % tid)
            except OSError as error:
                if error.errno == errno.ESRCH:
                    continue
                raise refusal.denied(self._tracefs, path, error) from error
        return True

    def notices(self) -> list[str]:
        """Say what about the place may surprise: tracing switched off, another's tracer or events."""
        found = []
        where = self.prefix or "the top level"
        if self.state("tracing_on") == "0":
            found.append(f"tracing is off (tracing_on is 0 in {where}): nothing will be recorded")
        if self.is_own:
            return found
        if self.reason:
            found.append(f"{TOP_NOTICE} ({self.reason})")
        tracer = self.state("current_tracer")
        if tracer not in ("", "nop"):
            found.append(f"the tracer {tracer} is at work there: its lines come too")
        if self.state("set_event_pid") not in ("", "no pid"):
            found.append("set_event_pid is set there: events of other threads won't come")
        if any(not line.startswith("#") for line in self.state("trace").splitlines()):
            found.append("the buffer already holds events of others: they come too")
        return found


def open_instance(tracefs: Tracefs, undo: Undo, owner: int, *, top_level: bool = False) -> Instance:
    """Make an instance of our own, instances/kprobe_OWNER_N; where there can't be one, use the top level."""
    if top_level:
        return Instance(tracefs, undo)
    if not tracefs.exists(ROOM):
        return Instance(tracefs, undo, reason="this kernel has no instances")
    number = 0
    while True:
        directory = f"{ROOM}/kprobe_{owner}_{number}"
        if tracefs.exists(directory):
            number += 1
            continue
        step = undo.push(f"remove {directory}", lambda path=directory: tracefs.rmdir(path))  # type: ignore[misc]
        try:
            tracefs.mkdir(directory)
        except OSError as error:
            undo.drop(step)
            if error.errno == errno.EEXIST:
                number += 1
                continue
            return Instance(tracefs, undo, reason=f"{directory}: {error.strerror}")
        return Instance(tracefs, undo, directory + "/")


def pick(instance: Instance, tids: list[int], user_filter: str) -> tuple[str, bool]:
    """Restrict an instance to threads (none given: all); return the filter that it takes, and if that picks them."""
    if not tids or instance.add_threads(tids):
        return filters.both(user_filter), False
    return filters.both(user_filter, filters.thread_filter(tids)), True
