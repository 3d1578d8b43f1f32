"""LocalTracefs at the level of system calls; a FIFO stands in for trace_pipe, which it resembles in blocking."""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprobe.tracefs.tracefs import LocalStream, LocalTracefs, Tracefs


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Record open, write and close of os, and let them through."""
    log: list[tuple[object, ...]] = []
    real_open, real_write, real_close = os.open, os.write, os.close

    def open_(path: str, flags: int) -> int:
        log.append(("open", path, flags))
        return real_open(path, flags)

    def write(descriptor: int, data: bytes) -> int:
        log.append(("write", data))
        return real_write(descriptor, data)

    def close(descriptor: int) -> None:
        log.append(("close",))
        real_close(descriptor)

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "close", close)
    return log


def test_fits_the_protocol(tmp_path: Path) -> None:
    tracefs: Tracefs = LocalTracefs(str(tmp_path))
    assert tracefs.listdir("") == []


@pytest.mark.parametrize(("truncate", "flag"), [(False, os.O_APPEND), (True, os.O_TRUNC)])
def test_a_write_is_one_open_one_write_one_close(
    tmp_path: Path, calls: list[tuple[object, ...]], truncate: bool, flag: int
) -> None:
    file = tmp_path / "kprobe_events"
    file.write_bytes(b"p:kprobes/a vfs_read\n")
    calls.clear()
    LocalTracefs(str(tmp_path)).write("kprobe_events", b"p:b vfs_read\n-:a\n", truncate=truncate)
    assert calls == [
        ("open", str(file), os.O_WRONLY | os.O_CLOEXEC | flag),
        ("write", b"p:b vfs_read\n-:a\n"),
        ("close",),
    ]


def test_a_refused_write_carries_errno_and_path_and_is_closed(
    tmp_path: Path, calls: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kprobe_events").write_bytes(b"")

    def refuse(descriptor: int, data: bytes) -> int:
        raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ))

    monkeypatch.setattr(os, "write", refuse)
    calls.clear()
    with pytest.raises(OSError) as caught:
        LocalTracefs(str(tmp_path)).write("kprobe_events", b"p:x vfs_read+1\n")
    assert (caught.value.errno, caught.value.filename) == (errno.EILSEQ, f"{tmp_path}/kprobe_events")
    assert calls[-1] == ("close",)


@pytest.mark.parametrize(
    ("call", "number"),
    [
        (lambda t: t.read("nosuch"), errno.ENOENT),
        (lambda t: t.write("nosuch", b"1"), errno.ENOENT),
        (lambda t: t.write("", b"1"), errno.EISDIR),
        (lambda t: t.read("events"), errno.EISDIR),
        (lambda t: t.listdir("nosuch"), errno.ENOENT),
        (lambda t: t.listdir("file"), errno.ENOTDIR),
        (lambda t: t.mkdir("events"), errno.EEXIST),
        (lambda t: t.rmdir("nosuch"), errno.ENOENT),
        (lambda t: t.stream("nosuch"), errno.ENOENT),
    ],
)
def test_failures_are_the_kernels(tmp_path: Path, call: object, number: int) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as caught:
        call(LocalTracefs(str(tmp_path)))  # type: ignore[operator]
    assert caught.value.errno == number
    assert str(caught.value.filename).startswith(str(tmp_path))


def test_exists(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tracefs = LocalTracefs(str(tmp_path))
    assert [tracefs.exists(path) for path in ("", "file", "nosuch", "file/below")] == [True, True, False, False]


def test_the_system_call_level(tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(b"0123456789")
    with LocalTracefs(str(tmp_path)).open("trace", os.O_RDONLY) as handle:
        assert handle.read(3) == b"012"
        assert handle.lseek(-2, os.SEEK_END) == 8
        assert handle.read(16) == b"89"
        assert handle.poll() & select.POLLIN
        with pytest.raises(OSError) as caught:
            handle.write(b"x")
        assert (caught.value.errno, caught.value.filename) == (errno.EBADF, f"{tmp_path}/trace")
    with pytest.raises(OSError) as caught:
        handle.read(1)
    assert caught.value.errno == errno.EBADF


class Pipe:
    """A trace_pipe made of a FIFO, with the kernel's end of it."""

    def __init__(self, directory: Path) -> None:
        os.mkfifo(directory / "trace_pipe")
        self.tracing_on = directory / "tracing_on"
        self.tracing_on.write_bytes(b"1\n")
        self.stream: LocalStream = LocalTracefs(str(directory)).stream("trace_pipe")
        self.kernel = os.open(directory / "trace_pipe", os.O_WRONLY)

    def put(self, data: bytes) -> None:
        os.write(self.kernel, data)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path)
    yield pipe
    pipe.stream.close()
    os.close(pipe.kernel)


def test_a_stream_gives_what_there_is(pipe: Pipe) -> None:
    pipe.put(b"line 1\nline 2\n")
    assert pipe.stream.read() == b"line 1\nline 2\n"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes | OSError]:
    """Answer read(2) of a stream with these, one after another; then there is nothing now."""
    answers: list[bytes | OSError] = []

    def readv(_: int, buffers: tuple[memoryview]) -> int:
        answer = answers.pop(0) if answers else BlockingIOError(errno.EAGAIN, "none now")
        if isinstance(answer, OSError):
            raise answer
        buffers[0][: len(answer)] = answer
        return len(answer)

    monkeypatch.setattr(os, "readv", readv)
    return answers


def test_a_stream_gives_all_pages_that_are_there_now(pipe: Pipe, reads: list[bytes | OSError]) -> None:
    reads[:] = [b"1" * 4095, b"2" * 4000, b"3"]
    assert pipe.stream.read() == b"1" * 4095 + b"2" * 4000 + b"3"


def test_a_stream_leaves_what_it_has_no_room_for_to_the_next_read(pipe: Pipe, reads: list[bytes | OSError]) -> None:
    pages = [bytes([65 + number]) * 8191 for number in range(8)]
    reads[:] = pages
    assert pipe.stream.read() + pipe.stream.read() == b"".join(pages)


def test_an_error_after_a_page_comes_with_the_next_read(pipe: Pipe, reads: list[bytes | OSError]) -> None:
    failure = OSError(errno.ENODEV, "No such device")
    reads[:] = [b"line 1\n", failure, failure]
    assert pipe.stream.read() == b"line 1\n"
    with pytest.raises(OSError, match="No such device") as caught:
        pipe.stream.read()
    assert caught.value.filename == pipe.stream.path


def test_a_stream_times_out(pipe: Pipe) -> None:
    started = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        pipe.stream.read(0.05)
    assert time.monotonic() - started >= 0.05
    assert str(caught.value.filename).endswith("/trace_pipe")
    with pytest.raises(TimeoutError):
        pipe.stream.read(0)


def test_a_stream_waits_for_data(pipe: Pipe) -> None:
    timer = threading.Timer(0.05, pipe.put, [b"late\n"])
    timer.start()
    assert pipe.stream.read(30) == b"late\n"
    timer.join()


def test_close_from_another_thread_ends_a_read(pipe: Pipe) -> None:
    timer = threading.Timer(0.05, pipe.stream.close)
    timer.start()
    assert pipe.stream.read() == b""
    timer.join()
    assert pipe.stream.read() == b""
    pipe.stream.close()


def test_a_closed_stream_holds_no_descriptors(pipe: Pipe) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    pipe.stream.close()
    assert descriptors() == before - 3


def test_the_end_is_tracing_off_after_something_was_read(pipe: Pipe) -> None:
    pipe.tracing_on.write_bytes(b"0\n")
    with pytest.raises(TimeoutError):  # nothing read so far: the kernel would block, too
        pipe.stream.read(0)
    pipe.put(b"last\n")
    assert pipe.stream.read() == b"last\n"
    assert pipe.stream.read() == b""
    pipe.tracing_on.write_bytes(b"1\n")
    with pytest.raises(TimeoutError):
        pipe.stream.read(0)


def test_what_nobody_has_is_closed(tmp_path: Path) -> None:
    """An interrupt may come between the open and the assignment; an open trace_pipe keeps its instance busy."""
    (tmp_path / "trace_pipe").write_bytes(b"")
    before = os.listdir("/proc/self/fd")
    LocalTracefs(str(tmp_path)).stream("trace_pipe")
    LocalTracefs(str(tmp_path)).open("trace_pipe", os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        LocalTracefs(str(tmp_path)).stream("no")
    assert os.listdir("/proc/self/fd") == before
