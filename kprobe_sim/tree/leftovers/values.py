"""The files of a tracefs that have a value: read at first, compared later, and written back."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from typing import Any

from kprobe_sim.builds.page import PAGE_SIZE

from .texts import names, read_each

_TRACER = "current_tracer"
_BUFFER = "buffer_size_kb"
# The tracer comes first, as others can't be changed under some, and the size of sub-buffers before that of buffers.
VALUES = (
    _TRACER,
    "trace_clock",
    "buffer_subbuf_size_kb",
    _BUFFER,
    "tracing_cpumask",
    "tracing_thresh",
    "saved_cmdlines_size",
    "max_graph_depth",
    "stack_max_size",
    "buffer_percent",
    "tracing_max_latency",
    "syscall_user_buf_size",
    "function_profile_enabled",
)
# What O_TRUNC empties; functions with commands stay in set_ftrace_filter and are taken out one by one.
LISTS = (
    "set_event_pid",
    "set_event_notrace_pid",
    "set_ftrace_pid",
    "set_ftrace_notrace_pid",
    "set_ftrace_filter",
    "set_ftrace_notrace",
    "set_graph_function",
    "set_graph_notrace",
    "stack_trace_filter",
)
_EXPANDED = re.compile(rb".* \(expanded: (\d+)\)\n")
_CHOSEN = re.compile(rb"[^\[\n]*\[([^\s\[\]]+)\][^\[\n]*\n")
FREED = b"Snapshot is freed"
# What is known of tasks that were traced.  Their names are forgotten when the size is set, their groups never.
_NAMES, _SIZE, _GROUPS = "saved_cmdlines", "saved_cmdlines_size", "saved_tgids"
_KNOWN = ((_NAMES, _SIZE), (_GROUPS, _GROUPS))
_SHOWN = (*LISTS, _GROUPS, "timestamp_mode")  # compared, and not changed by writing what was shown


class Values:
    """The values of a tracefs when this was made; with `owned` nobody else's tasks are traced there."""

    def __init__(self, tracefs: Any, *, owned: bool) -> None:
        self._tracefs = tracefs
        self._options = names(tracefs, "options")
        watched = [*VALUES, *LISTS, "timestamp_mode", *(f"options/{name}" for name in self._options)]
        known = [path for path, has in _KNOWN if owned and tracefs.exists(has)]
        self._before = {path: value_of(text) for path, text in read_each(tracefs, [*watched, *known]).items()}
        self._has_snapshot = tracefs.exists("snapshot") and hasattr(tracefs, "open")
        self._expanded = b""  # what buffers show that were expanded: some more than was asked for

    def clear_lists(self) -> None:
        """Empty the lists, whose functions may have commands that use events.

        The tracer ends before that: if it traced a few functions, all of them would be patched for it.
        """
        for path in self._changed([_TRACER, *(path for path in LISTS if path in self._before)], options=False):
            with contextlib.suppress(OSError):
                if path == _TRACER:
                    self._write_back(path)
                    continue
                self._tracefs.write(path, b"", truncate=True)
                for line in self._tracefs.read(path).splitlines():
                    if not line.startswith(b"#") and b":" in line:  # FUNCTION:COMMAND:count=NUMBER
                        command = line.removesuffix(b":unlimited").replace(b":count=", b":")
                        self._tracefs.write(path, b"!" + command + b"\n")

    def restore(self, *, options: bool) -> list[str]:
        """Write back what has changed, and return in words what can't be; the options are looked at if asked to."""
        changed = self._changed(self._before, options)
        for path in changed:
            with contextlib.suppress(OSError):
                self._write_back(path)
        if self._is_allocated():
            with contextlib.suppress(OSError):
                self._tracefs.write("snapshot", b"0")
        left = [
            f"{path} stays {_shown(self._tracefs.read(path))}"
            for path in self._changed(changed, options)
            if path != _NAMES or self._tracefs.read(path)
        ]
        return [*left, "the snapshot stays allocated"] if self._is_allocated() else left

    def _changed(self, paths: Iterable[str], options: bool) -> list[str]:
        looked = [path for path in paths if options or not path.startswith("options/")]
        if not looked:
            return []
        texts = read_each(self._tracefs, looked)
        now = {path: value_of(texts[path]) if path in texts else None for path in looked}
        return [
            path
            for path in looked
            if now[path] != self._before[path] and (path != _BUFFER or now[path] != self._expanded)
        ]

    def _write_back(self, path: str) -> None:
        if path == _NAMES:
            self._tracefs.write(_SIZE, self._tracefs.read(_SIZE))
        elif path not in _SHOWN:
            self._tracefs.write(path, self._before[path])
            if path == _BUFFER:
                self._expanded = value_of(self._tracefs.read(path))

    def _is_allocated(self) -> bool:
        if not self._has_snapshot:
            return False
        head = read_each(self._tracefs, ["snapshot"], most=PAGE_SIZE)  # as there may be a lot in it
        return FREED not in head.get("snapshot", FREED)


def value_of(text: bytes) -> bytes:
    """Return what to write for a value that is shown thus: the one in brackets, or what a buffer expands to at use."""
    shown = _EXPANDED.fullmatch(text) or _CHOSEN.fullmatch(text)
    return shown[1] if shown else text.strip()


def _shown(text: bytes) -> str:
    words = text.decode("utf-8", "replace").split()
    return " ".join(words[:6]) + (" ..." if len(words) > 6 else "")
