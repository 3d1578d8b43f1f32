"""The contract of every Tracefs: what the tracer may rely on, whichever it is given."""

from __future__ import annotations

import os
import threading
from errno import EINVAL, ENOENT
from typing import Any

import pytest

from .text import A_MOMENT


def test_read_gives_the_whole_file(tracefs: Any) -> None:
    text = tracefs.read("available_filter_functions")
    assert isinstance(text, bytes)
    assert len(text) > 65536
    assert text.endswith(b"\n")


def test_write_gives_nothing_back(tracefs: Any) -> None:
    assert tracefs.write("kprobe_events", b"p:a do_sys_openat2\n") is None


def test_write_does_not_truncate_unless_told(tracefs: Any) -> None:
    tracefs.write("kprobe_events", b"p:a do_sys_openat2\n")
    tracefs.write("kprobe_events", b"p:b do_sys_openat2\n")
    assert tracefs.read("kprobe_events").count(b"\n") == 2
    tracefs.write("kprobe_events", b"p:c do_sys_openat2\n", truncate=True)
    assert tracefs.read("kprobe_events").count(b"\n") == 1


def test_write_of_nothing_is_a_write(tracefs: Any) -> None:
    with pytest.raises(OSError) as refusal:
        tracefs.write("events/enable", b"")
    assert refusal.value.errno == EINVAL


@pytest.mark.parametrize("path", ["nosuch", "events/nosuch/enable"])
@pytest.mark.parametrize("method", ["read", "write", "listdir", "stream", "rmdir"])
def test_errors_carry_errno_and_path(tracefs: Any, method: str, path: str) -> None:
    with pytest.raises(OSError) as refusal:
        getattr(tracefs, method)(path, *([b"x"] if method == "write" else []))
    assert type(refusal.value) is FileNotFoundError
    assert refusal.value.errno == ENOENT
    assert refusal.value.filename is not None
    assert os.fspath(refusal.value.filename).endswith(path)
    assert refusal.value.strerror == "No such file or directory"


def test_a_refused_write_carries_errno_and_path(tracefs: Any) -> None:
    with pytest.raises(OSError) as refusal:
        tracefs.write("events/enable", b"x")
    assert refusal.value.errno == EINVAL
    assert os.fspath(refusal.value.filename).endswith("events/enable")


def test_errors_of_handles_carry_errno_and_path(tracefs: Any) -> None:
    with pytest.raises(OSError) as refusal:
        tracefs.open("nosuch", os.O_RDONLY)
    assert refusal.value.errno == ENOENT
    assert os.fspath(refusal.value.filename).endswith("nosuch")
    handle = tracefs.open("events/enable", os.O_RDWR)
    with pytest.raises(OSError) as refusal:
        handle.write(b"x")
    handle.close()
    assert refusal.value.errno == EINVAL
    assert os.fspath(refusal.value.filename).endswith("events/enable")


def test_exists(tracefs: Any) -> None:
    assert tracefs.exists("")
    assert tracefs.exists("trace")
    assert tracefs.exists("events/sched")
    assert tracefs.exists("events/sched/sched_switch/enable")
    assert not tracefs.exists("nosuch")
    assert not tracefs.exists("events/nosuch/enable")
    assert not tracefs.exists("trace/nosuch")


def test_listdir(tracefs: Any) -> None:
    names = tracefs.listdir("")
    assert isinstance(names, list)
    assert "trace" in names
    assert "." not in names
    assert ".." not in names
    assert len(names) == len(set(names))
    assert "sched_switch" in tracefs.listdir("events/sched")


def test_mkdir_and_rmdir(tracefs: Any) -> None:
    tracefs.mkdir("instances/mine")
    assert tracefs.exists("instances/mine/trace")
    tracefs.rmdir("instances/mine")
    assert not tracefs.exists("instances/mine")


def test_a_stream_gives_what_comes(tracefs: Any) -> None:
    stream = tracefs.stream("trace_pipe")
    for text in (b"one", b"two"):
        tracefs.write("trace_marker", text)
        got = stream.read(20)
        assert isinstance(got, bytes)
        assert text in got
    stream.close()


def test_a_stream_times_out(tracefs: Any) -> None:
    stream = tracefs.stream("trace_pipe")
    for _ in range(2):
        with pytest.raises(TimeoutError):
            stream.read(A_MOMENT)
    with pytest.raises(TimeoutError):
        stream.read(0)
    stream.close()


def test_a_stream_may_be_closed_twice(tracefs: Any) -> None:
    stream = tracefs.stream("trace_pipe")
    stream.close()
    stream.close()
    assert stream.read() == b""
    assert stream.read(1) == b""


def test_closing_a_stream_ends_its_reader(tracefs: Any) -> None:
    stream = tracefs.stream("trace_pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(stream.read()))
    reader.start()
    reader.join(A_MOMENT)
    assert reader.is_alive()
    stream.close()
    reader.join(20)
    assert not reader.is_alive()
    assert got == [b""]


def test_a_closed_stream_frees_the_pipe(tracefs: Any) -> None:
    for _ in range(3):
        tracefs.stream("trace_pipe").close()
