"""6.12 registers a tracepoint's stub once: while a probe on the tracepoint exists, a second one is refused with EEXIST.

Found by a campaign on 6.12.117+deb13-cloud-amd64, seed 3.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Write

OPERATIONS: list[Operation] = [
    Write(path="dynamic_events", data=b"t:g/b module_get", flags=1),
    Write(path="dynamic_events", data=b"tx:g/a module_get $comm\n", flags=1),
]
KERNEL = [
    [("write", 16)],
    [("write", "EEXIST")],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_kinds_second_tracepoint_probe(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
