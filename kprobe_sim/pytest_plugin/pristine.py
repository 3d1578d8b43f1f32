"""A real kernel's tracefs, restored before each test.

The order is that of the kernel's own selftests (tracing off, triggers, filters, events, probes, the rest, tracing on).
Only what has changed is written, so that it takes tens of milliseconds and not a minute.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Any

from kprobe_sim.tree.files.capabilities import Capabilities
from kprobe_sim.tree.files.operation import Listener, notify
from kprobe_sim.tree.leftovers.events import Events
from kprobe_sim.tree.leftovers.texts import names, read_each
from kprobe_sim.tree.leftovers.values import Values

from .waits import BoundedFile, BoundedStream

_OPTIONS = ("trace_options", "options/", "current_tracer")  # writes that may change the files below options/


class Pristine:
    """A tracefs that notes what is written through it, and undoes it with `reset`.

    A tracefs that can be renewed (a guest's) belongs to the tests alone: `reset` removes every instance that is new
    there, however it was made.  A test that takes the `machine` can change anything by it.  Only after such a test, and
    on a tracefs that others use too, does `reset` restore the surroundings and read hundreds of files to find
    every filter.
    """

    def __init__(self, tracefs: Any) -> None:
        self._tracefs = tracefs
        offered = Capabilities(tracefs)
        self._is_owned = offered.renew is not None
        self._is_taken = False  # a test has taken the machine
        self.listener: Listener | None = None  # gets each operation that changes something
        self.refused: tuple[OSError, bytes] | None = None  # the last write that was refused, and its data
        self._open: list[Any] = []
        self._touched: dict[str, None] = {}
        self._instances: dict[str, None] = {}
        self._before = self._present()
        self._values = Values(tracefs, owned=self._is_owned)
        self._events = Events(tracefs)
        self._has_errors = tracefs.exists("error_log")  # since 5.2
        self._surroundings = None if offered.surroundings is None else offered.surroundings()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._tracefs, name)
        self._is_taken = self._is_taken or name == "machine"
        return value

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        """Write as the tracefs below does."""
        self._note(path)
        try:
            self._tracefs.write(path, data, truncate=truncate)
        except OSError as error:
            self.refused = error, data
            notify(self.listener, "open" if truncate and not data else "write", path, data, error)
            raise
        if truncate:
            notify(self.listener, "open", path)
        notify(self.listener, "write", path, data)

    def open(self, path: str, flags: int = os.O_RDONLY) -> Any:
        """Open as the tracefs below does; `reset` closes what a failed test left open."""
        if flags & os.O_ACCMODE != os.O_RDONLY:
            self._note(path)
        handle = self._tracefs.open(path, flags)
        if flags & os.O_TRUNC:
            notify(self.listener, "open", path)
        self._open.append(handle)
        return BoundedFile(handle, self, path) if self._is_owned else handle  # this machine's have no timeout

    def stream(self, path: str) -> Any:
        """Stream as the tracefs below does."""
        stream = self._tracefs.stream(path)
        self._open.append(stream)
        return BoundedStream(stream, self, path)

    def mkdir(self, path: str) -> None:
        """Make a directory (an instance)."""
        self._tracefs.mkdir(path)
        self._instances[path] = None
        notify(self.listener, "mkdir", path)

    def touched(self) -> list[str]:
        """Return the paths that were written and, if a test has taken the machine, those of all set filters."""
        return [*self._touched, *(self._filtered() if self._is_taken else ())]

    def is_in_use(self) -> bool:
        """Return whether somebody traces here: there is a probe, an enabled event, or a tracer other than nop."""
        in_use = read_each(self._tracefs, [*self._events.lists, "set_event"])
        return any(in_use.values()) or self._tracefs.read("current_tracer") != b"nop\n"

    def reset(self) -> list[str]:
        """Undo everything; return in words what can't be undone."""
        tracefs, touched = self._tracefs, list(self._touched)
        everywhere = self._is_taken or not self._is_owned
        left = []
        for handle in self._open:
            with contextlib.suppress(OSError):
                handle.close()
        self._open.clear()
        tracefs.write("tracing_on", b"0")
        if self._is_taken and self._surroundings is not None:
            left += self._surroundings.undo()
        left += self._remove_instances()
        self._values.clear_lists()
        left += self._events.undo(touched, self._filtered() if everywhere else ())
        left += self._values.restore(options=everywhere or any(path.startswith(_OPTIONS) for path in touched))
        if self._has_errors:
            tracefs.write("error_log", b"", truncate=True)
        tracefs.write("trace", b"", truncate=True)
        tracefs.write("tracing_on", b"1")
        self._touched.clear()
        self.refused = None
        self._instances.clear()
        self._is_taken = False
        return left

    def _note(self, path: str) -> None:
        self._touched.pop(path, None)
        self._touched[path] = None

    def _filtered(self) -> Iterable[str]:
        listed = self._tracefs.exists("show_event_filters")
        return self._events.filtered() if listed or self._surroundings is None else self._surroundings.filtered()

    def _present(self) -> set[str]:
        return {f"instances/{name}" for name in names(self._tracefs, "instances")}

    def _remove_instances(self) -> list[str]:
        present = self._present()
        made = present - self._before if self._is_owned else present & self._instances.keys()
        left = []
        for path in sorted(made):
            try:
                self._tracefs.rmdir(path)
            except OSError as error:
                left.append(f"{path} stays: {error.strerror}")
        return left
