"""Features that a kernel lacks, by name: a test that needs one is reported as such, neither failed nor left out.

Told by what is there, never by a version: the files that the tracefs has, and whether the kernel has a function.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kprobe_sim.tree.leftovers.texts import names

__all__ = ["REASON", "Unsupported", "absent", "has_function", "named"]

REASON = "unsupported on this kernel: "
_NO_FILE = "no such file"
# Files that kernels got one after another since 2.6.33; what every kernel has isn't here, so its lack is a failure.
_FILES = (
    *(
        "README",
        "buffer_percent",
        "buffer_subbuf_size_kb",
        "dynamic_events",
        "error_log",
        "instances",
        "kprobe_profile",
    ),
    *("saved_cmdlines_size", "saved_tgids", "set_event_notrace_pid", "set_event_pid", "set_ftrace_notrace_pid"),
    *("set_graph_notrace", "show_event_filters", "show_event_triggers", "snapshot", "stack_trace", "synthetic_events"),
    *("syscall_user_buf_size", "timestamp_mode", "trace_clock", "trace_marker_raw", "uprobe_events", "uprobe_profile"),
)
_OF_EVENTS = ("hist", "hist_debug", "inject", "trigger")
_DEFINES = ("kprobe_events", "dynamic_events")
# Tracers that a kernel has if its configuration says so.
_TRACERS = (
    *("blk", "branch", "function", "function_graph", "hwlat", "irqsoff", "mmiotrace", "osnoise", "preemptirqsoff"),
    *("preemptoff", "timerlat", "wakeup", "wakeup_dl", "wakeup_rt"),
)
_FUNCTION = re.compile(rb"^[pr]\d*(?::\S*)?\s+([A-Za-z_][\w.]*)(?:\+\d+|%return)?(?:\s|$)")
# What an argument may have that kernels got one after another: how it looks, and what their README then has.
_ARGUMENTS = (
    ("type symbol", re.compile(rb"[ \t]\S*:symbol\b"), b"string, symbol"),
    ("type ustring", re.compile(rb"[ \t]\S*:ustring\b"), b"ustring"),
    ("type symstr", re.compile(rb"[ \t]\S*:symstr\b"), b"symstr"),
    ("type char", re.compile(rb"[ \t]\S*:char\b"), b", char"),
    ("arrays", re.compile(rb"[ \t]\S*:\w+(?:@\d+/\d+)?\[\d+\]"), rb"\[<array-size>\]"),
    ("numbers and strings in place of what is fetched", re.compile(rb"[ \t=(]\\"), rb"\imm-value"),
    ("arguments by number", re.compile(rb"\$arg\d"), b"$arg<N>"),
    ("places in user memory", re.compile(rb"[ \t]\S*[+-]u\d"), b"[u]<offset>"),
)


def absent(tracefs: Any) -> dict[str, str]:
    """Return what a pristine tracefs lacks, each with how that is seen: {"instances": "no instances/"}."""
    there = set(names(tracefs, ""))
    lacking = {name: "no instances/" if name == "instances" else _NO_FILE for name in _FILES if name not in there}
    of_event = set(names(tracefs, _first_event(tracefs)))
    lacking |= {f"events/…/{name}": _NO_FILE for name in _OF_EVENTS if name not in of_event}
    return lacking


def named(error: BaseException, lacking: Mapping[str, str], tracefs: Any, *, functions: bool = True) -> str:
    """Return by name what a test lacked that ended with this error: "instances (no instances/)"; "" for a failure.

    A write that was refused counts, too, where `tracefs` notes it: to a file that isn't there, whatever became of
    that in the test; a tracer that isn't in the kernel; and, with `functions`, a definition if its function isn't.
    """
    refusal, data = getattr(tracefs, "refused", None) or (None, b"")
    for one in (*_chain(error), *([refusal] if refusal else [])):
        if not isinstance(one, OSError):
            continue
        # a directory that can't be made is EPERM, where nothing can be made
        if one.errno in (errno.ENOENT, errno.EPERM, errno.EACCES) and isinstance(one.filename, str):
            name = _facility(one.filename, lacking)
            if name:
                return f"{name} ({lacking[name]})"
    if refusal is None or refusal not in _chain(error):
        return ""
    if str(refusal.filename).rpartition("/")[2] == "current_tracer":
        return _tracer(data.decode(errors="replace").strip(), tracefs)
    return _defined(data, lacking, tracefs, functions) if refusal.filename in _DEFINES else ""


def _tracer(name: str, tracefs: Any) -> str:
    """Return by name a tracer that kernels can have and this one hasn't."""
    there = tracefs.read("available_tracers").decode().split()
    return f"tracer {name} (not in available_tracers)" if name in _TRACERS and name not in there else ""


def _defined(data: bytes, lacking: Mapping[str, str], tracefs: Any, functions: bool) -> str:
    """Return by name what definitions have that the kernel hasn't."""
    for line in data.splitlines():
        found = _FUNCTION.match(line)
        if functions and found and not has_function(tracefs, found[1].decode()):
            return f"function {found[1].decode()} (not in this kernel)"
    readme = tracefs.read("README") if "README" not in lacking else b""
    for what, looks, mark in _ARGUMENTS:
        if looks.search(data) and mark not in readme:
            return f"{what} (not in README)"
    return ""


class Unsupported:
    """Makes of a failure for want of what a kernel lacks a skip that names it, and counts these at the end of a run."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._test = self._about = ""
        self._backend: Any = None
        self._tracefs: Any = None

    def begin(self, test: str, backend: Any, tracefs: Any) -> None:
        """Note what a test runs on; its fixtures may fail for want of something, too."""
        self._test, self._about = test, ""
        self._backend, self._tracefs = backend, tracefs

    def is_about(self, what: str) -> None:
        """Note of the test that runs what it is about that this kernel lacks: if it fails, that is why."""
        self._about = what

    def look_at(self, test: str, error: BaseException, report: Any) -> None:
        """Change the report of a test that ended with this error, and note there what is to be counted."""
        if test != self._test:  # it has no tracefs
            return
        if report.skipped:
            what = str(error).removeprefix(REASON) if str(error).startswith(REASON) else ""
        else:
            what = self._lacked(error) if report.failed else ""
        if not what:
            return
        if report.failed:
            path, line, _ = report.location
            report.outcome = "skipped"
            report.longrepr = (path, (line or 0) + 1, f"Skipped: {REASON}{what}")
        report.unsupported = [[f"{self._backend.spec} ({self._backend.release(self._tracefs)})", what]]

    def _lacked(self, error: BaseException) -> str:
        if self._backend.absent is None:
            with contextlib.suppress(Exception):  # of a machine that is gone nothing more is learnt
                self._backend.absent = absent(self._tracefs)
        # a simulated kernel has the functions that a test declares: one that it hasn't is a mistake there
        functions = not self._backend.is_simulated
        return named(error, self._backend.absent or {}, self._tracefs, functions=functions) or self._about

    def pytest_runtest_logreport(self, report: Any) -> None:
        for kernel, what in getattr(report, "unsupported", ()):
            counts = self._counts.setdefault(kernel, {})
            counts[what] = counts.get(what, 0) + 1

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for kernel, counts in self._counts.items():
            terminalreporter.section(f"{REASON.rstrip(': ')}: {kernel}")
            terminalreporter.line(", ".join(sorted(counts)))
            for what, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
                terminalreporter.line(f"{count:5}  {what}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__  # type: ignore[assignment]  # None ends it


def _facility(path: str, lacking: Mapping[str, str]) -> str:
    """Return which of what is lacking a path needs; "" if none."""
    parts = path.strip("/").split("/")
    if parts[0] == "instances":
        if "instances" in lacking:
            return "instances"
        parts = parts[2:] or [""]
    if parts[0] == "per_cpu":
        parts = parts[2:] or [""]
    if parts[:3] == ["events", "ftrace", "raw_data"]:
        parts = ["trace_marker_raw"]
    if parts == ["stack_max_size"]:  # CONFIG_STACK_TRACER brings both
        parts = ["stack_trace"]
    if parts[0] in lacking:
        return parts[0]
    own = f"events/…/{parts[-1]}"
    return own if parts[0] == "events" and own in lacking else ""


def _first_event(tracefs: Any) -> str:
    """Return the directory of a static event, which has all files that events have."""
    for system in ("sched", *names(tracefs, "events")):
        with_format = (f"events/{system}/{name}" for name in _directories(tracefs, f"events/{system}"))
        for place in with_format:
            if tracefs.exists(f"{place}/format"):
                return place
    return "events"


def _directories(tracefs: Any, path: str) -> list[str]:
    try:
        return [name for name in tracefs.listdir(path) if name not in ("enable", "filter")]
    except OSError:
        return []


def has_function(tracefs: Any, name: str) -> bool:
    """Return whether the kernel lists a function of that name as one that can be traced."""
    known = getattr(tracefs, "has_function", None)
    if known is not None:
        return bool(known(name))
    listed = tracefs.read("available_filter_functions")
    return re.search(rb"^%s(?:\s|$)" % re.escape(name.encode()), listed, re.MULTILINE) is not None
