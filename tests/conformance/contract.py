"""What a tracefs must answer to system calls: the table that every way of exposing the simulator is held to.

Each case is a function on the calls of `Calls` (the module `os` has them all) and the tracefs' root; it returns bytes,
a number, a list of names, or raises OSError.  The module stands alone: the mount is tested by running it as a program
inside `kprobe-sim run`, where it prints its results as JSON.
"""

from __future__ import annotations

import errno
import json
import os
import select
import sys
from collections.abc import Callable
from typing import Any

PROBE = b"p:probe do_sys_openat2 path=+0(%si):string\n"


class Calls:
    """The system calls of this process, on a tracefs at `root`; every file they open is closed by `close_all`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.opened: list[int] = []

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def open(self, name: str, flags: int) -> int:
        handle = os.open(self.path(name), flags)
        self.opened.append(handle)
        return handle

    def close(self, handle: int) -> None:
        self.opened.remove(handle)
        os.close(handle)

    def read(self, handle: int, size: int) -> bytes:
        return os.read(handle, size)

    def write(self, handle: int, data: bytes) -> int:
        return os.write(handle, data)

    def lseek(self, handle: int, offset: int, whence: int) -> int:
        return os.lseek(handle, offset, whence)

    def mkdir(self, name: str) -> None:
        os.mkdir(self.path(name))

    def rmdir(self, name: str) -> None:
        os.rmdir(self.path(name))

    def listdir(self, name: str) -> list[str]:
        return os.listdir(self.path(name))

    def exists(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def mode(self, name: str) -> int:
        return os.stat(self.path(name)).st_mode & 0o7777

    def size(self, name: str) -> int:
        return os.stat(self.path(name)).st_size

    def truncate(self, name: str, length: int) -> None:
        os.truncate(self.path(name), length)

    def unlink(self, name: str) -> None:
        os.unlink(self.path(name))

    def poll(self, handle: int) -> int:
        poller = select.poll()
        poller.register(handle, select.POLLIN)
        return sum(mask for _, mask in poller.poll(0))

    def close_all(self) -> None:
        for handle in list(self.opened):
            self.close(handle)

    # made of the calls above

    def put(self, name: str, data: bytes, flags: int = os.O_APPEND) -> int:
        handle = self.open(name, os.O_WRONLY | flags)
        try:
            return self.write(handle, data)
        finally:
            self.close(handle)

    def get(self, name: str) -> bytes:
        handle = self.open(name, os.O_RDONLY)
        try:
            chunks = []
            while chunk := self.read(handle, 65536):
                chunks.append(chunk)
            return b"".join(chunks)
        finally:
            self.close(handle)


def _write_to_readme(calls: Calls) -> object:
    return calls.put("README", b"x")


def _busy(calls: Calls) -> None:
    calls.put("kprobe_events", PROBE)
    calls.put("events/kprobes/probe/enable", b"1")


def _busy_truncate(calls: Calls) -> object:
    _busy(calls)
    return calls.open("kprobe_events", os.O_WRONLY | os.O_TRUNC)


def _busy_remove(calls: Calls) -> object:
    _busy(calls)
    return calls.put("kprobe_events", b"-:probe")


def _truncate_removes(calls: Calls) -> object:
    calls.put("kprobe_events", PROBE)
    calls.close(calls.open("kprobe_events", os.O_WRONLY | os.O_TRUNC))
    return calls.get("kprobe_events")


def _append_adds(calls: Calls) -> object:
    calls.put("kprobe_events", PROBE)
    calls.put("kprobe_events", b"r4:second do_sys_openat2\n")
    return calls.get("kprobe_events")


def _new_directory(calls: Calls) -> object:
    before = calls.exists("events/kprobes/probe")
    calls.put("kprobe_events", PROBE)
    return [str(before), *sorted(calls.listdir("events/kprobes/probe"))]


def _removed_directory(calls: Calls) -> object:
    calls.put("kprobe_events", PROBE)
    seen = calls.exists("events/kprobes/probe")
    calls.put("kprobe_events", b"-:probe")
    return [str(seen), str(calls.exists("events/kprobes/probe")), str(calls.exists("events/kprobes"))]


def _made_again(calls: Calls) -> object:
    """A directory that was removed and made again is another: its event is disabled and has another format."""
    calls.put("kprobe_events", PROBE)
    calls.get("events/kprobes/probe/format")
    calls.put("kprobe_events", b"-:probe")
    calls.put("kprobe_events", b"p:probe do_sys_openat2 number=%si:u8\n")
    return calls.get("events/kprobes/probe/format").splitlines()[-1]


def _write_to_removed(calls: Calls) -> object:
    calls.put("kprobe_events", PROBE)
    handle = calls.open("events/kprobes/probe/enable", os.O_WRONLY)
    calls.put("kprobe_events", b"-:probe")
    return calls.write(handle, b"1")


def _seek(name: str, flags: int, offset: int, whence: int) -> Callable[[Calls], object]:
    return lambda calls: calls.lseek(calls.open(name, flags), offset, whence)


def _read_twice(calls: Calls) -> object:
    handle = calls.open("tracing_on", os.O_RDONLY)
    return calls.read(handle, 1) + b"|" + calls.read(handle, 10) + b"|" + calls.read(handle, 10)


def _read_again_from_start(calls: Calls) -> object:
    handle = calls.open("kprobe_events", os.O_RDONLY)
    first = calls.read(handle, 100)
    calls.put("kprobe_events", PROBE)
    calls.lseek(handle, 0, os.SEEK_SET)
    return first + b"|" + calls.read(handle, 100)


def _second_pipe(calls: Calls) -> object:
    calls.open("trace_pipe", os.O_RDONLY)
    return calls.open("trace_pipe", os.O_RDONLY)


def _pipe_after_pipe(calls: Calls) -> object:
    for _ in range(3):
        calls.close(calls.open("trace_pipe", os.O_RDONLY))
    return 0


def _empty_pipe(calls: Calls) -> object:
    return calls.read(calls.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK), 100)


def _pipe(calls: Calls) -> object:
    handle = calls.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    calls.put("trace_marker", b"hello")
    line = calls.read(handle, 4096)
    return line[line.index(b"tracing_mark_write") :]


def _poll_pipe(calls: Calls) -> object:
    handle = calls.open("trace_pipe", os.O_RDONLY)
    before = calls.poll(handle)
    calls.put("trace_marker", b"hello")
    ready = calls.poll(handle)
    calls.read(handle, 4096)
    return [str(before), str(ready), str(calls.poll(handle))]


def _trace(calls: Calls) -> object:
    calls.put("trace_marker", b"hello")
    full = calls.get("trace").count(b"hello")
    calls.close(calls.open("trace", os.O_WRONLY | os.O_TRUNC))
    return [str(full), str(calls.get("trace").count(b"hello"))]


def _instance(calls: Calls) -> object:
    calls.mkdir("instances/one")
    found = [*calls.listdir("instances"), str(calls.exists("instances/one/trace"))]
    calls.rmdir("instances/one")
    return [*found, str(calls.exists("instances/one"))]


def _twice(calls: Calls) -> object:
    calls.mkdir("instances/one")
    return calls.mkdir("instances/one")


def _busy_instance(calls: Calls) -> object:
    calls.mkdir("instances/one")
    calls.open("instances/one/trace", os.O_RDONLY)
    return calls.rmdir("instances/one")


def _instance_made_again(calls: Calls) -> object:
    calls.mkdir("instances/one")
    calls.put("instances/one/tracing_on", b"0")
    calls.rmdir("instances/one")
    calls.mkdir("instances/one")
    return calls.get("instances/one/tracing_on")


def _big_write(calls: Calls) -> object:
    """A write of 300000 bytes, as one write(2)."""
    comment = b"# " + b"x" * 97 + b"\n"
    handle = calls.open("kprobe_events", os.O_WRONLY)
    taken = calls.write(handle, comment * 3000)
    calls.put("kprobe_events", PROBE)
    return [str(taken), calls.get("kprobe_events").decode()]


def _page_at_most(calls: Calls) -> object:
    """However much is asked for, a read of `trace` gives what a page holds (seq_read)."""
    for _ in range(200):
        calls.put("trace_marker", b"x" * 40)
    first = len(calls.read(calls.open("trace", os.O_RDONLY), 1 << 20))
    return [str(3900 < first < 4096), str(len(calls.get("trace")) > 8192)]


def _read_after_write(name: str, data: bytes, flags: int = 0) -> Callable[[Calls], object]:
    """Read on through the descriptor that was written to."""

    def case(calls: Calls) -> object:
        handle = calls.open(name, os.O_RDWR | flags)
        calls.write(handle, data)
        return calls.read(handle, 4096)

    return case


def _written_at(calls: Calls) -> object:
    handle = calls.open("kprobe_events", os.O_RDWR)
    calls.lseek(handle, 1000, os.SEEK_SET)
    calls.write(handle, PROBE)
    return calls.get("kprobe_events")


def _seek_back(calls: Calls) -> object:
    handle = calls.open("trace", os.O_RDONLY)
    start = calls.read(handle, 20)
    calls.lseek(handle, 2, os.SEEK_SET)
    return start + b"|" + calls.read(handle, 6) + b"|%d" % calls.lseek(handle, -4, os.SEEK_CUR)


def _pieces_of_pipe(calls: Calls) -> object:
    handle = calls.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    calls.put("trace_marker", b"hello")
    pieces = b""
    while not pieces.endswith(b"\n"):
        pieces += calls.read(handle, 7)
    return pieces[pieces.index(b"tracing_mark_write") :]


def _whole_lines(calls: Calls) -> object:
    """A read that is too short for two lines gives one and keeps the rest."""
    handle = calls.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    calls.put("trace_marker", b"one")
    calls.put("trace_marker", b"two")
    first, second = calls.read(handle, 10), calls.read(handle, 4096)
    return [str(len(first)), str((first + second).count(b"\n")), str(calls.read(handle, 4096).count(b"two"))]


def _pipe_of_instance(calls: Calls) -> object:
    calls.mkdir("instances/one")
    calls.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    handle = calls.open("instances/one/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    calls.put("instances/one/trace_marker", b"hello")
    line = calls.read(handle, 4096)
    return line[line.index(b"tracing_mark_write") :]


def _busy_by_pipe(calls: Calls) -> object:
    calls.mkdir("instances/one")
    calls.open("instances/one/trace_pipe", os.O_RDONLY)
    return calls.rmdir("instances/one")


def _busy_by_instance(calls: Calls) -> object:
    calls.mkdir("instances/one")
    calls.put("kprobe_events", PROBE)
    calls.put("instances/one/events/kprobes/probe/enable", b"1")
    try:
        return calls.put("kprobe_events", b"-:probe")
    finally:
        calls.put("instances/one/events/kprobes/probe/enable", b"0")


def _read_removed(calls: Calls) -> object:
    calls.put("kprobe_events", PROBE)
    handle = calls.open("events/kprobes/probe/enable", os.O_RDONLY)
    calls.put("kprobe_events", b"-:probe")
    return calls.read(handle, 10)


def _open_removed(calls: Calls) -> object:
    calls.put("kprobe_events", PROBE)
    calls.get("events/kprobes/probe/id")
    calls.put("kprobe_events", b"-:probe")
    return calls.open("events/kprobes/probe/id", os.O_RDONLY)


def _truncate_call(calls: Calls) -> object:
    """truncate(2) is taken, and does nothing."""
    calls.put("kprobe_events", PROBE)
    calls.truncate("kprobe_events", 0)
    return calls.get("kprobe_events")


def _truncate_read_only(calls: Calls) -> object:
    calls.put("kprobe_events", PROBE)
    calls.close(calls.open("kprobe_events", os.O_RDONLY | os.O_TRUNC))
    return calls.get("kprobe_events")


def _raw_page(calls: Calls) -> object:
    calls.put("trace_marker", b"hello")
    handle = calls.open("per_cpu/cpu0/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
    page = calls.read(handle, 4096)
    return [str(len(page)), str(page.count(b"hello")), outcome_of(lambda: calls.read(handle, 4096))]


LISTED = b"p:kprobes/probe do_sys_openat2 path=+0(%si):string\n"
FORMAT_END = b'print fmt: "(%lx) number=%u", REC->__probe_ip, REC->number'
EVENT_FILES = ["enable", "filter", "format", "hist", "id", "trigger"]
READY = str(select.POLLIN)

# name: (case, what comes: bytes, a number, a list of str, or the name of an errno)
CASES: dict[str, tuple[Callable[[Calls], Any], object]] = {
    "open: no such file": (lambda calls: calls.open("nosuch", os.O_RDONLY), "ENOENT"),
    "open: no such file, O_CREAT": (lambda calls: calls.open("nosuch", os.O_WRONLY | os.O_CREAT), "EACCES"),
    "open: O_CREAT of a file that is there": (lambda calls: calls.put("tracing_on", b"1", os.O_CREAT), 1),
    "open: below a file": (lambda calls: calls.open("README/x", os.O_RDONLY), "ENOTDIR"),
    "open: a directory for writing": (lambda calls: calls.open("events", os.O_WRONLY), "EISDIR"),
    "write: a file that can only be read": (_write_to_readme, "EINVAL"),
    "write: opened for reading": (lambda calls: calls.write(calls.open("tracing_on", os.O_RDONLY), b"1"), "EBADF"),
    "read: opened for writing": (lambda calls: calls.read(calls.open("tracing_on", os.O_WRONLY), 1), "EBADF"),
    "read: a file that can only be written": (
        lambda calls: calls.read(calls.open("trace_marker", os.O_RDONLY), 1),
        "EINVAL",
    ),
    "read: in pieces": (_read_twice, b"1|\n|"),
    "read: from the start again": (_read_again_from_start, b"|" + LISTED),
    "probe: added": (lambda calls: calls.put("kprobe_events", PROBE) == len(PROBE), True),
    "probe: no such symbol": (lambda calls: calls.put("kprobe_events", b"p nosuchsymbol"), "ENOENT"),
    "probe: nonsense": (lambda calls: calls.put("kprobe_events", b"nonsense"), "EINVAL"),
    "probe: none to remove": (lambda calls: calls.put("kprobe_events", b"-:nosuch"), "ENOENT"),
    "probe: O_TRUNC while it is enabled": (_busy_truncate, "EBUSY"),
    "probe: removed while it is enabled": (_busy_remove, "EBUSY"),
    "probe: O_TRUNC removes": (_truncate_removes, b""),
    "probe: append adds": (_append_adds, LISTED + b"r4:kprobes/second do_sys_openat2\n"),
    "probe: its directory is there at once": (_new_directory, ["False", *EVENT_FILES]),
    "probe: its directory goes at once": (_removed_directory, ["True", "False", "False"]),
    "probe: its directory, made again, is another": (_made_again, FORMAT_END),
    "probe: written to after its removal": (_write_to_removed, "ENODEV"),
    "probe: a write of 300000 bytes": (_big_write, ["300000", LISTED.decode()]),
    "probe: read after its removal": (_read_removed, "ENODEV"),
    "probe: opened after its removal": (_open_removed, "ENOENT"),
    "probe: removed while an instance has it enabled": (_busy_by_instance, "EBUSY"),
    "probe: O_TRUNC of an open for reading": (_truncate_read_only, LISTED),
    "probe: truncate(2)": (_truncate_call, LISTED),
    "probe: written at another position": (_written_at, LISTED),
    "probe: listed through the descriptor that wrote": (_read_after_write("kprobe_events", PROBE), LISTED),
    "probe: the same with O_APPEND": (_read_after_write("kprobe_events", PROBE, os.O_APPEND), LISTED),
    "write: of no bytes": (lambda calls: calls.put("kprobe_events", b""), 0),
    "write: of no bytes to a switch": (lambda calls: calls.put("events/enable", b""), "EINVAL"),
    "switch: read through the descriptor that wrote": (_read_after_write("tracing_on", b"1"), b"\n"),
    "buffer_size_kb: 0": (lambda calls: calls.put("buffer_size_kb", b"0"), "EINVAL"),
    "current_tracer: no such tracer": (lambda calls: calls.put("current_tracer", b"nosuch"), "EINVAL"),
    "set_event: no such event": (lambda calls: calls.put("set_event", b"nosuch:event"), "EINVAL"),
    "filter: of 5000 bytes": (lambda calls: calls.put("events/sched/sched_switch/filter", b"1" * 5000), "EINVAL"),
    "enable: 2": (lambda calls: calls.put("events/sched/sched_switch/enable", b"2"), "EINVAL"),
    "filter: no such field": (lambda calls: calls.put("events/sched/sched_switch/filter", b"nosuch == 1"), "EINVAL"),
    "seek: to the end of a seq file": (_seek("kprobe_events", os.O_RDONLY, 0, os.SEEK_END), "EINVAL"),
    "seek: to the end of another": (_seek("tracing_on", os.O_RDWR, 0, os.SEEK_END), 0),
    "seek: before the start": (_seek("tracing_on", os.O_RDONLY, -1, os.SEEK_SET), "EINVAL"),
    "seek: trace_pipe": (_seek("trace_pipe", os.O_RDONLY, 0, os.SEEK_SET), "ESPIPE"),
    "seek: trace, opened for writing": (_seek("trace", os.O_WRONLY, 10, os.SEEK_SET), 0),
    "trace: O_TRUNC clears": (_trace, ["1", "0"]),
    "trace: a page a read": (_page_at_most, ["True", "True"]),
    "trace: sought": (_seek_back, b"# tracer: nop\n#\n# en|tracer|4"),
    "trace_pipe: a second reader": (_second_pipe, "EBUSY"),
    "trace_pipe: one reader after another": (_pipe_after_pipe, 0),
    "trace_pipe: empty, O_NONBLOCK": (_empty_pipe, "EAGAIN"),
    "trace_pipe: a line": (_pipe, b"tracing_mark_write: hello\n"),
    "trace_pipe: a line in pieces": (_pieces_of_pipe, b"tracing_mark_write: hello\n"),
    "trace_pipe: a read shorter than a line": (_whole_lines, ["10", "1", "1"]),
    "trace_pipe: of an instance": (_pipe_of_instance, b"tracing_mark_write: hello\n"),
    "trace_pipe_raw: a page": (_raw_page, ["4096", "1", "EAGAIN"]),
    "poll: of a file that never waits": (lambda calls: calls.poll(calls.open("tracing_on", os.O_RDONLY)), 1),
    "trace_pipe: poll": (_poll_pipe, ["0", READY, "0"]),
    "mkdir: elsewhere": (lambda calls: calls.mkdir("events/nosuch"), "EPERM"),
    "mkdir: a name of 256 bytes": (lambda calls: calls.mkdir("instances/" + "x" * 256), "ENAMETOOLONG"),
    "mkdir: an instance, and rmdir": (_instance, ["one", "True", "False"]),
    "mkdir: twice": (_twice, "EEXIST"),
    "mkdir: after rmdir it is a new one": (_instance_made_again, b"1\n"),
    "rmdir: an instance in use": (_busy_instance, "EBUSY"),
    "rmdir: an instance with its trace_pipe open": (_busy_by_pipe, "EBUSY"),
    "rmdir: no such instance": (lambda calls: calls.rmdir("instances/nosuch"), "ENOENT"),
    "rmdir: elsewhere": (lambda calls: calls.rmdir("events/sched"), "EPERM"),
    "rmdir: a file": (lambda calls: calls.rmdir("README"), "ENOTDIR"),
    "unlink: a file": (lambda calls: calls.unlink("README"), "EPERM"),
    "stat: the size of a file with text": (lambda calls: calls.size("README"), 0),
    "stat: modes": (
        lambda calls: [f"{calls.mode(name):o}" for name in ("", "README", "kprobe_events", "trace_marker")],
        ["700", "440", "640", "220"],
    ),
}


# {case: {text of a kernel's README: what comes}}: the last one whose text the README has
BY_README: dict[str, dict[str, object]] = {
    "probe: read after its removal": {"": b"0\n", "%return": "ENODEV"},
    "trace_pipe: a second reader": {"": 1, "%return": "EBUSY"},
    "probe: no such symbol": {"": "ENOENT", "<argname>": "EINVAL"},  # 6.5
    "probe: its directory is there at once": {
        "": ["False", "enable", "filter", "format", "id", "trigger"],
        "hist:keys=": ["False", *EVENT_FILES],
    },
    "stat: modes": {
        "": ["700", "444", "644", "220"],
        "<attached-group>": ["700", "440", "640", "220"],  # 5.15
    },
}

# {way: {case: (what it answers otherwise, why)}}; docs/evidence/ways.md is made of these
DIFFERENT: dict[str, dict[str, tuple[object, str]]] = {
    "in-process": {},
    "patched": {},
    "pyfakefs": {},
    "mount": {
        "seek: trace, opened for writing": (10, "the position of a file is the kernel's business on any FUSE mount"),
        "write: of no bytes to a switch": (0, "the kernel asks no FUSE server for a write of no bytes"),
    },
}

# what `SimTracefs` has no method for
NOT_IN_PROCESS = {
    "probe: truncate(2)": "truncate",
    "unlink: a file": "unlink",
    "stat: the size of a file with text": "stat",
}


def expected(name: str, readme: str) -> object:
    """Return what a kernel with that README answers in a case."""
    found = [value for text, value in BY_README.get(name, {}).items() if text in readme]
    return found[-1] if found else CASES[name][1]


def clean(calls: Calls) -> None:
    """Put everything back that a case has done."""
    calls.close_all()
    for name in calls.listdir("instances"):
        calls.rmdir(f"instances/{name}")
    if calls.exists("events/kprobes"):
        calls.put("events/kprobes/enable", b"0")
    calls.close(calls.open("kprobe_events", os.O_WRONLY | os.O_TRUNC))
    calls.close(calls.open("trace", os.O_WRONLY | os.O_TRUNC))
    calls.put("set_event", b"", os.O_TRUNC)


def outcome_of(call: Callable[[], Any]) -> Any:
    """Call; return what came, or the name of the errno."""
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def outcome(calls: Calls, case: Callable[[Calls], Any]) -> object:
    """Run a case; return what it returned, or the name of the errno."""
    try:
        return case(calls)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    finally:
        clean(calls)


def main(root: str) -> None:
    """Run all cases and print {name: outcome}; bytes as {"bytes": text}.  What the README says is named README."""
    calls = Calls(root)
    found = {name: outcome(calls, case) for name, (case, _) in CASES.items()}
    found["README"] = calls.get("README")
    json.dump(
        {
            name: {"bytes": value.decode("latin-1")} if isinstance(value, bytes) else value
            for name, value in found.items()
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(sys.argv[1])
