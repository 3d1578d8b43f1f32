"""A uprobe's offset in the upper half of 64 bits counts as negative, so it isn't refused as one after the file's end.

Found by a campaign on 6.1.0-54-cloud-amd64, seed 21.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Write

OPERATIONS: list[Operation] = [
    Write(path="dynamic_events", data=b"r:g/ bin/busybox:0xffffffffffffffff", flags=1),
    Write(path="events/g/enable", data=b"1", flags=1),
]
KERNEL = [
    [("write", 35)],
    [("write", 1)],
]


@pytest.mark.parametrize("spec", ["sim:6.1", pytest.param("vm:6.1", marks=pytest.mark.vm)])
def test_kinds_uprobe_at_negative_offset(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
