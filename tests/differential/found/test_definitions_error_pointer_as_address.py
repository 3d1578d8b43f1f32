"""5.10 takes an address of the last 4095 bytes for an error pointer, and fails with the errno that it stands for.

Found by a campaign on 5.10.0-46-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"r 0xffffffffffffffff", flags=1),
    Write(path="kprobe_events", data=b"p 0xfffffffffffffff0", flags=1),
    Read(path="error_log"),
]
KERNEL = [
    [("write", "EPERM")],
    [("write", "EBUSY")],
    [
        (
            "error_log",
            b"[time] trace_kprobe: error: Failed to register probe event\n  Command: r 0xffffffffffffffff\n             ^\n[time] trace_kprobe: error: Failed to register probe event\n  Command: p 0xfffffffffffffff0\n             ^\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:5.10", pytest.param("vm:5.10", marks=pytest.mark.vm)])
def test_definitions_error_pointer_as_address(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
