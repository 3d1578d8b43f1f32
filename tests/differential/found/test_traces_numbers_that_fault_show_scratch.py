"""A number that can't be read shows what the CPU's scratch page held, where the event has a filter.

Found by a campaign on 6.1.0-54-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.generators.traces import zeros_on_scratch_page
from kprobe_lab.operations.operation import Call, Operation, Read, Write

OPERATIONS: list[Operation] = [
    *zeros_on_scratch_page(),
    Write(
        path="kprobe_events",
        data=b"p:g/a ksys_fadvise64_64 a=%si b=%dx c=%cx:u32\np:g/b ksys_fadvise64_64 a=+0(%di):u64 b=+8(%di):b8@4/32 c=+0(%di):u8[8]",
        flags=1,
    ),
    Write(path="events/g/a/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/b/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/enable", data=b"1", flags=1),
    Call(name="fadvise", arguments=(-2, 268435456, 1234605616436508552, 77, b"x\x00")),
    Call(name="fadvise", arguments=(-2, 268435472, 43253395009433343, 5, b"x\x00")),
    Read(path="trace"),
]
KERNEL = [
    [("write", 124)],
    [("write", 18)],
    [("write", 1)],
    [("fadvise", -9)],
    [("write", 1)],
    [("write", 11)],
    [("write", 117)],
    [("write", 18)],
    [("write", 18)],
    [("write", 1)],
    [("fadvise", -9)],
    [("fadvise", -9)],
    [
        (
            "trace",
            b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 4/4   #P:1\n#\n#                                _-----=> irqs-off/BH-disabled\n#                               / _----=> need-resched\n#                              | / _---=> hardirq/softirq\n#                              || / _--=> preempt-depth\n#                              ||| / _-=> migrate-disable\n#                              |||| /     delay\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n#              | |         |   |||||     |         |\ntask [000] ..... time: b: (ksys_fadvise64_64+0x0/0xa0) a=0 b=0 c={0,0,0,0,0,0,0,0}\ntask [000] ..... time: a: (ksys_fadvise64_64+0x0/0xa0) a=0x10000000 b=0x1122334455667788 c=77\ntask [000] ..... time: b: (ksys_fadvise64_64+0x0/0xa0) a=268435456 b=120 c={68,51,34,17,77,0,0,0}\ntask [000] ..... time: a: (ksys_fadvise64_64+0x0/0xa0) a=0x10000010 b=0x99aabbccddeeff c=5\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:6.1", pytest.param("vm:6.1", marks=pytest.mark.vm)])
def test_traces_numbers_that_fault_show_scratch(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
