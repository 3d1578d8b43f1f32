"""The tracer on every tracefs: the example of the design, end to end."""

from __future__ import annotations

import contextlib
import errno
import threading
from typing import Any

import pytest

from kprobe import AlreadyExists, KprobeError, Tracer

from .text import define, probes


def test_the_example(tracefs: Any, tracer: Any, workload: Any) -> None:
    definition = "p:myopen do_sys_openat2 filename=+0(%si):string"
    found = []
    with tracer.trace(definition, filter='filename ~ "*host*" && comm == "workload"') as trace:
        workload.open("/dev/null")
        workload.open("/etc/hostname")
        for event in trace:
            found.append(event)
            break
    (event,) = found
    assert event.task == "workload"
    assert event.pid == workload.pid
    assert event.cpu == 0
    assert event.name == "myopen"
    assert event.fields == {"filename": "/etc/hostname"}
    assert event.timestamp > 0
    assert tracefs.read("kprobe_events") == b""
    assert tracefs.read("set_event") == b""


def test_a_return(tracer: Any, workload: Any) -> None:
    with tracer.trace("r:myret do_sys_openat2 ret=$retval:s32", filter='ret < 0 && comm == "workload"') as trace:
        workload.open("/etc/hostname")
        workload.open("/no/such")
        event = next(iter(trace))
    assert event.name == "myret"
    assert event.fields == {"ret": -2}


def test_what_others_set_up_stays(tracefs: Any, tracer: Any, workload: Any) -> None:
    tracefs.write("kprobe_events", b"p:theirs do_sys_openat2\n")
    tracefs.write("events/kprobes/theirs/filter", b"cpu == 99")
    tracefs.write("events/kprobes/theirs/enable", b"1")
    with tracer.trace("p:mine do_sys_openat2", filter='comm == "workload"') as trace:
        workload.open("/dev/null")
        assert next(iter(trace)).name == "mine"
    assert probes(tracefs) == ["p:kprobes/theirs do_sys_openat2"]
    assert tracefs.read("events/kprobes/theirs/enable") == b"1\n"
    assert tracefs.read("events/kprobes/theirs/filter") == b"cpu == 99\n"


def test_a_refusal_says_why(tracefs: Any, tracer: Any) -> None:
    from kprobe import KprobeError

    with pytest.raises(KprobeError) as refusal, tracer.trace("p:bad do_sys_openat2 a=%nosuch"):
        pass
    assert "Invalid register name" in str(refusal.value)
    assert tracefs.read("kprobe_events") == b""


def test_a_bad_filter_leaves_nothing(tracefs: Any, tracer: Any) -> None:
    from kprobe import KprobeError

    with pytest.raises(KprobeError) as refusal, tracer.trace("p:a do_sys_openat2", filter="nosuch == 1"):
        pass
    assert "Field not found" in str(refusal.value)
    assert tracefs.read("kprobe_events") == b""


def test_events_come_while_it_runs(tracer: Any, workload: Any) -> None:
    names: list[str] = []
    with tracer.trace("p:a do_sys_openat2 f=+0(%si):string", filter='comm == "workload"') as trace:

        def collect() -> None:
            for event in trace:
                names.append(event.fields["f"])
                if len(names) == 3:
                    return

        reader = threading.Thread(target=collect)
        reader.start()
        for path in ("/dev/null", "/etc/hostname", "/"):
            workload.open(path)
        reader.join(30)
        assert not reader.is_alive()
    assert names == ["/dev/null", "/etc/hostname", "/"]


class Joined:
    """A tracefs where somebody else writes `line` to kprobe_events just before or after a write of ours.

    `when` is "before" or "after", `path` the file that we write to; after that, reads of `broken` fail.
    """

    def __init__(self, tracefs: Any, line: str, when: str, path: str, broken: str = "") -> None:
        self._tracefs = tracefs
        self._line = line
        self._when = when
        self._path = path
        self._broken = broken
        self.is_done = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def read(self, path: str) -> Any:
        if self.is_done and path == self._broken:
            raise OSError(errno.EIO, "Input/output error", path)
        return self._tracefs.read(path)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        theirs = path.endswith(self._path) and not self.is_done
        self.is_done = self.is_done or theirs
        if theirs and self._when == "before":
            define(self._tracefs, self._line)
        self._tracefs.write(path, data, truncate=truncate)
        if theirs and self._when == "after":
            define(self._tracefs, self._line)


class Failing:
    """A tracefs where the first write of `data` to a file of that name fails, before or after its effect."""

    def __init__(self, tracefs: Any, name: str, data: bytes, when: str) -> None:
        self._tracefs = tracefs
        self._name = name
        self._data = data
        self._when = when
        self.is_done = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracefs, name)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        fails = not self.is_done and path.endswith(self._name) and data.startswith(self._data)
        self.is_done = self.is_done or fails
        if not fails or self._when == "after":
            self._tracefs.write(path, data, truncate=truncate)
        if fails:
            raise OSError(errno.EIO, "Input/output error", path)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("name", "data"), [("/enable", b"0"), ("/enable", b"1"), ("kprobe_events", b"-:")])
@pytest.mark.parametrize("top_level", [False, True])
def test_an_error_leaves_nothing(tracefs: Any, name: str, data: bytes, when: str, top_level: bool) -> None:
    """A disable that failed leaves the event busy until the instance is gone; at the top level it is tried again."""
    failing = Failing(tracefs, name, data, when)
    with contextlib.suppress(KprobeError), Tracer(failing).trace("p:mine do_sys_openat2", top_level=top_level):
        pass
    assert failing.is_done
    assert probes(tracefs) == []
    assert tracefs.listdir("instances") == []
    assert tracefs.read("set_event") == b""


LONG = "aaaaaaaaaabbbbbbbbbbcccccccccc12=+0(+0(+0(+0(+0(+0(+0(+0(%di)))))))):u64"


@pytest.mark.parametrize(
    ("ours", "theirs", "shown"),
    [
        ("p:h/same do_sys_openat2", "p:h/same vfs_read", "p:h/same vfs_read"),
        ("p:h/same do_sys_openat2 %di", "p:h/same do_sys_openat2 %si", "p:h/same do_sys_openat2 arg1=%si"),
        ("p:g/same do_sys_openat2+SECOND a=%di", "p:g/same do_sys_openat2 a=%di", "p:g/same do_sys_openat2 a=%di"),
        (f"p:h/same vfs_read {LONG}", f"p:h/same vfs_write {LONG}", f"p:h/same vfs_write {LONG}"),
    ],
)
@pytest.mark.parametrize(
    ("when", "path"), [("before", "kprobe_events"), ("after", "kprobe_events"), ("before", "/enable")]
)
def test_who_comes_at_the_same_moment_is_told_and_left_alone(
    tracefs: Any, build: Any, ours: str, theirs: str, shown: str, when: str, path: str
) -> None:
    tracer = Tracer(Joined(tracefs, theirs, when, path))
    with pytest.raises(AlreadyExists) as refusal, tracer.trace(ours.replace("SECOND", f"{build.boundary:#x}")):
        pass
    assert shown in str(refusal.value)
    assert probes(tracefs) == [shown]
    assert tracefs.listdir("instances") == []
    assert tracefs.read(f"events/{shown.split()[0][2:]}/enable") == b"0\n"


def test_who_joins_a_trace_is_told_and_left_alone(tracefs: Any) -> None:
    trace = Tracer(tracefs).trace("p:h/same do_sys_openat2")
    with trace:
        define(tracefs, "p:h/same vfs_read")
    assert trace.notices == ["hits of others' probes were recorded, too: p:h/same vfs_read joined h/same"]
    assert probes(tracefs) == ["p:h/same vfs_read"]


@pytest.mark.parametrize("theirs", ["p:same vfs_read", "p:other vfs_read"])
def test_ours_is_taken_back_when_the_list_can_not_be_read(tracefs: Any, theirs: str) -> None:
    tracer = Tracer(Joined(tracefs, theirs, "after", "kprobe_events", broken="kprobe_events"))
    with pytest.raises(KprobeError) as refusal, tracer.trace("p:same do_sys_openat2"):
        pass
    assert "Input/output error" in str(refusal.value)
    assert probes(tracefs) == [f"{theirs.replace('p:', 'p:kprobes/')}"]
    assert tracefs.listdir("instances") == []
