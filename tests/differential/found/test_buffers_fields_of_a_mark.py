"""With the option `fields` the trace shows a probe's record field by field, and a mark as `UNKNOWN TYPE 5`.

Found by a campaign on 6.12.117+deb13-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(
        path="kprobe_events",
        data=b"p:g/a ksys_fadvise64_64 a=%si b=%cx:u8 c=+0(%si):string d=%dx:u8[1] e=%dx:s32",
        flags=1,
    ),
    Write(path="kprobe_events", data=b"p:g/a ksys_fadvise64_64 a=%si b=%cx:u8 c=+0(%si):string e=%dx:s32", flags=1),
    Write(path="events/g/a/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/a/enable", data=b"1", flags=1),
    Write(path="trace_options", data=b"fields", flags=1),
    Call(name="fadvise", arguments=(-2, 268435456, 5, 65, b"a\nb\x00")),
    Call(name="fadvise", arguments=(-2, 268435456, -5, 1, b"\x00")),
    Write(path="trace_marker", data=b"x", flags=1),
    Read(path="trace"),
]
KERNEL = [
    [("write", "EINVAL")],
    [("write", 65)],
    [("write", 18)],
    [("write", 1)],
    [("write", 6)],
    [("fadvise", -9)],
    [("fadvise", -9)],
    [("write", 1)],
    [
        (
            "trace",
            b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 3/3   #P:1\n#\n#                                _-----=> irqs-off/BH-disabled\n#                               / _----=> need-resched\n#                              | / _---=> hardirq/softirq\n#                              || / _--=> preempt-depth\n#                              ||| / _-=> migrate-disable\n#                              |||| /     delay\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n#              | |         |   |||||     |         |\ntask [000] ..... time: a: __probe_ip=0xffffffff813255f4 (-2127407628) a=0x10000000 (268435456) b='A'(65) c=a\nb e=0x5 (5)\ntask [000] ..... time: a: __probe_ip=0xffffffff813255f4 (-2127407628) a=0x10000000 (268435456) b=(1) c= e=0xfffffffb (-5)\ntask [000] ..... time: UNKNOWN TYPE 5\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_buffers_fields_of_a_mark(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
