"""What can't be done while readers of the buffer are open, and what pause-on-trace does meanwhile."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from kprobe_sim.builds.profile import Profile

from .builds import DENTRY
from .text import refused, traced

PIPES = ("trace_pipe", "per_cpu/cpu0/trace_pipe", "per_cpu/cpu0/trace_pipe_raw", "per_cpu/cpu0/snapshot_raw")
READ = os.O_RDONLY | os.O_NONBLOCK


@pytest.fixture(params=["", "instances/i/"], ids=["top", "instance"])
def where(request: pytest.FixtureRequest, tracefs: Any) -> Any:
    """The directory whose files are used, and that of another instance."""
    tracefs.mkdir("instances/i")
    other = "" if request.param else "instances/i/"
    tracefs.write("current_tracer", b"nop")  # the buffer gets its full size, which it can't while it is looked at
    for path in (request.param, other):  # so that a guest needn't patch all of its functions
        tracefs.write(f"{path}set_ftrace_filter", b"ksys_fadvise64_64\n")
    yield request.param, other
    tracefs.rmdir("instances/i")


@pytest.mark.parametrize("name", PIPES)
def test_the_tracer_stays_while_the_buffer_is_consumed(tracefs: Any, where: tuple[str, str], name: str) -> None:
    path, other = where
    with tracefs.open(f"{path}{name}", READ):
        tracefs.write(f"{path}current_tracer", b"nop")
        assert refused(tracefs, f"{path}current_tracer", "function") == errno.EBUSY
        assert refused(tracefs, f"{path}current_tracer", "nosuch") == errno.EINVAL
        assert tracefs.read(f"{path}current_tracer") == b"nop\n"
        tracefs.write(f"{other}current_tracer", b"function")
        tracefs.write(f"{other}current_tracer", b"nop")
    tracefs.write(f"{path}current_tracer", b"function")
    assert tracefs.read(f"{path}current_tracer") == b"function\n"
    tracefs.write(f"{path}current_tracer", b"nop")


@pytest.mark.parametrize("name", ["trace", "snapshot"])
def test_who_only_looks_keeps_no_tracer(tracefs: Any, where: tuple[str, str], name: str) -> None:
    path, _ = where
    with tracefs.open(f"{path}{name}", READ):
        tracefs.write(f"{path}current_tracer", b"function")
        tracefs.write(f"{path}current_tracer", b"nop")


def test_the_size_stays_while_the_trace_is_looked_at(tracefs: Any, where: tuple[str, str], choose: Any) -> None:
    path, _ = where
    number = choose({"": errno.ENOMEM, DENTRY: errno.EBUSY})
    tracefs.write(f"{path}buffer_size_kb", b"1000")
    for name in ("trace", "per_cpu/cpu0/trace"):
        with tracefs.open(f"{path}{name}", os.O_RDONLY):
            assert refused(tracefs, f"{path}buffer_size_kb", "500") == number
            assert refused(tracefs, f"{path}per_cpu/cpu0/buffer_size_kb", "500") == number
            tracefs.write(f"{path}free_buffer", b"")
            assert tracefs.read(f"{path}buffer_size_kb") == b"1000\n"
    with tracefs.open(f"{path}trace", os.O_WRONLY):
        tracefs.write(f"{path}buffer_size_kb", b"500")
    with tracefs.open(f"{path}trace_pipe", READ):
        tracefs.write(f"{path}buffer_size_kb", b"400")
    assert tracefs.read(f"{path}buffer_size_kb") == b"402\n"


def test_no_snapshot_is_made_while_it_is_looked_at(tracefs: Any, where: tuple[str, str]) -> None:
    path, _ = where
    with tracefs.open(f"{path}snapshot", os.O_RDONLY):
        assert refused(tracefs, f"{path}snapshot", "1") == errno.EBUSY
    tracefs.write(f"{path}snapshot", b"1")
    tracefs.write(f"{path}snapshot", b"0")


@pytest.mark.parametrize("name", ["nop", "nosuch"])
def test_a_write_of_a_tracer_gives_the_buffer_its_size(tracefs: Any, name: str, recorded: Profile) -> None:
    """Even if it changes nothing; not on a machine whose buffer has been used."""
    if tracefs.read("buffer_size_kb") != b"7 (expanded: 1408)\n":
        return
    try:
        tracefs.write("current_tracer", name.encode())
    except OSError as error:
        assert (name, error.errno) == ("nosuch", errno.EINVAL)  # noqa: PT017 - the other name isn't refused
    assert tracefs.read("buffer_size_kb") == b"%d\n" % recorded.buffer_size_kb


def mark(tracefs: Any, path: str, text: str) -> bool:
    """Return whether a mark was taken."""
    try:
        tracefs.write(f"{path}trace_marker", text.encode())
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        return False
    return True


def test_pause_on_trace(tracefs: Any, where: tuple[str, str], choose: Any) -> None:
    """Who has the trace open for reading stops recording in that instance until it is closed."""
    path, other = where
    tracefs.write(f"{path}trace_options", b"pause-on-trace")
    assert mark(tracefs, path, "before")
    with tracefs.open(f"{path}trace", os.O_RDONLY):
        assert not mark(tracefs, path, "in the pause")
        assert mark(tracefs, other, "elsewhere")
        assert refused(tracefs, f"{path}trace_marker_raw", b"abcdefgh") == errno.EBADF
        assert tracefs.read(f"{path}tracing_on") == choose({"": b"0\n", DENTRY: b"1\n"})
        tracefs.write(f"{path}tracing_on", b"1")
        assert not mark(tracefs, path, "switched on")
    assert mark(tracefs, path, "after")
    assert tracefs.read(f"{path}tracing_on") == b"1\n"
    texts = [line.partition(": ")[2] for line in tracefs.read(f"{path}trace").decode().splitlines() if line[0] != "#"]
    assert texts == ["tracing_mark_write: before", "tracing_mark_write: after"]
    tracefs.write(f"{path}trace_options", b"nopause-on-trace")


def test_each_reader_pauses(tracefs: Any, where: tuple[str, str]) -> None:
    path, _ = where
    tracefs.write(f"{path}trace_options", b"pause-on-trace")
    first = tracefs.open(f"{path}trace", os.O_RDWR)
    second = tracefs.open(f"{path}per_cpu/cpu0/trace", os.O_RDONLY)
    tracefs.write(f"{path}trace_options", b"nopause-on-trace")
    assert not mark(tracefs, path, "both")
    first.close()
    assert not mark(tracefs, path, "one")
    second.close()
    assert mark(tracefs, path, "none")
    for name, flags in (("trace", os.O_WRONLY), ("trace_pipe", READ), ("snapshot", os.O_RDONLY)):
        tracefs.write(f"{path}trace_options", b"pause-on-trace")
        with tracefs.open(f"{path}{name}", flags):
            assert mark(tracefs, path, name)
        tracefs.write(f"{path}trace_options", b"nopause-on-trace")


def test_events_are_lost_in_a_pause(tracefs: Any, workload: Any) -> None:
    tracefs.write("kprobe_events", b"p:g/e do_sys_openat2")
    tracefs.write("events/g/e/filter", b'comm == "workload"')
    tracefs.write("events/g/e/enable", b"1")
    tracefs.write("trace_options", b"pause-on-trace")
    workload.open("/etc/hostname")
    with tracefs.open("trace", os.O_RDONLY):
        workload.open("/etc/hostname")
    assert len(traced(tracefs)) == 1
    workload.open("/etc/hostname")
    assert len(traced(tracefs)) == 2
    tracefs.write("trace_options", b"nopause-on-trace")


def test_an_open_id_outlives_its_event(tracefs: Any) -> None:
    tracefs.write("kprobe_events", b"p:g/e do_sys_openat2")
    number = tracefs.read("events/g/e/id")
    with tracefs.open("events/g/e/id", os.O_RDONLY) as file:
        tracefs.write("kprobe_events", b"-:g/e")
        assert file.read(100) == number
    assert not tracefs.exists("events/g")


def test_marks_go_to_instances_that_want_a_copy(tracefs: Any) -> None:
    """6.16 and later have the option, which the top instance alone has set."""
    if not tracefs.exists("options/copy_trace_marker"):
        assert refused(tracefs, "trace_options", "copy_trace_marker") == errno.EINVAL
        return
    for name in "ij":
        tracefs.mkdir(f"instances/{name}")
    tracefs.write("instances/i/options/copy_trace_marker", b"1")
    tracefs.write("trace_marker", b"one")
    tracefs.write("trace_marker_raw", b"abcdefgh")
    tracefs.write("instances/i/trace_marker", b"its own")
    tracefs.write("options/copy_trace_marker", b"0")
    tracefs.write("tracing_on", b"0")
    tracefs.write("trace_marker", b"two")
    tracefs.write("tracing_on", b"1")
    tracefs.write("instances/i/tracing_on", b"0")
    assert refused(tracefs, "trace_marker", "three") == errno.EBADF
    tracefs.write("instances/i/options/copy_trace_marker", b"0")
    assert refused(tracefs, "trace_marker", "four") == errno.ENODEV
    tracefs.write("options/copy_trace_marker", b"1")

    raw = "# 64636261 buf: 65 66 67 68"  # 6.16 shows more bytes, of what was there before

    def texts(path: str) -> list[str]:
        lines = tracefs.read(path).decode().splitlines()
        found = [line.partition(": ")[2].removeprefix("tracing_mark_write: ") for line in lines if line[0] != "#"]
        return [raw if text.startswith(raw) else text for text in found]

    assert texts("trace") == ["one", raw]
    assert texts("instances/i/trace") == ["one", raw, "its own", "two"]
    assert texts("instances/j/trace") == []
    for name in "ij":
        tracefs.rmdir(f"instances/{name}")
