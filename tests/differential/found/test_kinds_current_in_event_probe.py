"""7.3 refuses `$current` in an event probe as an invalid $-variable.

Found by a campaign on 7.3-cloud-amd64, seed 4001.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="dynamic_events", data=b"f:g/f ksys_fadvise64_64", flags=1),
    Write(path="dynamic_events", data=b"e:my/a g.f $current $prev_comm:string $advice:u8 # x", flags=1),
    Write(path="dynamic_events", data=b"e:my/a g.f $current->pid", flags=1),
    Read(path="error_log"),
]
KERNEL = [
    [("write", 23)],
    [("write", "EINVAL")],
    [("write", "EINVAL")],
    [
        (
            "error_log",
            b"[time] event_probe: error: Invalid $-variable specified\n  Command: e:my/a g.f $current $prev_comm:string $advice:u8\n                      ^\n[time] event_probe: error: Invalid $-variable specified\n  Command: e:my/a g.f $current->pid\n                      ^\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:7.3", pytest.param("vm:7.3", marks=pytest.mark.vm)])
def test_kinds_current_in_event_probe(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
