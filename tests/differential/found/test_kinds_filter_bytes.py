"""An event probe's filter is taken as bytes: the error's caret counts the bytes of a name that isn't ASCII.

Found by a campaign on 6.12.117+deb13-cloud-amd64, seed 3.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Sweep, Write

OPERATIONS: list[Operation] = [
    Write(
        path="dynamic_events",
        data=b"e:g/a syscalls/sys_exit_fadvise64 $comm y=$offset:symbol if common_pid <= 0 && cpu  &  256 && !com\xc3\xa9mon_flags  < ",
        flags=1,
    ),
    Sweep(instance="", kinds=True),
]
KERNEL = [
    [("write", "EINVAL")],
    [
        ("dynamic_events", b""),
        (
            "error_log",
            b"[time] event filter parse error: error: Field not found\n  Command: common_pid <= 0 && cpu & 256 && !com\xc3\xa9mon_flags <\n                                                 ^\n",
        ),
        ("set_event", b""),
        ("kprobe_profile", b""),
        ("kprobe_events", b""),
        ("uprobe_events", b""),
        ("synthetic_events", b""),
        ("uprobe_profile", b""),
    ],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_kinds_filter_bytes(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
