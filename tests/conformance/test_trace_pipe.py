"""trace_pipe: it consumes, it waits, it has one reader, and it ends when tracing is off."""

from __future__ import annotations

import os
import select
import threading
import time
from errno import EAGAIN, EBUSY, EINVAL, ESPIPE
from typing import Any

import pytest

from .builds import DENTRY, EPROBES
from .text import A_MOMENT, bodies, define, show_only, traced

NONBLOCK = os.O_RDONLY | os.O_NONBLOCK


def mark(tracefs: Any, *texts: str) -> None:
    for text in texts:
        tracefs.write("trace_marker", text.encode())


def marked(*texts: str) -> list[str]:
    return [f"tracing_mark_write: {text}" for text in texts]


def test_what_it_gives_is_gone(tracefs: Any) -> None:
    mark(tracefs, "one", "two")
    with tracefs.open("trace_pipe", NONBLOCK) as pipe:
        assert bodies(pipe.read(65536)) == marked("one", "two")
        with pytest.raises(BlockingIOError) as refusal:
            pipe.read(65536)
        assert refusal.value.errno == EAGAIN
        mark(tracefs, "three")
        assert traced(tracefs) == marked("three")
        assert bodies(pipe.read(65536)) == marked("three")
    assert traced(tracefs) == []


def test_no_heading(tracefs: Any) -> None:
    mark(tracefs, "one")
    with tracefs.open("trace_pipe", NONBLOCK) as pipe:
        text = pipe.read(65536)
    assert text.count(b"\n") == 1
    assert not text.startswith(b"#")


def test_an_empty_pipe_without_waiting(tracefs: Any) -> None:
    with tracefs.open("trace_pipe", NONBLOCK) as pipe:
        for _ in range(2):
            with pytest.raises(BlockingIOError):
                pipe.read(4096)


def test_a_reader_waits_for_the_first_event(tracefs: Any) -> None:
    got: list[bytes] = []
    with tracefs.open("trace_pipe", os.O_RDONLY) as pipe:
        reader = threading.Thread(target=lambda: got.append(pipe.read(65536)))
        reader.start()
        reader.join(A_MOMENT)
        assert reader.is_alive()
        mark(tracefs, "now")
        reader.join(20)
        assert not reader.is_alive()
    assert bodies(got[0]) == marked("now")


def test_a_stream_waits(tracefs: Any) -> None:
    stream = tracefs.stream("trace_pipe")
    with pytest.raises(TimeoutError):
        stream.read(A_MOMENT)
    mark(tracefs, "now")
    assert bodies(stream.read(20)) == marked("now")
    with pytest.raises(TimeoutError):
        stream.read(A_MOMENT)
    stream.close()
    assert stream.read(20) == b""


def test_a_stream_is_closed_under_its_reader(tracefs: Any) -> None:
    got: list[bytes] = []
    stream = tracefs.stream("trace_pipe")
    reader = threading.Thread(target=lambda: got.append(stream.read()))
    reader.start()
    reader.join(A_MOMENT)
    assert reader.is_alive()
    stream.close()
    reader.join(20)
    assert got == [b""]
    tracefs.stream("trace_pipe").close()  # and the pipe is free again


def test_one_reader(tracefs: Any) -> None:
    with tracefs.open("trace_pipe", NONBLOCK):
        with pytest.raises(OSError) as refusal:
            tracefs.open("trace_pipe", NONBLOCK)
        assert refusal.value.errno == EBUSY
        with pytest.raises(OSError) as refusal:
            tracefs.stream("trace_pipe")
        assert refusal.value.errno == EBUSY
        with pytest.raises(OSError) as refusal:
            tracefs.open("per_cpu/cpu0/trace_pipe", NONBLOCK)
        assert refusal.value.errno == EBUSY
    with tracefs.open("per_cpu/cpu0/trace_pipe", NONBLOCK):
        with pytest.raises(OSError) as refusal:
            tracefs.open("trace_pipe", NONBLOCK)
        assert refusal.value.errno == EBUSY
    with tracefs.open("trace_pipe", NONBLOCK):
        pass


def test_the_end_when_tracing_is_off(tracefs: Any) -> None:
    mark(tracefs, "last")
    with tracefs.open("trace_pipe", os.O_RDONLY) as pipe:
        assert bodies(pipe.read(65536)) == marked("last")
        tracefs.write("tracing_on", b"0")
        assert pipe.read(65536) == b""
        assert pipe.read(65536) == b""
        tracefs.write("tracing_on", b"1")
        mark(tracefs, "again")
        assert bodies(pipe.read(65536)) == marked("again")


def test_the_end_and_a_waiting_reader(tracefs: Any, choose: Any) -> None:
    """A reader that waits is woken by the end, on some kernels; on others it waits on, for the next event."""
    mark(tracefs, "first")
    stream = tracefs.stream("trace_pipe")
    assert bodies(stream.read(20)) == marked("first")
    with pytest.raises(TimeoutError):
        stream.read(A_MOMENT)
    tracefs.write("tracing_on", b"0")
    if choose({"": False, EPROBES: True, DENTRY: False}):
        assert stream.read(20) == b""
        return
    with pytest.raises(TimeoutError):
        stream.read(A_MOMENT)
    tracefs.write("tracing_on", b"1")
    mark(tracefs, "again")
    assert bodies(stream.read(20)) == marked("again")
    stream.close()


def test_no_end_for_who_has_read_nothing(tracefs: Any) -> None:
    tracefs.write("tracing_on", b"0")
    stream = tracefs.stream("trace_pipe")
    with pytest.raises(TimeoutError):
        stream.read(A_MOMENT)
    tracefs.write("tracing_on", b"1")
    mark(tracefs, "now")
    assert bodies(stream.read(20)) == marked("now")
    stream.close()


def test_no_end_without_waiting(tracefs: Any) -> None:
    mark(tracefs, "one")
    with tracefs.open("trace_pipe", NONBLOCK) as pipe:
        pipe.read(65536)
        tracefs.write("tracing_on", b"0")
        with pytest.raises(BlockingIOError):
            pipe.read(65536)


def test_small_reads(tracefs: Any) -> None:
    """A record is consumed when it is made into text, even if only ten bytes of it are taken."""
    mark(tracefs, "one", "two")
    with tracefs.open("trace_pipe", NONBLOCK) as pipe:
        start = pipe.read(10)
        assert len(start) == 10
        assert traced(tracefs) == marked("two")
        text = start
        while not text.endswith(b"one\n"):
            text += pipe.read(10)
        assert bodies(text) == marked("one")
        assert bodies(pipe.read(65536)) == marked("two")


def test_no_seeking(tracefs: Any) -> None:
    with tracefs.open("trace_pipe", NONBLOCK) as pipe:
        with pytest.raises(OSError) as refusal:
            pipe.lseek(0)
        assert refusal.value.errno == ESPIPE


def test_no_writing(tracefs: Any) -> None:
    with tracefs.open("trace_pipe", os.O_RDWR | os.O_NONBLOCK) as pipe:
        with pytest.raises(OSError) as refusal:
            pipe.write(b"x")
        assert refusal.value.errno == EINVAL


def test_poll(tracefs: Any) -> None:
    with tracefs.open("trace_pipe", NONBLOCK) as pipe:
        assert pipe.poll(events=select.POLLIN, timeout=0) == 0
        started = time.monotonic()
        assert pipe.poll(events=select.POLLIN, timeout=0.005) == 0
        assert time.monotonic() - started >= 0.004
        mark(tracefs, "one")
        assert pipe.poll(events=select.POLLIN, timeout=20) == select.POLLIN
        pipe.read(65536)
        assert pipe.poll(events=select.POLLIN, timeout=0) == 0


def test_counts_in_the_heading(tracefs: Any) -> None:
    mark(tracefs, "one", "two", "three")
    assert b"entries-in-buffer/entries-written: 3/3 " in tracefs.read("trace")
    with tracefs.open("trace_pipe", NONBLOCK) as pipe:
        pipe.read(10)
    assert b"entries-in-buffer/entries-written: 2/2 " in tracefs.read("trace")


def test_lost_events(tracefs: Any, workload: Any) -> None:
    """A buffer of two pages keeps the newest records; the pipe says how many are missing before the first."""
    define(tracefs, "p:a do_sys_openat2")
    tracefs.write("buffer_size_kb", b"1")
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null", repeat=1000)
    tracefs.write("events/kprobes/a/enable", b"0")
    heading = tracefs.read("trace").decode().split("\n")[2]
    kept, written = (int(number) for number in heading.split()[2].split("/"))
    assert written == 1000
    text = b""
    with tracefs.open("trace_pipe", NONBLOCK) as pipe:
        while True:
            try:
                text += pipe.read(65536)
            except BlockingIOError:
                break
    lines = text.split(b"\n")
    assert lines[0].decode() == f"CPU:0 [LOST {1000 - kept} EVENTS]"
    assert len(lines) == kept + 2


def test_the_pipe_of_a_cpu(tracefs: Any) -> None:
    mark(tracefs, "one")
    with tracefs.open("per_cpu/cpu0/trace_pipe", NONBLOCK) as pipe:
        assert bodies(pipe.read(65536)) == marked("one")
    assert traced(tracefs) == []
