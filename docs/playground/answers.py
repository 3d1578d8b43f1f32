"""What a simulated kernel answers to a question of the playground.

It runs in the browser, in Pyodide, and as it is on any other Python.  The numbers of errno are those of the platform,
which in WebAssembly are others than the kernel's: nothing leaves here but the kernel's own.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from made_up_calls import make_calls

from kprobe_sim import SimulatedKernel

# The kernel's errors: their numbers on x86-64, and what a shell says of them.  All that the simulator raises are here.
KERNEL_ERRORS = {
    "EPERM": (1, "Operation not permitted"),
    "ENOENT": (2, "No such file or directory"),
    "ESRCH": (3, "No such process"),
    "EINTR": (4, "Interrupted system call"),
    "EIO": (5, "Input/output error"),
    "ENXIO": (6, "No such device or address"),
    "E2BIG": (7, "Argument list too long"),
    "EBADF": (9, "Bad file descriptor"),
    "ECHILD": (10, "No child processes"),
    "EAGAIN": (11, "Resource temporarily unavailable"),
    "ENOMEM": (12, "Cannot allocate memory"),
    "EACCES": (13, "Permission denied"),
    "EFAULT": (14, "Bad address"),
    "EBUSY": (16, "Device or resource busy"),
    "EEXIST": (17, "File exists"),
    "EXDEV": (18, "Invalid cross-device link"),
    "ENODEV": (19, "No such device"),
    "ENOTDIR": (20, "Not a directory"),
    "EISDIR": (21, "Is a directory"),
    "EINVAL": (22, "Invalid argument"),
    "ENOTTY": (25, "Inappropriate ioctl for device"),
    "ENOSPC": (28, "No space left on device"),
    "ESPIPE": (29, "Illegal seek"),
    "EDOM": (33, "Numerical argument out of domain"),
    "ERANGE": (34, "Numerical result out of range"),
    "ENAMETOOLONG": (36, "File name too long"),
    "ENOSYS": (38, "Function not implemented"),
    "EOVERFLOW": (75, "Value too large for defined data type"),
    "EILSEQ": (84, "Invalid or incomplete multibyte or wide character"),
    "EUSERS": (87, "Too many users"),
    "EOPNOTSUPP": (95, "Operation not supported"),
    "EADDRNOTAVAIL": (99, "Cannot assign requested address"),
    "ECONNABORTED": (103, "Software caused connection abort"),
    "ETIMEDOUT": (110, "Connection timed out"),
    "ESTALE": (116, "Stale file handle"),
}
_HERE = {getattr(errno, name): (name, *facts) for name, facts in KERNEL_ERRORS.items()}
_ALL, _LISTS = "dynamic_events", ("kprobe_events", "uprobe_events")  # the latter before 5.0
_UPROBE = re.compile(r"[pr][0-9]*(:\S+)?\s+/")
_EVENT = re.compile(r"[a-z][0-9]*:([^/\s]+/[^\s]+)")


def settle(profile: str) -> None:
    """Have what a recorded kernel answered with, in the profile of that directory, by this platform's numbers.

    These are the answers whose names end in _errno; the rest of the simulator takes its numbers from `errno`.
    """
    path = Path(profile, "profile.json")
    facts = json.loads(path.read_bytes())
    here = {number: getattr(errno, name) for name, (number, _) in KERNEL_ERRORS.items()}
    recorded = facts.get("answers", {})
    # 0 is the answer of a kernel that takes it
    facts["answers"] = {
        row: here.get(answer, 0) if row.endswith("_errno") else answer for row, answer in recorded.items()
    }
    path.write_text(json.dumps(facts), encoding="utf-8")


def ask(profile: str, definitions: str, event_filter: str) -> str:
    """Return as JSON what the kernel of a profile, given by its path, answers to definitions, one to a line.

    The filter, unless it is empty, is that of all events that come of them.
    """
    return json.dumps(answer(profile, definitions, event_filter))


def answer(profile: str, definitions: str, event_filter: str) -> dict[str, Any]:
    """Return what `ask` does, as it is before it becomes JSON."""
    kernel = SimulatedKernel(profile)
    tracefs = kernel.tracefs
    commands = [_defined(tracefs, line) for line in definitions.split("\n") if _is_definition(line)]
    listing = [line for command in commands for line in command["listing"]]
    events = [_enabled(tracefs, name, event_filter.strip()) for name in _names(listing)]
    made = make_calls(kernel, listing) if events else []
    return {
        "release": kernel.release,
        "commands": commands,
        "events": events,
        "calls": made,
        "trace": _text(tracefs, "trace") if events else "",
    }


def _is_definition(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _file(line: str) -> str:
    """Return the file that takes a definition: kprobe_events wherever that does."""
    if _UPROBE.match(line.lstrip()):
        return "uprobe_events"
    return "kprobe_events" if line.lstrip()[:1] in ("p", "r", "-") else "dynamic_events"


def _defined(tracefs: Any, line: str) -> dict[str, Any]:
    """Write a definition; return what came of it: the error, the log, and the lines that the list has more."""
    before = _lines(tracefs)
    file = _file(line)
    error, log = _written(tracefs, file, line)
    listing = [after for after in _lines(tracefs) if after not in before]
    return {"command": line, "file": file, "error": error, "log": log, "listing": listing}


def _lines(tracefs: Any) -> list[str]:
    lists = [_ALL] if tracefs.exists(_ALL) else _LISTS
    return [line for path in lists for line in _text(tracefs, path).splitlines()]


def _names(listing: list[str]) -> Iterator[str]:
    """Yield the names of the events in the lines of the list, each once, as SYSTEM/EVENT."""
    yield from dict.fromkeys(match[1] for line in listing if (match := _EVENT.match(line)))


def _enabled(tracefs: Any, name: str, event_filter: str) -> dict[str, Any]:
    """Filter and enable an event; return its format, and what came of both."""
    directory = f"events/{name}"
    filtered = None
    if event_filter:
        error, log = _written(tracefs, f"{directory}/filter", event_filter)
        filtered = {"error": error, "log": log, "text": _text(tracefs, f"{directory}/filter")}
    error, log = _written(tracefs, f"{directory}/enable", "1")
    form = _text(tracefs, f"{directory}/format")
    return {"event": name, "format": form, "filter": filtered, "enable": {"error": error, "log": log}}


def _written(tracefs: Any, file: str, text: str) -> tuple[dict[str, Any] | None, str]:
    """Write a line to a file; return the error, None if it is taken, and what the error log then says."""
    if tracefs.exists("error_log"):  # kernels have it since 5.2
        tracefs.write("error_log", b"", truncate=True)
    try:
        tracefs.write(file, text.encode("utf-8", "replace") + b"\n")
    except OSError as error:
        return _kernels_error(error), _text(tracefs, "error_log")
    return None, ""


def _kernels_error(error: OSError) -> dict[str, Any]:
    """Return an error by the kernel's name and number for it."""
    name, number, text = _HERE[error.errno or errno.EINVAL]
    return {"name": name, "number": number, "text": text}


def _text(tracefs: Any, file: str) -> str:
    """Return the text of a file; "" if there is none, as an event that is called `filter` may have no directory."""
    try:
        text: str = tracefs.read(file).decode("utf-8", "backslashreplace")
    except OSError:
        return ""
    return text
