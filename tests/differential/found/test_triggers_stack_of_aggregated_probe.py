"""A probe that once shared its address with another is called through aggr_pre_handler for good.

Found by a campaign on 6.1.0-54-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:g/a ksys_fadvise64_64\np:g/b ksys_fadvise64_64", flags=1),
    Write(path="events/g/a/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/a/trigger", data=b"stacktrace", flags=1),
    Write(path="kprobe_events", data=b"-:g/b", flags=1),
    Call(name="fadvise", arguments=(-2, 268435456, 5, 0, b"\x00")),
    Read(path="trace"),
]
KERNEL = [
    [("write", 47)],
    [("write", 18)],
    [("write", 10)],
    [("write", 5)],
    [("fadvise", -9)],
    [
        (
            "trace",
            b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 1/1   #P:1\n#\n#                                _-----=> irqs-off/BH-disabled\n#                               / _----=> need-resched\n#                              | / _---=> hardirq/softirq\n#                              || / _--=> preempt-depth\n#                              ||| / _-=> migrate-disable\n#                              |||| /     delay\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n#              | |         |   |||||     |         |\ntask [000] ..... time: <stack trace>\n => kprobe_trace_func\n => kprobe_dispatcher\n => aggr_pre_handler\n => kprobe_ftrace_handler\n => made code\n => ksys_fadvise64_64\n => __x64_sys_fadvise64\n => do_syscall_64\n => entry_SYSCALL_64_after_hwframe\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:6.1", pytest.param("vm:6.1", marks=pytest.mark.vm)])
def test_triggers_stack_of_aggregated_probe(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
