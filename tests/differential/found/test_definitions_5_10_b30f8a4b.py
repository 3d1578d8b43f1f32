"""The campaign, seed 9090, on 5.10.0-46-cloud-amd64: write."""

from __future__ import annotations

import pytest

from kprobe_vm.found import answers
from kprobe_vm.operation import Operation, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"r _end", flags=1),
]
KERNEL = [
    [("write", "EINVAL")],
]


@pytest.mark.parametrize("spec", ["sim:5.10", pytest.param("vm:5.10", marks=pytest.mark.vm)])
def test_definitions_5_10_b30f8a4b(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
