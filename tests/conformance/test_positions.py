"""File positions: what read, write and lseek do with them, which differs from file to file.

Each row was found by the campaign (kprobe-vm diff) as a difference between the simulator and a real 6.1 kernel.
"""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from kprobe_sim.builds.profile import Profile

from .builds import SUFFIX
from .text import define

_SEEK_DATA, _SEEK_HOLE = 3, 4


def sought(tracefs: Any, path: str, offset: int, whence: int, flags: int = os.O_RDONLY) -> int | str:
    """Return where lseek leads, or the name of its errno."""
    with tracefs.open(path, flags) as file:
        try:
            return int(file.lseek(offset, whence))
        except OSError as error:
            return errno.errorcode[error.errno or 0]


@pytest.mark.parametrize(
    ("path", "offset", "whence", "answer"),
    [
        ("events/header_page", 5, os.SEEK_END, 5),
        ("stack_max_size", 100, os.SEEK_END, 100),
        ("max_graph_depth", 2, os.SEEK_END, 2),
        ("max_graph_depth", 5, _SEEK_DATA, "ENXIO"),
        ("max_graph_depth", -5, _SEEK_HOLE, "ENXIO"),
        ("buffer_size_kb", 1 << 31, os.SEEK_SET, "EINVAL"),
        ("stack_max_size", 1 << 31, os.SEEK_SET, 1 << 31),
        ("saved_cmdlines_size", 0, os.SEEK_SET, "ESPIPE"),
        ("kprobe_events", 0, os.SEEK_END, "EINVAL"),
        ("kprobe_events", 1, _SEEK_DATA, "EINVAL"),
        ("kprobe_events", 100, os.SEEK_SET, 100),
        ("trace_options", 3, 5, "EINVAL"),
    ],
)
def test_lseek(tracefs: Any, path: str, offset: int, whence: int, answer: int | str) -> None:
    assert sought(tracefs, path, offset, whence) == answer


def test_lseek_of_the_longest_latency(tracefs: Any, recorded: Profile) -> None:
    there = "tracing_max_latency" in recorded.tracefs.directory("")  # on 7.0 and later with latency tracers only
    assert tracefs.exists("tracing_max_latency") == there
    if there:
        assert sought(tracefs, "tracing_max_latency", 5, _SEEK_HOLE) == "ENXIO"


@pytest.mark.parametrize("path", ["error_log", "trace", "snapshot"])
def test_lseek_of_a_file_open_for_writing_only(tracefs: Any, path: str) -> None:
    assert sought(tracefs, path, 5, os.SEEK_SET, os.O_WRONLY) == 0
    assert sought(tracefs, path, -1, os.SEEK_END, os.O_WRONLY) == 0


@pytest.mark.parametrize("path", ["events/header_page", "events/header_event", "events/g/a/filter", "events/g/filter"])
def test_a_file_that_is_read_once(tracefs: Any, path: str) -> None:
    define(tracefs, "p:g/a do_sys_openat2")
    with tracefs.open(path, os.O_RDONLY) as file:
        assert len(file.read(2)) == 2
        assert file.read(100) == b""
        file.lseek(0)
        assert len(file.read(2)) == 2


def test_a_mask_needs_room(tracefs: Any) -> None:
    with tracefs.open("tracing_cpumask", os.O_RDONLY) as file:
        with pytest.raises(OSError) as caught:
            file.read(2)
        assert caught.value.errno == errno.EINVAL
        assert file.read(3) == b"1\n"


@pytest.mark.parametrize(
    ("path", "data", "position"),
    [
        ("tracing_on", b"1\n", 1),
        ("buffer_percent", b"50\n", 1),
        ("max_graph_depth", b"0\n", 2),
        ("tracing_thresh", b"0\n", 0),
        ("stack_max_size", b"0\n", 0),
        ("kprobe_events", b"p:a do_sys_openat2\n", 0),
        ("error_log", b"x\n", 0),
        ("trace_options", b"irq-info\n", 9),
        ("events/enable", b"0\n", 2),
    ],
)
def test_position_after_a_write(tracefs: Any, path: str, data: bytes, position: int) -> None:
    with tracefs.open(path, os.O_RDWR) as file:
        assert file.write(data) == len(data)
        assert file.lseek(0, os.SEEK_CUR) == position


def test_a_list_is_made_a_page_at_a_time(tracefs: Any) -> None:
    define(tracefs, *[f"p:{'e' * 60}{number:02d} do_sys_openat2" for number in range(50)])
    line = len(f"p:kprobes/{'e' * 60}00 do_sys_openat2\n")
    with tracefs.open("kprobe_events", os.O_RDONLY) as file:
        assert len(file.read(1 << 16)) == 4095 // line * line
        assert len(file.read(1 << 16)) == (50 - 4095 // line) * line
        assert file.read(1 << 16) == b""


def test_a_list_that_changes_between_reads(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2", "p:b do_sys_openat2", "p:c do_sys_openat2")
    with tracefs.open("kprobe_events", os.O_RDONLY) as file:
        assert file.read(5) == b"p:kpr"
        tracefs.write("kprobe_events", b"-:b")
        assert file.read(1000) == b"obes/a do_sys_openat2\np:kprobes/c do_sys_openat2\n"


def test_nothing_wanted_from_trace_pipe(tracefs: Any) -> None:
    with tracefs.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK) as file:
        assert file.read(0) == b""


def test_an_open_filter_of_an_event_that_goes(tracefs: Any, choose: Any) -> None:
    define(tracefs, "p:g/a do_sys_openat2")
    with tracefs.open("events/g/a/filter", os.O_RDONLY) as file:
        tracefs.write("kprobe_events", b"-:g/a")
        if choose({"": True, "<argname>": False}):
            assert file.read(100) == choose({"": b"none\n", SUFFIX: b""})
        else:
            with pytest.raises(OSError, match="No such device"):
                file.read(100)


def test_a_record_is_made_when_it_is_sought(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    with tracefs.open("kprobe_events", os.O_RDONLY) as file:
        assert file.lseek(20) == 20
        tracefs.write("kprobe_events", b"-:a")
        assert file.read(100) == b"p:kprobes/a do_sys_openat2\n"[20:]
        assert file.read(100) == b""


def test_a_number_is_read_as_it_is_now(tracefs: Any) -> None:
    before = tracefs.read("stack_max_size")
    with tracefs.open("stack_max_size", os.O_RDWR) as file:
        file.write(b"17")
        assert file.read(10) == b"17\n"
    tracefs.write("stack_max_size", before)
