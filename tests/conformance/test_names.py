"""Names that aren't UTF-8: of instances, of events and their groups, of tasks.

An instance has any name that a directory may have. The names in kprobe_events are made of the kernel's letters, those
of latin-1 among them (5.10, 6.1 and 7.2: 0xff and 0xe9 are letters, 0xd7 and 0x80 aren't, nor is the second byte of ä).
"""

from __future__ import annotations

import errno
from typing import Any

import pytest

from .text import bodies

NAME = "\udcff\udcfe"  # b"\xff\xfe" as os.fsdecode() has it


def test_an_instance(tracefs: Any) -> None:
    tracefs.mkdir(f"instances/{NAME}")
    try:
        assert tracefs.listdir("instances") == [NAME]
        assert tracefs.exists(f"instances/{NAME}/events")
        assert tracefs.read(f"instances/{NAME}/current_tracer") == b"nop\n"
        tracefs.write(f"instances/{NAME}/trace_marker", b"\xff\n")
        assert tracefs.read(f"instances/{NAME}/trace").endswith(b"tracing_mark_write: \xff\n")
        with pytest.raises(FileNotFoundError) as caught:
            tracefs.read(f"instances/{NAME}/nosuch")
        assert caught.value.filename == f"instances/{NAME}/nosuch"
        with pytest.raises(FileExistsError) as there:
            tracefs.mkdir(f"instances/{NAME}")
        assert there.value.filename == f"instances/{NAME}"
    finally:
        tracefs.rmdir(f"instances/{NAME}")
    assert tracefs.listdir("instances") == []


@pytest.mark.parametrize("letter", ["\udcff", "ä"])
def test_how_long_a_name_may_be_is_a_matter_of_bytes(tracefs: Any, letter: str) -> None:
    length = len(letter.encode("utf-8", "surrogateescape"))
    tracefs.mkdir("instances/" + letter * (255 // length))
    tracefs.rmdir("instances/" + letter * (255 // length))
    with pytest.raises(OSError) as caught:
        tracefs.mkdir("instances/" + letter * (255 // length + 1))
    assert caught.value.errno == errno.ENAMETOOLONG


def test_an_event_and_its_group(tracefs: Any) -> None:
    tracefs.write("kprobe_events", b"p:\xff\xfe/\xe9 do_sys_openat2 \xea=%di:s32\n")
    assert tracefs.read("kprobe_events") == b"p:\xff\xfe/\xe9 do_sys_openat2 \xea=%di:s32\n"
    assert [name for name in tracefs.listdir("events") if not name.isascii()] == [NAME]
    assert "\udce9" in tracefs.listdir(f"events/{NAME}")
    assert tracefs.read(f"events/{NAME}/\udce9/format").startswith(b"name: \xe9\n")
    assert tracefs.read(f"events/{NAME}/\udce9/enable") == b"0\n"
    tracefs.write("set_event", b"\xff\xfe:\xe9\n")
    assert tracefs.read("set_event") == b"\xff\xfe:\xe9\n"
    assert tracefs.read(f"events/{NAME}/\udce9/enable") == b"1\n"
    assert b"\xff\xfe:\xe9\n" in tracefs.read("available_events")
    assert not tracefs.exists("events/\xff\xfe")
    tracefs.write("set_event", b"!\xff\xfe\n")
    tracefs.write("kprobe_events", b"-:\xff\xfe/\xe9\n")
    assert not tracefs.exists(f"events/{NAME}")


@pytest.mark.parametrize("name", [b"x\xd7", b"x\x80", "ä".encode()])
def test_a_byte_that_is_no_letter(tracefs: Any, name: bytes) -> None:
    with pytest.raises(OSError) as caught:
        tracefs.write("kprobe_events", b"p:%b do_sys_openat2\n" % name)
    assert caught.value.errno == errno.EINVAL


def test_the_tracer(tracer: Any, workload: Any) -> None:
    """A task's name, a path and a group that are no text come out as recognisable bytes."""
    workload.rename(b"\xff\xfe")
    definition = "p:open1 do_sys_openat2 file=+0(%si):string comm=$comm"
    with tracer.trace(definition, filter=f"common_pid == {workload.pid}") as trace:
        workload.open("/tmp/\udcfd")
        trace.stop()
        (event,) = trace
    assert (event.task, event.fields["file"], event.fields["comm"]) == (NAME, "/tmp/\udcfd", NAME)


def test_a_marker_of_such_a_task(tracefs: Any, workload: Any) -> None:
    workload.rename(b"\xff\xfe")
    tracefs.write("kprobe_events", b"p:open1 do_sys_openat2\n")
    tracefs.write("events/kprobes/open1/filter", b'comm == "\xff\xfe"\n')
    assert tracefs.read("events/kprobes/open1/filter") == b'comm == "\xff\xfe"\n'
    tracefs.write("events/kprobes/open1/enable", b"1\n")
    workload.open("/etc/hostname")
    tracefs.write("events/kprobes/open1/enable", b"0\n")
    (line,) = bodies(tracefs.read("trace"))
    assert line.startswith("open1: (do_sys_openat2+0x0/0x")
    assert b"%d \xff\xfe\n" % workload.pid in tracefs.read("saved_cmdlines")
