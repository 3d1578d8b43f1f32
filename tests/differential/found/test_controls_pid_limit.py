"""set_event_pid takes pids up to 32767, the last below pid_max, and refuses greater ones with EINVAL.

Found by a campaign on 5.10.0-46-cloud-amd64.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="set_event_pid", data=b"32768", flags=1),
    Write(path="set_event_pid", data=b"49430", flags=1),
    Write(path="set_event_pid", data=b"32767", flags=1),
    Read(path="set_event_pid"),
]
KERNEL = [
    [("write", "EINVAL")],
    [("write", "EINVAL")],
    [("write", 5)],
    [("set_event_pid", b"32767\n")],
]


@pytest.mark.parametrize("spec", ["sim:5.10", pytest.param("vm:5.10", marks=pytest.mark.vm)])
def test_controls_pid_limit(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
