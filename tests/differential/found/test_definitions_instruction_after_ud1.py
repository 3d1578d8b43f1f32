"""The instruction after a warning's UD1, which has prefixes since 6.19, can be probed.

Found by a campaign on 7.2.13+deb14-cloud-amd64, seed 3001.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:my __x64_sys_fadvise64+154", flags=1),
]
KERNEL = [
    [("write", 28)],
]


@pytest.mark.parametrize("spec", ["sim:7.2", pytest.param("vm:7.2", marks=pytest.mark.vm)])
def test_definitions_instruction_after_ud1(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
