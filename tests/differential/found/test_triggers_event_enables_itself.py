"""An event that its own `enable_event` trigger enables is recorded from the next hit on.

Found by a campaign on 6.1.0-54-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:g/b ksys_fadvise64_64", flags=1),
    Write(path="events/g/b/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/b/trigger", data=b"enable_event:g:b:1", flags=1),
    Call(name="fadvise", arguments=(-2, 268435456, 5, 0, b"\x00")),
    Read(path="trace"),
    Call(name="fadvise", arguments=(-2, 268435456, 5, 0, b"\x00")),
    Read(path="trace"),
    Read(path="events/g/b/enable"),
    Write(path="events/g/b/trigger", data=b"!enable_event:g:b", flags=1),
    Read(path="events/g/b/enable"),
]
KERNEL = [
    [("write", 23)],
    [("write", 18)],
    [("write", 18)],
    [("fadvise", -9)],
    [
        (
            "trace",
            b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:1\n#\n#                                _-----=> irqs-off/BH-disabled\n#                               / _----=> need-resched\n#                              | / _---=> hardirq/softirq\n#                              || / _--=> preempt-depth\n#                              ||| / _-=> migrate-disable\n#                              |||| /     delay\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n#              | |         |   |||||     |         |\n",
        )
    ],
    [("fadvise", -9)],
    [
        (
            "trace",
            b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 1/1   #P:1\n#\n#                                _-----=> irqs-off/BH-disabled\n#                               / _----=> need-resched\n#                              | / _---=> hardirq/softirq\n#                              || / _--=> preempt-depth\n#                              ||| / _-=> migrate-disable\n#                              |||| /     delay\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n#              | |         |   |||||     |         |\ntask [000] ..... time: b: (ksys_fadvise64_64+0x0/0xa0)\n",
        )
    ],
    [("events/g/b/enable", b"1*\n")],
    [("write", 17)],
    [("events/g/b/enable", b"1\n")],
]


@pytest.mark.parametrize("spec", ["sim:6.1", pytest.param("vm:6.1", marks=pytest.mark.vm)])
def test_triggers_event_enables_itself(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
