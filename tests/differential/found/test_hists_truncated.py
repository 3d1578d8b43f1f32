"""A campaign, seed 5001, on 7.3-cloud-amd64: a trigger file opened with O_TRUNC while a histogram is referred to."""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Read, Write

TRIGGER = "events/g/a/trigger"
OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:g/a ksys_fadvise64_64 a0=%si a1=%cx:u8", flags=1),
    Write(path=TRIGGER, data=b"hist:keys=a1:x=a0", flags=1),
    Write(path=TRIGGER, data=b"disable_hist:g:a", flags=1),
    Write(path=TRIGGER, data=b"hist:keys=common_pid:vals=$x", flags=1),
    Write(path=TRIGGER, data=b"", flags=0o1001),
    Read(path=TRIGGER),
]
LEFT = (
    b"hist:keys=a1:vals=hitcount:x=a0:sort=hitcount:size=2048 [active]\n"
    b"hist:keys=common_pid:vals=hitcount,$x:sort=hitcount:size=2048 [active]\n"
)


@pytest.mark.parametrize(
    "spec", ["sim:6.1", "sim:7.3", *(pytest.param(f"vm:{kernel}", marks=pytest.mark.vm) for kernel in ("6.1", "7.3"))]
)
def test_only_switches_of_histograms_go(spec: str) -> None:
    assert answers(spec, OPERATIONS)[-1] == [(TRIGGER, LEFT)]
