"""Parsing an expression cuts its variable's text at the operator, so a `$t` inside `t=` means what is left of it.

Found by a campaign on 6.12.117+deb13-cloud-amd64, seed 1.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:g/a ksys_fadvise64_64 a0=%si s=+0(%si):string", flags=1),
    Write(path="events/g/a/trigger", data=b"hist:key=a0.sym:a1=s,t=common_timestamp.usecs-$t:clock=mono", flags=1),
]
KERNEL = [
    [("write", 47)],
    [("write", 59)],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_hists_variable_cut_while_parsed(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
