"""A real kernel's tracefs, put back as it was before each test.

The order is that of the kernel's own selftests (tracing off, triggers, filters, events, probes, the rest, tracing on),
but only what was touched is written, so that it takes tens of milliseconds and not a minute.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

# Control files with a value that a test may change; read at the start, compared and restored before each test.
_VALUES = (
    "current_tracer",
    "trace_clock",
    "buffer_size_kb",
    "tracing_cpumask",
    "tracing_thresh",
    "saved_cmdlines_size",
    "max_graph_depth",
    "stack_max_size",
    "buffer_percent",
    "tracing_max_latency",
    "trace_options",
)
# Lists that O_TRUNC empties.
_LISTS = ("set_event_pid", "set_event_notrace_pid", "set_ftrace_pid", "set_ftrace_filter", "set_ftrace_notrace")
_EVENT_FILES = ("filter", "trigger", "enable")


class Pristine:
    """A tracefs that notes what is written through it, and undoes it with `reset`."""

    def __init__(self, tracefs: Any) -> None:
        self._tracefs = tracefs
        self._open: list[Any] = []
        self._touched: dict[str, None] = {}
        self._instances: dict[str, None] = {}
        self._before = {path: tracefs.read(path) for path in _VALUES if tracefs.exists(path)}
        self._lists = [path for path in _LISTS if tracefs.exists(path)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        """Write as the tracefs below does."""
        self._note(path)
        self._tracefs.write(path, data, truncate=truncate)

    def open(self, path: str, flags: int = os.O_RDONLY) -> Any:
        """Open as the tracefs below does; `reset` closes what a failed test left open."""
        if flags & os.O_ACCMODE != os.O_RDONLY:
            self._note(path)
        handle = self._tracefs.open(path, flags)
        self._open.append(handle)
        return handle

    def stream(self, path: str) -> Any:
        """Stream as the tracefs below does."""
        stream = self._tracefs.stream(path)
        self._open.append(stream)
        return stream

    def mkdir(self, path: str) -> None:
        """Make a directory (an instance)."""
        self._tracefs.mkdir(path)
        self._instances[path] = None

    def is_in_use(self) -> bool:
        """Tell whether somebody traces here: a probe, an enabled event or a tracer that isn't nop."""
        read = self._tracefs.read
        return bool(read("dynamic_events") or read("set_event")) or read("current_tracer") != b"nop\n"

    def reset(self) -> None:
        """Undo everything, in the order of the kernel's selftests."""
        tracefs = self._tracefs
        for handle in self._open:
            with contextlib.suppress(OSError):
                handle.close()
        self._open.clear()
        tracefs.write("tracing_on", b"0")
        for path in self._instances:
            if tracefs.exists(path):
                tracefs.rmdir(path)
        for path in self._touched:
            if path.endswith("/trigger"):
                self._remove_triggers(path)
        for path in self._touched:
            if path.endswith("/filter") and tracefs.exists(path):
                with contextlib.suppress(OSError):
                    tracefs.write(path, b"0")
        if tracefs.read("set_event"):
            tracefs.write("set_event", b"", truncate=True)
        for path in self._touched:
            if path.endswith("/enable") and tracefs.exists(path):
                tracefs.write(path, b"0")
        if tracefs.read("dynamic_events"):
            tracefs.write("dynamic_events", b"", truncate=True)
        for path in self._lists:
            if path in self._touched:
                tracefs.write(path, b"", truncate=True)
        for path, before in self._before.items():
            self._restore(path, before)
        tracefs.write("error_log", b"", truncate=True)
        tracefs.write("trace", b"", truncate=True)
        tracefs.write("tracing_on", b"1")
        self._touched.clear()
        self._instances.clear()

    def _note(self, path: str) -> None:
        self._touched[path] = None

    def _remove_triggers(self, path: str) -> None:
        if not self._tracefs.exists(path):
            return
        for line in self._tracefs.read(path).splitlines():
            if not line.startswith(b"#"):
                self._tracefs.write(path, b"!" + line)

    def _restore(self, path: str, before: bytes) -> None:
        now = self._tracefs.read(path)
        if now == before:
            return
        if path == "trace_options":
            for option in before.split():
                if option not in now.split():
                    self._tracefs.write(path, option)
        elif path == "trace_clock":
            self._tracefs.write(path, before.partition(b"[")[2].partition(b"]")[0])
        else:
            self._tracefs.write(path, before.split()[0])
