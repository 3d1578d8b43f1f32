"""On 5.10 a string of an array that can't be read keeps the room that it could have had.

Found by a campaign on 5.10.0-46-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.generators.traces import zeros_on_scratch_page
from kprobe_lab.operations.operation import Call, Operation, Read, Write

OPERATIONS: list[Operation] = [
    *zeros_on_scratch_page(),
    Write(path="kprobe_events", data=b"p:g/a ksys_fadvise64_64 a=+0(%si):string[4] b=$comm", flags=1),
    Write(path="events/g/a/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/enable", data=b"1", flags=1),
    Call(
        name="fadvise",
        arguments=(
            -2,
            268435456,
            0,
            0,
            b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00@\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00hello\x00",
        ),
    ),
    Read(path="trace"),
]
KERNEL = [
    [("write", 124)],
    [("write", 18)],
    [("write", 1)],
    [("fadvise", -9)],
    [("write", 1)],
    [("write", 11)],
    [("write", 51)],
    [("write", 18)],
    [("write", 1)],
    [("fadvise", -9)],
    [
        (
            "trace",
            b'# tracer: nop\n#\n# entries-in-buffer/entries-written: 1/1   #P:1\n#\n#                                _-----=> irqs-off\n#                               / _----=> need-resched\n#                              | / _---=> hardirq/softirq\n#                              || / _--=> preempt-depth\n#                              ||| /     delay\n#           TASK-PID     CPU#  ||||   TIMESTAMP  FUNCTION\n#              | |         |   ||||      |         |\ntask [000] .... time: a: (ksys_fadvise64_64+0x0/0xa0) a={"hello","hello","hello","hello"} b="workload"\n',
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:5.10", pytest.param("vm:5.10", marks=pytest.mark.vm)])
def test_traces_strings_that_fault(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
