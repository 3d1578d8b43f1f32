"""A histogram's variable without a name is shown with its equals sign.

Found by a campaign on 6.12.117+deb13-cloud-amd64, seed 1.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:g/a ksys_fadvise64_64 a0=%si a1=%cx:u8 a2=%dx:s64 ", flags=1),
    Write(path="events/g/a/trigger", data=b"hist:key=a1,a0:=a1+1-a2:size=256", flags=1),
    Read(path="events/g/a/trigger"),
]
KERNEL = [
    [("write", 52)],
    [("write", 32)],
    [("events/g/a/trigger", b"hist:keys=a1,a0:vals=hitcount:=a1+1-a2:sort=hitcount:size=256 [active]\n")],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_hists_variable_without_a_name(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
