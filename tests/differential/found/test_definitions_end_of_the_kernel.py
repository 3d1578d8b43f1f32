"""Before 5.16 `_end` still belongs to the kernel: a return probe on it is refused with EINVAL, not with ENOENT.

Found by a campaign on 5.10.0-46-cloud-amd64, seed 9090.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"r _end", flags=1),
]
KERNEL = [
    [("write", "EINVAL")],
]


@pytest.mark.parametrize("spec", ["sim:5.10", pytest.param("vm:5.10", marks=pytest.mark.vm)])
def test_definitions_end_of_the_kernel(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
