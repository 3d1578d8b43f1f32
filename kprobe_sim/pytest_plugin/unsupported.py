"""Features that a kernel lacks, by name: a test that fails for want of one is reported as skipped, with that name.

They are recognized by what the kernel has, never by its version: the files of the tracefs, README, the functions.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kprobe_sim.tree.files.capabilities import Capabilities
from kprobe_sim.tree.leftovers.texts import names

REASON = "unsupported on this kernel: "
_NO_FILE = "no such file"
# Files that the kernel got since 2.6.33.  A file that every kernel has isn't listed: a test that lacks it fails.
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
# Tracers that depend on the kernel's configuration.
_TRACERS = (
    *("blk", "branch", "function", "function_graph", "hwlat", "irqsoff", "mmiotrace", "osnoise", "preemptirqsoff"),
    *("preemptoff", "timerlat", "wakeup", "wakeup_dl", "wakeup_rt"),
)
_FUNCTION = re.compile(rb"^[pr]\d*(?::\S*)?\s+([A-Za-z_][\w.]*)(?:\+\d+|%return)?(?:\s|$)")
# Features of fetch arguments that the kernel got over time: each with its form, and with what README then contains.
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
    """Return the features that a pristine tracefs lacks, each with the evidence: {"instances": "no instances/"}."""
    present = set(names(tracefs, ""))
    lacking = {name: "no instances/" if name == "instances" else _NO_FILE for name in _FILES if name not in present}
    of_event = set(names(tracefs, _first_event(tracefs)))
    lacking |= {f"events/…/{name}": _NO_FILE for name in _OF_EVENTS if name not in of_event}
    return lacking


def missing_feature(error: BaseException, lacking: Mapping[str, str], tracefs: Any, *, functions: bool = True) -> str:
    """Return the missing feature that made a test end with this error: "instances (no instances/)"; "" for a failure.

    The last refused write, if `tracefs` notes it, counts too: to a file that doesn't exist, whatever the test made of
    that; of a tracer that isn't in the kernel; and, with `functions`, of a definition whose function isn't.
    """
    refusal, data = Capabilities(tracefs).refused or (None, b"")
    for cause in (*_chain(error), *([refusal] if refusal else [])):
        # where no directory can be made, mkdir is EPERM
        if isinstance(cause, OSError) and cause.errno in (errno.ENOENT, errno.EPERM, errno.EACCES):
            name = _feature(cause.filename, lacking) if isinstance(cause.filename, str) else ""
            if name:
                return f"{name} ({lacking[name]})"
    if refusal is None or refusal not in _chain(error):
        return ""
    if str(refusal.filename).rpartition("/")[2] == "current_tracer":
        return _tracer(data.decode(errors="replace").strip(), tracefs)
    return _defined(data, lacking, tracefs, functions) if refusal.filename in _DEFINES else ""


def _tracer(name: str, tracefs: Any) -> str:
    """Return the name of a tracer that kernels can have and this one lacks; "" for any other."""
    available = tracefs.read("available_tracers").decode().split()
    return f"tracer {name} (not in available_tracers)" if name in _TRACERS and name not in available else ""


def _defined(data: bytes, lacking: Mapping[str, str], tracefs: Any, functions: bool) -> str:
    """Return the feature of the definitions that the kernel lacks; "" if there is none."""
    for line in data.splitlines():
        match = _FUNCTION.match(line)
        if functions and match and not has_function(tracefs, match[1].decode()):
            return f"function {match[1].decode()} (not in this kernel)"
    readme = tracefs.read("README") if "README" not in lacking else b""
    for feature, form, text in _ARGUMENTS:
        if form.search(data) and text not in readme:
            return f"{feature} (not in README)"
    return ""


class Unsupported:
    """Turns the failure of a test for want of a feature into a skip that names it, and counts these skips per run."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}
        self._test = self._about = ""
        self._backend: Any = None
        self._tracefs: Any = None

    def begin(self, test: str, backend: Any, tracefs: Any) -> None:
        """Note what a test runs on, before its other fixtures, which may lack a feature too."""
        self._test, self._about = test, ""
        self._backend, self._tracefs = backend, tracefs

    def is_about(self, what: str) -> None:
        """Note that the running test is about a feature that this kernel lacks: if it fails, that is why."""
        self._about = what

    def explain(self, test: str, error: BaseException, report: Any) -> None:
        """Change the report of a test that ended with this error for want of a feature, and note the feature there."""
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
            with contextlib.suppress(Exception):  # the machine may be gone
                self._backend.absent = absent(self._tracefs)
        # a test declares the functions of a simulated kernel: there a missing function is the test's mistake
        functions = not self._backend.is_simulated
        return missing_feature(error, self._backend.absent or {}, self._tracefs, functions=functions) or self._about

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


def _feature(path: str, lacking: Mapping[str, str]) -> str:
    """Return the missing feature that a path needs; "" if none."""
    parts = path.strip("/").split("/")
    if parts[0] == "instances":
        if "instances" in lacking:
            return "instances"
        parts = parts[2:] or [""]
    if parts[0] == "per_cpu":
        parts = parts[2:] or [""]
    if parts[:3] == ["events", "ftrace", "raw_data"]:
        parts = ["trace_marker_raw"]
    if parts == ["stack_max_size"]:  # both come with CONFIG_STACK_TRACER
        parts = ["stack_trace"]
    if parts[0] in lacking:
        return parts[0]
    file = f"events/…/{parts[-1]}"
    return file if parts[0] == "events" and file in lacking else ""


def _first_event(tracefs: Any) -> str:
    """Return the directory of a static event, which has every file that an event can have."""
    for system in ("sched", *names(tracefs, "events")):
        for name in _directories(tracefs, f"events/{system}"):
            if tracefs.exists(f"events/{system}/{name}/format"):
                return f"events/{system}/{name}"
    return "events"


def _directories(tracefs: Any, path: str) -> list[str]:
    try:
        return [name for name in tracefs.listdir(path) if name not in ("enable", "filter")]
    except OSError:
        return []


def has_function(tracefs: Any, name: str) -> bool:
    """Return whether available_filter_functions has a function of that name."""
    if (known := Capabilities(tracefs).has_function) is not None:
        return known(name)
    listed = tracefs.read("available_filter_functions")
    return re.search(rb"^%s(?:\s|$)" % re.escape(name.encode()), listed, re.MULTILINE) is not None
