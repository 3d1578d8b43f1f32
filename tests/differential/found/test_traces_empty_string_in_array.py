"""On 5.10 an empty string of an array is recorded with length 0 and shown as `(fault)`.

Found by a campaign on 5.10.0-46-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(
        path="kprobe_events", data=b"p:g/a ksys_fadvise64_64 f=+0(%si):string[4] h=+0(%si):ustring[2] i=$comm", flags=1
    ),
    Write(path="events/g/a/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/enable", data=b"1", flags=1),
    Call(
        name="fadvise",
        arguments=(
            -2,
            268435456,
            0,
            0,
            b"&\x00\x00\x10\x00\x00\x00\x00 \x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00 \x00\x00\x10\x00\x00\x00\x00hello\x00\x00",
        ),
    ),
    Call(
        name="fadvise",
        arguments=(
            -2,
            268435456,
            0,
            0,
            b"\x00\x00\x00\x00\x00\x00\x00\x00&\x00\x00\x10\x00\x00\x00\x00 \x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80hello\x00\x00",
        ),
    ),
    Read(path="trace"),
]
KERNEL = [
    [("write", 72)],
    [("write", 18)],
    [("write", 1)],
    [("fadvise", -9)],
    [("fadvise", -9)],
    [
        (
            "trace",
            b'# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/2   #P:1\n#\n#                                _-----=> irqs-off\n#                               / _----=> need-resched\n#                              | / _---=> hardirq/softirq\n#                              || / _--=> preempt-depth\n#                              ||| /     delay\n#           TASK-PID     CPU#  ||||   TIMESTAMP  FUNCTION\n#              | |         |   ||||      |         |\ntask [000] .... time: a: (ksys_fadvise64_64+0x0/0xa0) f={(fault),"hello","hello","hello"} h={(fault),"hello"} i="workload"\ntask [000] .... time: a: (ksys_fadvise64_64+0x0/0xa0) f={"hello",(fault),"hello","workload"} h={"workload",(fault)} i="workload"\n',
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:5.10", pytest.param("vm:5.10", marks=pytest.mark.vm)])
def test_traces_empty_string_in_array(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
