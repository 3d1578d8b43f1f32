"""The level of system calls: open with flags, read in pieces, write, lseek, poll, close, and their errors."""

from __future__ import annotations

import os
from errno import EACCES, EBADF, EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, EPERM
from typing import Any

import pytest

from .text import define, probes, refused

DEFINED = b"p:a do_sys_openat2\n"
LISTED = b"p:kprobes/a do_sys_openat2\n"


def fails(number: int, function: Any, *arguments: Any) -> None:
    with pytest.raises(OSError) as refusal:
        function(*arguments)
    assert refusal.value.errno == number


def test_reading_in_pieces(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2", "p:b do_sys_openat2")
    with tracefs.open("kprobe_events", os.O_RDONLY) as file:
        text = b""
        while piece := file.read(7):
            assert len(piece) <= 7
            text += piece
        assert file.read(7) == b""
    assert text == b"p:kprobes/a do_sys_openat2\np:kprobes/b do_sys_openat2\n"


def test_reading_again_after_seeking(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    with tracefs.open("kprobe_events", os.O_RDONLY) as file:
        assert file.read(100) == b"p:kprobes/a do_sys_openat2\n"
        define(tracefs, "p:b do_sys_openat2")
        assert file.lseek(0) == 0
        assert file.read(100) == b"p:kprobes/a do_sys_openat2\np:kprobes/b do_sys_openat2\n"


def test_seeking_in_a_list(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    with tracefs.open("kprobe_events", os.O_RDONLY) as file:
        assert file.lseek(10) == 10
        assert file.read(100) == LISTED[10:]
        assert file.lseek(-4, os.SEEK_CUR) == len(LISTED) - 4
        fails(EINVAL, file.lseek, 0, os.SEEK_END)
        fails(EINVAL, file.lseek, -1)


@pytest.mark.parametrize("path", ["tracing_on", "events/enable", "buffer_size_kb"])
def test_a_value_is_read_once(tracefs: Any, path: str) -> None:
    with tracefs.open(path, os.O_RDONLY) as file:
        whole = file.read(4096)
        assert whole.endswith(b"\n")
        assert file.read(4096) == b""
        assert file.lseek(0) == 0
        assert file.read(1) == whole[:1]
        assert file.read(4096) == whole[1:]


def test_a_write_only_file(tracefs: Any) -> None:
    with tracefs.open("kprobe_events", os.O_WRONLY) as file:
        assert file.write(DEFINED) == len(DEFINED)
        fails(EBADF, file.read, 10)


def test_a_read_only_file(tracefs: Any) -> None:
    with tracefs.open("kprobe_events", os.O_RDONLY) as file:
        fails(EBADF, file.write, b"p:a do_sys_openat2\n")
    assert probes(tracefs) == []


def test_both_ways(tracefs: Any) -> None:
    with tracefs.open("kprobe_events", os.O_RDWR) as file:
        assert file.read(100) == b""
        assert file.write(DEFINED) == len(DEFINED)
        file.lseek(0)
        assert file.read(100) == b"p:kprobes/a do_sys_openat2\n"


def test_where_a_write_starts_does_not_matter(tracefs: Any) -> None:
    with tracefs.open("kprobe_events", os.O_RDWR) as file:
        file.lseek(1000)
        assert file.write(DEFINED) == len(DEFINED)
    assert probes(tracefs) == ["p:kprobes/a do_sys_openat2"]


@pytest.mark.parametrize(
    ("path", "flags", "number"),
    [
        ("nosuch", os.O_RDONLY, ENOENT),
        ("nosuch", os.O_WRONLY, ENOENT),
        ("events/kprobes/x/enable", os.O_WRONLY, ENOENT),
        ("trace/x", os.O_RDONLY, ENOTDIR),
        ("events", os.O_WRONLY, EISDIR),
        ("events/sched", os.O_RDWR, EISDIR),
        ("nosuch", os.O_WRONLY | os.O_CREAT, EACCES),
        ("events/nosuch", os.O_WRONLY | os.O_CREAT, EACCES),
        ("tracing_on", os.O_WRONLY | os.O_CREAT | os.O_EXCL, EEXIST),
        ("trace", os.O_RDONLY | os.O_DIRECTORY, ENOTDIR),
    ],
)
def test_open_refused(tracefs: Any, path: str, flags: int, number: int) -> None:
    fails(number, tracefs.open, path, flags)


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("README", EINVAL),
        ("available_events", EINVAL),
        ("available_filter_functions", EINVAL),
        ("kprobe_profile", EINVAL),
        ("events/sched/sched_switch/format", EINVAL),
        ("events/sched/sched_switch/id", EINVAL),
        ("per_cpu/cpu0/stats", EINVAL),
    ],
)
def test_writing_to_what_is_only_read(tracefs: Any, path: str, number: int) -> None:
    assert refused(tracefs, path, "x") == number


def test_reading_what_is_only_written(tracefs: Any) -> None:
    fails(EINVAL, tracefs.read, "trace_marker")


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("nosuch", EPERM),
        ("events/nosuch", EPERM),
        ("instances/a/b", ENOENT),
        ("events/sched", EEXIST),
        ("trace/x", ENOTDIR),
    ],
)
def test_mkdir_refused(tracefs: Any, path: str, number: int) -> None:
    fails(number, tracefs.mkdir, path)


@pytest.mark.parametrize(
    ("path", "number"),
    [("events", EPERM), ("nosuch", ENOENT), ("instances/nosuch", ENOENT), ("trace", ENOTDIR), ("events/sched", EPERM)],
)
def test_rmdir_refused(tracefs: Any, path: str, number: int) -> None:
    fails(number, tracefs.rmdir, path)


def test_an_instance_twice(tracefs: Any) -> None:
    tracefs.mkdir("instances/mine")
    fails(EEXIST, tracefs.mkdir, "instances/mine")
    tracefs.rmdir("instances/mine")
    fails(ENOENT, tracefs.rmdir, "instances/mine")


@pytest.mark.parametrize(("path", "number"), [("nosuch", ENOENT), ("trace", ENOTDIR), ("events/kprobes", ENOENT)])
def test_listdir_refused(tracefs: Any, path: str, number: int) -> None:
    fails(number, tracefs.listdir, path)


def test_the_trace_seeks_only_when_it_is_read(tracefs: Any) -> None:
    with tracefs.open("trace", os.O_WRONLY) as file:
        assert file.lseek(10) == 0
        assert file.write(b"x") == 1
    with tracefs.open("trace", os.O_RDONLY) as file:
        assert file.lseek(2) == 2
        assert file.read(6) == b"tracer"


def test_a_whole_trace_in_pieces(tracefs: Any) -> None:
    for number in range(200):
        tracefs.write("trace_marker", f"{number:05}".encode())
    text = b""
    with tracefs.open("trace", os.O_RDONLY) as file:
        while piece := file.read(1000):
            assert len(piece) <= 1000
            text += piece
    assert text == tracefs.read("trace")
    assert text.count(b"tracing_mark_write: ") == 200


def test_an_empty_write(tracefs: Any) -> None:
    with tracefs.open("kprobe_events", os.O_WRONLY) as file:
        assert file.write(b"") == 0
    with tracefs.open("set_event", os.O_WRONLY) as file:
        assert file.write(b"") == 0
