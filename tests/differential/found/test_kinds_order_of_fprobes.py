"""Fprobes and kprobes at one function are called in another order on 7.2 than on 6.12, and see other return addresses.

Found by a campaign on 6.12.117+deb13-cloud-amd64 and 7.2.13+deb14-cloud-amd64, seed 3.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Outcome, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:g/k ksys_fadvise64_64\nr:g/r ksys_fadvise64_64 s=$retval:s8", flags=1),
    Write(path="dynamic_events", data=b"f:g/f ksys_fadvise64_64\nf:g/x ksys_fadvise64_64%return", flags=1),
    Write(path="trace_options", data=b"noirq-info", flags=1),
    Write(path="events/g/f/enable", data=b"1", flags=1),
    Write(path="events/g/k/enable", data=b"1", flags=1),
    Call(name="fadvise", arguments=(-2, 268435456, 5, 0, b"text\x00")),
    Write(path="events/g/f/enable", data=b"0", flags=1),
    Write(path="events/g/f/enable", data=b"1", flags=1),
    Write(path="events/g/x/enable", data=b"1", flags=1),
    Write(path="events/g/r/enable", data=b"1", flags=1),
    Call(name="fadvise", arguments=(-2, 268435456, 5, 0, b"text\x00")),
    Write(path="dynamic_events", data=b"f:g/h ksys_fadvise64_64\nf:g/y ksys_fadvise64_64%return", flags=1),
    Write(path="events/g/h/enable", data=b"1", flags=1),
    Write(path="events/g/y/enable", data=b"1", flags=1),
    Call(name="fadvise", arguments=(-2, 268435456, 5, 0, b"text\x00")),
    Read(path="trace"),
]
ANSWERS: list[Outcome] = [
    [("write", 60)],
    [("write", 54)],
    [("write", 10)],
    [("write", 1)],
    [("write", 1)],
    [("fadvise", -9)],
    [("write", 1)],
    [("write", 1)],
    [("write", 1)],
    [("write", 1)],
    [("fadvise", -9)],
    [("write", 54)],
    [("write", 1)],
    [("write", 1)],
    [("fadvise", -9)],
]
HEADER = (
    b"# tracer: nop\n"
    b"#\n"
    b"# entries-in-buffer/entries-written: 12/12   #P:1\n"
    b"#\n"
    b"#           TASK-PID     CPU#     TIMESTAMP  FUNCTION\n"
    b"#              | |         |         |         |\n"
)
TRACES = {
    "6.12": (
        b"task [000] time: k: (ksys_fadvise64_64+0x4/0xa0)\n"
        b"task [000] time: f: (ksys_fadvise64_64+0x4/0xa0)\n"
        b"task [000] time: k: (ksys_fadvise64_64+0x4/0xa0)\n"
        b"task [000] time: f: (ksys_fadvise64_64+0x4/0xa0)\n"
        b"task [000] time: x: (__x64_sys_fadvise64+0x1c/0x30 <- ksys_fadvise64_64)\n"
        b"task [000] time: r: (__x64_sys_fadvise64+0x1c/0x30 <- ksys_fadvise64_64) s=-9\n"
        b"task [000] time: h: (ksys_fadvise64_64+0x4/0xa0)\n"
        b"task [000] time: k: (ksys_fadvise64_64+0x4/0xa0)\n"
        b"task [000] time: f: (ksys_fadvise64_64+0x4/0xa0)\n"
        b"task [000] time: x: (__x64_sys_fadvise64+0x1c/0x30 <- ksys_fadvise64_64)\n"
        b"task [000] time: r: ([unknown/kretprobe'd] <- ksys_fadvise64_64) s=-9\n"
        b"task [000] time: y: (__x64_sys_fadvise64+0x1c/0x30 <- ksys_fadvise64_64)\n"
    ),
    "7.2": (
        b"task [000] time: k: (ksys_fadvise64_64+0x4/0xc0)\n"
        b"task [000] time: f: (ksys_fadvise64_64+0x4/0xc0)\n"
        b"task [000] time: f: (ksys_fadvise64_64+0x4/0xc0)\n"
        b"task [000] time: k: (ksys_fadvise64_64+0x4/0xc0)\n"
        b"task [000] time: r: (return_to_handler+0x0/0x50 <- ksys_fadvise64_64) s=-9\n"
        b"task [000] time: x: (__x64_sys_fadvise64+0x1c/0x30 <- ksys_fadvise64_64)\n"
        b"task [000] time: h: (ksys_fadvise64_64+0x4/0xc0)\n"
        b"task [000] time: f: (ksys_fadvise64_64+0x4/0xc0)\n"
        b"task [000] time: k: (ksys_fadvise64_64+0x4/0xc0)\n"
        b"task [000] time: r: (return_to_handler+0x0/0x50 <- ksys_fadvise64_64) s=-9\n"
        b"task [000] time: y: (__x64_sys_fadvise64+0x1c/0x30 <- ksys_fadvise64_64)\n"
        b"task [000] time: x: (__x64_sys_fadvise64+0x1c/0x30 <- ksys_fadvise64_64)\n"
    ),
}


@pytest.mark.parametrize("kernel", TRACES)
@pytest.mark.parametrize("backend", ["sim", pytest.param("vm", marks=pytest.mark.vm)])
def test_kinds_order_of_fprobes(backend: str, kernel: str) -> None:
    expected = [*ANSWERS, [("trace", HEADER + TRACES[kernel])]]
    assert answers(f"{backend}:{kernel}", OPERATIONS) == expected
