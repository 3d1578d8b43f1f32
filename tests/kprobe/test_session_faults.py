"""One fault at every operation of a session, before and after its effect: nothing is left, or what is left is named.

The tracefs is a simulated one behind a wrapper that lets one chosen operation fail once: with an errno, or as an
interrupt or a lack of memory that comes in the middle.  *Before* its effect, nothing was done; *after*, all was, and
the caller is told otherwise.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from kprobe import Tracer
from kprobe.undo.owners import Owner
from kprobe_sim import SimulatedKernel, Task

OPEN = "p:myopen do_sys_openat2 file=+0(%si):string"
RETURN = "r:mygroup/myret do_sys_openat2 ret=$retval:s32"
READ = "p:myread vfs_read"


class Shape(NamedTuple):
    """A session: its probes, each a trace of its own, and the options of them all; None: only `format` is asked."""

    definitions: tuple[str, ...]
    options: dict[str, Any] | None


SHAPES = {
    "p": Shape((OPEN,), {}),
    "r": Shape((RETURN,), {}),
    "r100": Shape(("r100:myret do_sys_openat2",), {}),
    "filter": Shape((OPEN,), {"filter": 'file ~ "*host*"'}),
    "pid": Shape((OPEN,), {"pid": 42}),
    "everything": Shape((OPEN,), {"filter": 'file ~ "*host*"', "pid": 42, "stacktrace": True, "follow": True}),
    "duration": Shape((OPEN,), {"duration": 0.0}),
    "several": Shape((OPEN, RETURN), {}),
    "top level": Shape((OPEN,), {"top_level": True}),
    "everything at the top level": Shape(
        (RETURN,), {"top_level": True, "filter": "ret < 0", "tid": 43, "stacktrace": True}
    ),
    "several at the top level": Shape((OPEN, READ), {"top_level": True, "duration": 0.0, "stacktrace": True}),
    "raw": Shape((OPEN,), {"raw": True}),
    "raw at the top level": Shape((OPEN,), {"raw": True, "top_level": True}),
    "format": Shape((OPEN,), None),
}
TOGETHER = {  # their probes in one trace
    "two": Shape((OPEN, "r:do_sys_openat2 ret=$retval:s32"), {"filter": "ret < 0", "pid": 42}),
    "two, one in a group": Shape((OPEN, RETURN), {"filter": "ret < 0"}),
    "two at the top level": Shape((OPEN, READ), {"top_level": True, "filter": 'file ~ "*host*"', "pid": 42}),
    "f": Shape(("f:do_sys_openat2%return fd=$retval:s32",), {"filter": "fd < 0"}),
    "t and e": Shape(("t:sched_process_exec", "e:mygroup/mye syscalls.sys_enter_openat dfd=$dfd:s32"), {}),
    "u": Shape(("u:/bin/busybox:0x1000%return",), {"top_level": True}),
    "ranges": Shape((OPEN,), {"buffer_size": 100, "cpus": [0], "max_events": 1, "timeout": 9.0}),
    "ranges at the top level": Shape((OPEN,), {"top_level": True, "buffer_size": 100, "cpus": [0]}),
    "pattern": Shape(("p:vfs_re*[dv]", "f:vfs_rea*"), {}),
}
LATE = dict.fromkeys(("f", "t and e", "pattern"), "6.12")  # the others' kernel is 6.1

ERRNOS = (errno.EIO, errno.EEXIST, errno.ENOENT, errno.EPERM)
LOOKS = ("read", "exists", "listdir", "threads")
INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt, MemoryError)


class Fault:
    """Comes at one operation, once."""

    def __init__(self, at: int, when: str, make: Callable[[str], BaseException]) -> None:
        self.at = at
        self.when = when
        self.make = make


class Faulty:
    """A tracefs that counts what is done to it, streams included, and fails once."""

    def __init__(self, tracefs: Any, fault: Fault | None = None) -> None:
        self._tracefs = tracefs
        self._fault = fault
        self.operations: list[str] = []

    def do(self, name: str, path: str, deed: Callable[..., Any], *args: Any, **options: Any) -> Any:
        fault = self._fault if self._fault and self._fault.at == len(self.operations) else None
        self.operations.append(f"{name} {path}")
        if fault and fault.when == "before":
            raise fault.make(path)
        done = deed(*args, **options)
        if fault:
            if name == "stream":
                done.close()  # nobody has it: so it is closed
            raise fault.make(path)
        return done

    def read(self, path: str) -> Any:
        if path == "available_filter_functions":  # of which patterns only see a few: the list is long
            return self.do("read", path, lambda: b"vfs_read\nvfs_readlink\nvfs_readv\nvfs_removexattr\n")
        return self.do("read", path, self._tracefs.read, path)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        self.do("write", path, self._tracefs.write, path, data, truncate=truncate)

    def listdir(self, path: str) -> Any:
        return self.do("listdir", path, self._tracefs.listdir, path)

    def exists(self, path: str) -> Any:
        return self.do("exists", path, self._tracefs.exists, path)

    def mkdir(self, path: str) -> None:
        self.do("mkdir", path, self._tracefs.mkdir, path)

    def rmdir(self, path: str) -> None:
        self.do("rmdir", path, self._tracefs.rmdir, path)

    def threads(self, pid: int) -> Any:
        return self.do("threads", str(pid), self._tracefs.threads, pid)

    def stream(self, path: str) -> Any:
        return FaultyStream(self, path, self.do("stream", path, self._tracefs.stream, path))


class FaultyStream:
    """A stream of it."""

    def __init__(self, tracefs: Faulty, path: str, stream: Any) -> None:
        self._tracefs = tracefs
        self._path = path
        self._stream = stream

    def read(self, timeout: float | None = None) -> Any:
        return self._tracefs.do("stream.read", self._path, self._stream.read, timeout)

    def close(self) -> None:
        self._tracefs.do("stream.close", self._path, self._stream.close)


def open_file(kernel: SimulatedKernel, name: str, tid: int = 42) -> None:
    kernel.call("do_sys_openat2", task=Task(tid, "cat", 42), args=(-100 & 0xFFFFFFFF, name, 0), returns=3)


def new_kernel(version: str) -> SimulatedKernel:
    """Return a kernel with two threads in it, and something of somebody else's."""
    kernel = SimulatedKernel(version)
    for tid in (42, 43):
        open_file(kernel, "/before", tid)
    kernel.tracefs.write("kprobe_events", b"p:theirs do_sys_openat2\n")
    kernel.tracefs.mkdir("instances/theirs")
    kernel.tracefs.write("buffer_size_kb", b"300")
    return kernel


def session(kernel: SimulatedKernel, tracefs: Faulty, shape: Shape, notices: list[str]) -> None:
    tracer = Tracer(tracefs, owner=Owner(77, 5000))
    if shape.options is None:
        for definition in shape.definitions:
            tracer.format(definition)
        return
    with ExitStack() as stack:
        groups = [shape.definitions] if shape in TOGETHER.values() else [(one,) for one in shape.definitions]
        traces = [tracer.trace(*definitions, **shape.options) for definitions in groups]
        for trace in traces:
            stack.enter_context(trace)
            notices += trace.notices
        open_file(kernel, "/etc/hosts")
        for trace in traces:
            trace.stop()
            list(trace)
            trace.missed()


def lists(kernel: SimulatedKernel) -> tuple[frozenset[str], dict[str, bytes]]:
    """Return what there is by name (events, instances, open pipes), and the settings of the top level."""
    tracefs = kernel.tracefs
    names = {line.split()[0].partition(":")[2] for line in tracefs.read("dynamic_events").decode().splitlines()}
    names |= {f"instances/{name}" for name in tracefs.listdir("instances")}
    names |= {f"enabled {name}" for name in tracefs.read("set_event").decode().split()}
    paths = ("trace_options", "set_event_pid", "tracing_on", "current_tracer", "buffer_size_kb", "tracing_cpumask")
    settings = {path: tracefs.read(path) for path in paths}
    try:
        tracefs.stream("trace_pipe").close()
    except OSError:
        names.add("trace_pipe")
    return frozenset(names), settings


class Outcome(NamedTuple):
    """How a session with a fault ended: what is left, what of it was said by name, and with what to type."""

    left: frozenset[str]
    named: frozenset[str]
    told: frozenset[str]
    error: BaseException | None
    lost: frozenset[str]  # what wasn't ours and is gone


def said(error: BaseException | None, notices: list[str]) -> str:
    """Return all that a user gets to read."""
    words = list(notices)
    while error is not None:
        words += [str(error), *getattr(error, "__notes__", ())]
        error = error.__cause__
    return "\n".join(words)


class Bench:
    """Runs sessions, on one kernel as long as nothing is left on it."""

    def __init__(self, version: str = "6.1") -> None:
        self._kernel: SimulatedKernel | None = None
        self._version = version

    def run(self, shape: Shape, fault: Fault | None) -> tuple[Outcome, Faulty]:
        kernel = self._kernel = self._kernel or new_kernel(self._version)
        names, settings = lists(kernel)
        faulty = Faulty(kernel.tracefs, fault)
        notices: list[str] = []
        error: BaseException | None = None
        try:
            session(kernel, faulty, shape, notices)
        except BaseException as caught:
            error = caught
        now, settings_now = lists(kernel)
        left = now - names | {path for path in settings if settings[path] != settings_now[path]}
        if left or names - now:
            self._kernel = None
        text = said(error, notices)
        named = {name for name in left if name in text}
        told = {name for name in left if any(f"{command}\n" in f"{text}\n" for command in commands(name))}
        return Outcome(left, frozenset(named), frozenset(told), error, names - now), faulty


def commands(name: str) -> tuple[str, ...]:
    """Return what removes a thing that is left."""
    if name == "buffer_size_kb":
        return ("echo 300 > buffer_size_kb", "echo 301 > buffer_size_kb", "echo 303 > buffer_size_kb")
    if name == "tracing_cpumask":
        return ("echo ff > tracing_cpumask", "echo 1 > tracing_cpumask", "echo f > tracing_cpumask")
    if name.startswith("enabled "):
        name = name.removeprefix("enabled ").replace(":", "/")
        return (f"echo 0 > events/{name}/enable",)
    files = ("kprobe_events", "uprobe_events", "dynamic_events")
    return (*(f"echo '-:{name}' >> {file}" for file in files), f"rmdir {name}")


def faults(operations: list[str], numbers: tuple[int, ...] = ERRNOS) -> Iterator[Fault]:
    """Yield each fault at each operation: a look has no effect, so that before and after it are the same."""
    for at, operation in enumerate(operations):
        for when in ("before",) if operation.partition(" ")[0] in LOOKS else ("before", "after"):
            for number in numbers:
                yield Fault(at, when, lambda path, number=number: OSError(number, os.strerror(number), path))  # type: ignore[misc]
            for kind in INTERRUPTS:
                yield Fault(at, when, lambda path, kind=kind: kind())  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SHAPES, *TOGETHER])
def test_nothing_is_left_that_is_not_named(name: str) -> None:
    """What is left is only what may be somebody else's: after EEXIST from a call that had its effect."""
    shape, bench = (SHAPES | TOGETHER)[name], Bench(LATE.get(name, "6.1"))
    clean, faulty = bench.run(shape, None)
    assert (clean.left, clean.error) == (frozenset(), None)
    for fault in faults(faulty.operations, ERRNOS[: 2 if name in TOGETHER else None]):
        found, _ = bench.run(shape, fault)
        operation, wrong = faulty.operations[fault.at], fault.make("")
        where = f"{wrong!r} {fault.when} {operation!r} ({fault.at})"
        assert not found.lost, where
        assert found.left == found.told, f"{where}: left {set(found.left)}; {found.error!r}"
        if found.left:
            assert (fault.when, getattr(wrong, "errno", 0)) == ("after", errno.EEXIST), where
            is_added = operation in ("write kprobe_events", "write dynamic_events")
            is_named = is_added and "mygroup" in "".join(shape.definitions)
            assert is_named or operation.startswith("mkdir "), where
