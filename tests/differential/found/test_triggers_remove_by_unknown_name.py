"""A removal that names a histogram which doesn't exist is taken as one without a name.

Found by a campaign on 6.1.0-54-cloud-amd64, seed 9001.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"p:g/a ksys_fadvise64_64 a0=%si", flags=1),
    Write(path="events/g/a/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/b/filter", data=b'comm == "workload"', flags=1),
    Write(path="events/g/a/trigger", data=b"hist:keys=a0 ", flags=1),
    Write(path="events/g/a/trigger", data=b"!hist:keys=a0:name=x ", flags=1),
    Read(path="events/g/a/trigger"),
]
KERNEL = [
    [("write", 30)],
    [("write", 18)],
    [("write", "ENOENT")],
    [("write", 13)],
    [("write", 21)],
    [
        (
            "events/g/a/trigger",
            b"# Available triggers:\n# traceon traceoff snapshot stacktrace enable_event disable_event enable_hist disable_hist hist\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:6.1", pytest.param("vm:6.1", marks=pytest.mark.vm)])
def test_triggers_remove_by_unknown_name(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
