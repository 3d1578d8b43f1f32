"""`.sym-offset` of a value is refused after the kernel has changed its text, so the error points at the line's start.

Found by a campaign on 7.2.13+deb14-cloud-amd64, seed 21.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b'p:g/a ksys_fadvise64_64 d=\\"imm"\nr:g/b ksys_fadvise64_64 ', flags=1),
    Write(
        path="events/g/b/trigger",
        data=b"hist:keys=__probe_ret_ip:val=__probe_ret_ip.sym-offset,__probe_ret_ip,__probe_ret_ip:size=2048",
        flags=1,
    ),
    Read(path="error_log"),
]
KERNEL = [
    [("write", 57)],
    [("write", "EINVAL")],
    [
        (
            "error_log",
            b"[time] hist:g:b: error: Invalid field modifier\n  Command: hist:keys=__probe_ret_ip:val=__probe_ret_ip.sym-offset,__probe_ret_ip,__probe_ret_ip:size=2048\n           ^\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:7.2", pytest.param("vm:7.2", marks=pytest.mark.vm)])
def test_hists_error_at_changed_modifier(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
