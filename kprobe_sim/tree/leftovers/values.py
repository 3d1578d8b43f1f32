"""The files of a tracefs that hold a value: read first, compared later, and written back."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.tree.files.capabilities import Capabilities
from kprobe_sim.tree.files.tracefs import Tracefs

from .texts import names, read_each

_TRACER = "current_tracer"
_BUFFER = "buffer_size_kb"
# In the order of writing back: some tracers let nothing else change, and the sub-buffers' size changes the buffers'.
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
# O_TRUNC empties these, except for functions with commands: they stay in set_ftrace_filter and go one by one.
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
# What the kernel remembers of traced tasks: setting the size makes it forget their names; it never forgets the tgids.
_NAMES, _SIZE, _TGIDS = "saved_cmdlines", "saved_cmdlines_size", "saved_tgids"
_REMEMBERED = ((_NAMES, _SIZE), (_TGIDS, _TGIDS))  # each with the file whose existence shows that it can be read
_READ_ONLY = (*LISTS, _TGIDS, "timestamp_mode")  # compared; writing their text back would not restore them


class Values:
    """The values that a tracefs had when this was made; with `owned` nobody else traces there."""

    def __init__(self, tracefs: Tracefs, *, owned: bool) -> None:
        self._tracefs = tracefs
        self._options = names(tracefs, "options")
        watched = [*VALUES, *LISTS, "timestamp_mode", *(f"options/{name}" for name in self._options)]
        remembered = [path for path, sign in _REMEMBERED if owned and tracefs.exists(sign)]
        self._before = {path: value_of(text) for path, text in read_each(tracefs, [*watched, *remembered]).items()}
        self._has_snapshot = tracefs.exists("snapshot") and Capabilities(tracefs).open is not None
        self._expanded = b""  # the size that an expanded buffer shows; some kernels give more than was asked for

    def clear_lists(self) -> None:
        """Empty the lists of functions and pids; a function's command may use an event.

        The tracer ends first: without a list of functions it would trace, and so patch, every one.
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
        """Write changed values back; return in words those that can't be restored.  `options`: with the options."""
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
        compared = [path for path in paths if options or not path.startswith("options/")]
        if not compared:
            return []
        texts = read_each(self._tracefs, compared)
        now = {path: value_of(texts[path]) if path in texts else None for path in compared}
        return [
            path
            for path in compared
            if now[path] != self._before[path] and (path != _BUFFER or now[path] != self._expanded)
        ]

    def _write_back(self, path: str) -> None:
        if path == _NAMES:
            self._tracefs.write(_SIZE, self._tracefs.read(_SIZE))
        elif path not in _READ_ONLY:
            self._tracefs.write(path, self._before[path])
            if path == _BUFFER:
                self._expanded = value_of(self._tracefs.read(path))

    def _is_allocated(self) -> bool:
        if not self._has_snapshot:
            return False
        head = read_each(self._tracefs, ["snapshot"], most=PAGE_SIZE)  # the whole may be large
        return FREED not in head.get("snapshot", FREED)


def value_of(text: bytes) -> bytes:
    """Return what to write for a value as it is shown: the one in brackets, or the size that a buffer expands to."""
    shown = _EXPANDED.fullmatch(text) or _CHOSEN.fullmatch(text)
    return shown[1] if shown else text.strip()


def _shown(text: bytes) -> str:
    words = text.decode("utf-8", "replace").split()
    return " ".join(words[:6]) + (" ..." if len(words) > 6 else "")
