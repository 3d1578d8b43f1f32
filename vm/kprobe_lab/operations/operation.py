"""One operation on a tracefs, on a simulator and on a kernel alike, and its result."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kprobe_sim.tree.files.tracefs import OpenableTracefs

__all__ = [
    *(
        "OURS",
        "PID",
        "Call",
        "Handle",
        "Hit",
        "List",
        "Make",
        "Observed",
        "Operation",
        "Outcome",
        "Read",
        "Remove",
        "Sweep",
        "Write",
    ),
    "perform",
]

# What was done (a path, a step) and the answer: bytes read, a number, or the name of an errno.
Outcome = list[tuple[str, "bytes | int | str | list[str]"]]

PID = b"\x03pid\x04"  # placeholder in written data for the pid of this machine's task
OURS = (b'comm == "workload"', b"common_pid == " + PID)  # filters that keep other tasks' hits out
_CHUNK = 1 << 16
_MOST = 1 << 24  # a file longer than that has no end
_EVENT_FILES = ("format", "filter", "enable", "id")
_SWEPT = ("error_log", "set_event", "kprobe_profile", "dynamic_events")
# the file that lists the events to read, and the other files that are read
_LISTINGS = (
    ("kprobe_events", _SWEPT),
    ("dynamic_events", (*_SWEPT[:3], "kprobe_events", "uprobe_events", "synthetic_events", "uprobe_profile")),
)


class Write(NamedTuple):
    """One open, one write, one close."""

    path: str
    data: bytes
    flags: int = os.O_WRONLY


class Read(NamedTuple):
    """A file read from beginning to end."""

    path: str


class List(NamedTuple):
    """The names in a directory, whatever their order."""

    path: str


class Make(NamedTuple):
    """mkdir."""

    path: str


class Remove(NamedTuple):
    """rmdir."""

    path: str


class Handle(NamedTuple):
    """One open file and the system calls on it.

    A step is ("read", size), ("write", data), ("lseek", offset, whence), or another operation while the file is open.
    """

    path: str
    flags: int
    steps: tuple[Any, ...]


class Call(NamedTuple):
    """What the workload's task does: "fadvise" (fd, offset, length, advice, data), "open" (path, flags), "fork" (),
    "rename" (name,).
    """

    name: str
    arguments: tuple[Any, ...]


class Hit(NamedTuple):
    """What an oracle observed of one call: registers and memory by address, the return addresses, the result.

    `is_complete`: all of the memory could be read; otherwise the events show unknown numbers.  `returned` are the
    registers at the return.
    """

    registers: dict[str, int]
    memory: dict[int, bytes]
    chain: tuple[int, ...]
    returns: int
    is_complete: bool = True
    returned: dict[str, int] = {}


class Observed(NamedTuple):
    """A system call of the task that reaches a function while an oracle observes it; `hits` is what the oracle saw.

    `paths` are the `Path`s of oracle.py whose memory it read.
    """

    function: str
    number: int
    arguments: tuple[int, ...]
    data: bytes
    paths: tuple[Any, ...] = ()
    hits: tuple[Hit, ...] | None = None


class Sweep(NamedTuple):
    """All files that show which probes exist, and the files of their events, in `instance` ("" or "instances/x/").

    `kinds`: dynamic events of all kinds, not only kprobes.
    """

    instance: str = ""
    kinds: bool = False


Operation = Write | Read | List | Make | Remove | Handle | Call | Observed | Sweep


def perform(operation: Operation, tracefs: OpenableTracefs, workload: Any = None) -> Outcome:
    """Perform an operation and return all answers."""
    match operation:
        case Write(path, data, flags):
            return [("write", _answer(lambda: _write(tracefs, path, data, flags)))]
        case Read(path):
            return [(path, _answer(lambda: _read(tracefs, path)))]
        case List(path):
            return [(f"{path}/", _answer(lambda: sorted(tracefs.listdir(path))))]
        case Make(path):
            return [("mkdir", _answer(lambda: _done(tracefs.mkdir, path)))]
        case Remove(path):
            return [("rmdir", _answer(lambda: _done(tracefs.rmdir, path)))]
        case Handle():
            return list(_handle(operation, tracefs, workload))
        case Call(name, arguments):
            return [(name, _answer(lambda: _call(workload, name, arguments)))]
        case Observed():
            return []  # done by the sides themselves: one observes, the other replays
        case Sweep(instance, kinds):
            return list(_sweep(instance, tracefs, *_LISTINGS[kinds]))


def _answer(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except TimeoutError:
        return "TIMEOUT"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))


def _done(call: Callable[[str], None], path: str) -> int:
    call(path)
    return 0


def _write(tracefs: OpenableTracefs, path: str, data: bytes, flags: int) -> int:
    with tracefs.open(path, flags) as file:
        return int(file.write(data))


def _read(tracefs: OpenableTracefs, path: str) -> bytes:
    content = b""
    with tracefs.open(path, os.O_RDONLY | os.O_NONBLOCK) as file:
        if path.endswith("/stats"):
            return bytes(file.read(_CHUNK))  # each read generates it anew, and it may have grown by a digit
        while len(content) < _MOST and (chunk := file.read(_CHUNK)):
            content += chunk
    return content


def _call(workload: Any, name: str, arguments: tuple[Any, ...]) -> int:
    if name == "fadvise":
        *numbers, data = arguments
        return int(workload.fadvise(*numbers, data=data))
    if name == "fork":
        return int(workload.fork() > 0)
    if name == "rename":
        workload.rename(*arguments)
        return 0
    return int(workload.open(*arguments))


def _handle(operation: Handle, tracefs: OpenableTracefs, workload: Any) -> Iterator[tuple[str, Any]]:
    try:
        file = tracefs.open(operation.path, operation.flags)
    except OSError as error:
        yield "open", errno.errorcode.get(error.errno or 0, str(error))
        return
    with file:
        for step in operation.steps:
            match step:
                case ("read", size):
                    yield f"read {size}", _answer(lambda size=size: file.read(size, 5.0))  # type: ignore[misc]
                case ("write", data):
                    yield "write", _answer(lambda data=data: file.write(data))  # type: ignore[misc]
                case ("lseek", offset, whence):
                    yield (
                        f"lseek {offset} {whence}",
                        _answer(lambda offset=offset, whence=whence: file.lseek(offset, whence)),  # type: ignore[misc]
                    )
                case _:
                    yield from perform(step, tracefs, workload)


def _sweep(instance: str, tracefs: OpenableTracefs, lists: str, others: Sequence[str]) -> Iterator[tuple[str, Any]]:
    listing = _answer(lambda: _read(tracefs, lists))
    yield lists, listing
    for name in others:
        if not instance or name in ("error_log", "set_event"):
            yield name, _answer(lambda name=name: _read(tracefs, instance + name))  # type: ignore[misc]
    if not isinstance(listing, bytes):
        return
    groups: dict[str, None] = {}
    events: dict[str, None] = {}
    for line in listing.decode("latin-1").splitlines():
        name = line.split()[0].partition(":")[2]
        events[name] = None
        groups[name.partition("/")[0]] = None
    for name in events:
        for file in _EVENT_FILES:
            path = f"{instance}events/{name}/{file}"
            yield path, _answer(lambda path=path: _read(tracefs, path))  # type: ignore[misc]
    for group in groups:
        path = f"{instance}events/{group}"
        yield f"{path}/", _answer(lambda path=path: sorted(tracefs.listdir(path)))  # type: ignore[misc]
        for file in ("enable", "filter"):
            yield f"{path}/{file}", _answer(lambda path=path, file=file: _read(tracefs, f"{path}/{file}"))  # type: ignore[misc]
