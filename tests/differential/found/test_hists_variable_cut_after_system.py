"""Parsing `system.event.field` cuts its variable's text after the system, so a `$x` inside `x=` means the system alone.

Found by a campaign on 6.12.117+deb13-cloud-amd64, seed 31.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:g/a ksys_fadvise64_64 a2=%dx", flags=1),
    Write(path="events/g/a/trigger", data=b"hist:key=a1.log2:v=a2/7:x=g.a.$x:z=a2/a1:sort=a1:name=n ", flags=1),
    Read(path="error_log"),
]
KERNEL = [
    [("write", 30)],
    [("write", "EINVAL")],
    [
        (
            "error_log",
            b"[time] hist:g:a: error: Couldn't find field\n  Command: hist:key=a1.log2:v=a2/7:x=g.a.$x:z=a2/a1:sort=a1:name=n\n                         ^\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_hists_variable_cut_after_system(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
