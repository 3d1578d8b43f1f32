"""Raw pages of kernels before 3.3, whose records have a common field more: fixtures/text/3.2/*.formats have it."""

from __future__ import annotations

import os

import pytest

from kprobe import Tracer
from kprobe.tracing.live import RawPipe
from kprobe_sim import SimulatedKernel, Task
from kprobe_text.text import Event, Marker

CAT = Task(42, "cat")


def page(kernel: SimulatedKernel) -> bytes:
    with kernel.tracefs.open("per_cpu/cpu0/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK) as raw:
        return raw.read(4096)


def test_a_record_lies_in_a_page_as_its_format_says() -> None:
    kernel = SimulatedKernel("3.2")
    kernel.tracefs.write("kprobe_events", b"p:x do_sys_open s=+0(%si):string n=%dx:u32\n")
    assert b"field:__data_loc char[] s;\toffset:24;" in kernel.tracefs.read("events/kprobes/x/format")
    kernel.tracefs.write("events/kprobes/x/enable", b"1")
    kernel.call("do_sys_open", task=CAT, args=(-100, "/a", 7), returns=3)
    record = page(kernel)[20:64]  # after the page's head and the event's
    assert record[4:8] == b"\x2a\0\0\0"  # common_pid
    assert record[8:16] == bytes(8)  # common_padding, and none
    assert record[16:24] == b"\x90\x58\x0c\x81\xff\xff\xff\xff"  # __probe_ip: where 3.2 has do_sys_open
    assert record[24:28] == b"\x20\0\x03\0"  # 3 bytes at byte 32
    assert record[28:32] == b"\x07\0\0\0"
    assert record[32:35] == b"/a\0"


@pytest.mark.parametrize("release", ["3.0", "3.2"])
def test_raw_pages_of_old_kernels_are_read(release: str) -> None:
    """They were printed as `not all understood`, with the string for an address."""
    kernel = SimulatedKernel(release)
    definitions = ["p:x do_sys_open s=+0(%si):string n=%dx:u32", "r:y do_sys_open r=$retval:s32"]
    with Tracer(kernel.tracefs).trace(*definitions, raw=True) as trace:
        for number in range(200):
            kernel.call("do_sys_open", task=CAT, args=(-100, f"/{number}", number), returns=number)
        trace.stop()
        events = [event for event in trace if isinstance(event, Event)]
    assert [event.fields for event in events[::2]] == [{"s": f"/{n}", "n": n} for n in range(200)]
    assert [event.fields for event in events[1::2]] == [{"r": n} for n in range(200)]
    assert {(event.name, event.complete, str(event.address)[:14]) for event in events} == {
        ("x", True, "do_sys_open+0x"),
        ("y", True, "do_sys_open+0x"),
    }


def test_the_first_kernels_count_the_arguments() -> None:
    kernel = SimulatedKernel("2.6.33")
    with Tracer(kernel.tracefs).trace("p:x do_sys_open a=%di b=%dx", raw=True) as trace:
        kernel.call("do_sys_open", task=CAT, args=(-100, "/a", 7), returns=3)
        trace.stop()
        (event,) = [event for event in trace if isinstance(event, Event)]
    assert event.fields == {"__probe_nargs": 2, "a": 0xFFFFFFFFFFFFFF9C, "b": 7}


def test_a_mark_in_raw_pages_of_3_2() -> None:
    kernel = SimulatedKernel("3.2")
    kernel.tracefs.write("trace_marker", b"half way\n")
    records = RawPipe(kernel.tracefs, events=()).drain()
    assert [record.text for record in records if isinstance(record, Marker)] == ["half way"]
