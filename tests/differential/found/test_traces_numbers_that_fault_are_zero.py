"""On 5.10 a number at a kernel address that can't be read is 0; one at a user address shows what the buffer held.

Found by a campaign on 5.10.0-46-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(
        path="kprobe_events",
        data=b"p:g/a ksys_fadvise64_64 f0=+0(%si):x64 f1=+0(%si):x64 f2=+0(%si):x64 f3=+0(%si):x64 f4=+0(%si):x64 f5=+0(%si):x64 f6=+0(%si):x64 f7=+0(%si):x64 f8=+0(%si):x64 f9=+0(%si):x64",
        flags=1,
    ),
    Write(
        path="kprobe_events",
        data=b"p:g/b ksys_fadvise64_64 f0=+0(%di):u8 f1=+0(%di):s64 f2=+0(%di):u16[2] f3=+8(%di):b4@2/16 f4=+u0(%di):u32 f5=+0(%dx):u32 f6=+0(%dx):u16[2] f7=@0xffff800000000000:x32 f8=@0x8000000000000000:x32 f9=+0(+0(%di)):u32",
        flags=1,
    ),
    Write(path="events/g/a/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/b/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/a/enable", data=b"1", flags=1),
    Call(name="fadvise", arguments=(-2, 268435456, 536870912, 0, b"xxxxxxxx")),
    Write(path="events/g/a/enable", data=b"0", flags=1),
    Write(path="events/g/b/enable", data=b"1", flags=1),
    Call(name="fadvise", arguments=(-2, 268435456, 536870912, 0, b"xxxxxxxx")),
    Write(path="events/g/b/enable", data=b"0", flags=1),
    Read(path="trace"),
]
KERNEL = [
    [("write", 173)],
    [("write", 211)],
    [("write", 18)],
    [("write", 18)],
    [("write", 1)],
    [("fadvise", -9)],
    [("write", 1)],
    [("write", 1)],
    [("fadvise", -9)],
    [("write", 1)],
    [
        (
            "trace",
            b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/2   #P:1\n#\n#                                _-----=> irqs-off\n#                               / _----=> need-resched\n#                              | / _---=> hardirq/softirq\n#                              || / _--=> preempt-depth\n#                              ||| /     delay\n#           TASK-PID     CPU#  ||||   TIMESTAMP  FUNCTION\n#              | |         |   ||||      |         |\ntask [000] .... time: a: (ksys_fadvise64_64+0x0/0xa0) f0=0x7878787878787878 f1=0x7878787878787878 f2=0x7878787878787878 f3=0x7878787878787878 f4=0x7878787878787878 f5=0x7878787878787878 f6=0x7878787878787878 f7=0x7878787878787878 f8=0x7878787878787878 f9=0x7878787878787878\ntask [000] .... time: b: (ksys_fadvise64_64+0x0/0xa0) f0=0 f1=0 f2={0,30840} f3=14 f4=2021161080 f5=2021161080 f6={30840,30840} f7=0x0 f8=0x78787878 f9=2021161080\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:5.10", pytest.param("vm:5.10", marks=pytest.mark.vm)])
def test_traces_numbers_that_fault_are_zero(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
