"""A trigger file lists the newest trigger first, histograms last, and O_TRUNC removes histograms only.

Found by a campaign on 6.1.0-54-cloud-amd64.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"r:g/b ksys_fadvise64_64 a0=$retval:s32", flags=1),
    Write(path="events/g/b/trigger", data=b"traceon:1", flags=1),
    Write(path="events/g/b/trigger", data=b"hist:keys=a0", flags=1),
    Write(path="events/g/b/trigger", data=b"stacktrace", flags=1),
    Read(path="events/g/b/trigger"),
    Write(path="events/g/b/trigger", data=b"", flags=513),
    Read(path="events/g/b/trigger"),
]
KERNEL = [
    [("write", 38)],
    [("write", 9)],
    [("write", 12)],
    [("write", 10)],
    [
        (
            "events/g/b/trigger",
            b"stacktrace:unlimited\ntraceon:count=1\nhist:keys=a0:vals=hitcount:sort=hitcount:size=2048 [active]\n",
        )
    ],
    [("write", 0)],
    [("events/g/b/trigger", b"stacktrace:unlimited\ntraceon:count=1\n")],
]


@pytest.mark.parametrize("spec", ["sim:6.1", pytest.param("vm:6.1", marks=pytest.mark.vm)])
def test_triggers_newest_first(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
