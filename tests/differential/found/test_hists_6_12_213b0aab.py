"""The campaign, seed 1, on 6.12.117+deb13-cloud-amd64: write."""

from __future__ import annotations

import pytest

from kprobe_vm.found import answers
from kprobe_vm.operation import Operation, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:g/a ksys_fadvise64_64 a0=%si s=+0(%si):string", flags=1),
    Write(path="events/g/a/trigger", data=b"hist:key=a0.sym:a1=s,t=common_timestamp.usecs-$t:clock=mono", flags=1),
]
KERNEL = [
    [("write", 47)],
    [("write", 59)],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_hists_6_12_213b0aab(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
