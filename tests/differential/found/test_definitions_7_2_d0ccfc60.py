"""The campaign, seed 3001, on 7.2.13+deb14-cloud-amd64: write."""

from __future__ import annotations

import pytest

from kprobe_vm.found import answers
from kprobe_vm.operation import Operation, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:my __x64_sys_fadvise64+154", flags=1),
]
KERNEL = [
    [("write", 28)],
]


@pytest.mark.parametrize("spec", ["sim:7.2", pytest.param("vm:7.2", marks=pytest.mark.vm)])
def test_definitions_7_2_d0ccfc60(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
