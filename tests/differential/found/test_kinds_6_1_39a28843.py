"""The campaign, seed 21, on 6.1.0-54-cloud-amd64: write."""

from __future__ import annotations

import pytest

from kprobe_vm.found import answers
from kprobe_vm.operation import Operation, Write

OPERATIONS: list[Operation] = [
    Write(path="dynamic_events", data=b"r:g/ bin/busybox:0xffffffffffffffff", flags=1),
    Write(path="events/g/enable", data=b"1", flags=1),
]
KERNEL = [
    [("write", 35)],
    [("write", 1)],
]


@pytest.mark.parametrize("spec", ["sim:6.1", pytest.param("vm:6.1", marks=pytest.mark.vm)])
def test_kinds_6_1_39a28843(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
