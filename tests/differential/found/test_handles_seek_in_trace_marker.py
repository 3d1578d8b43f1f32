"""trace_marker and trace_marker_raw keep a file position, which a seek sets; their end is at 0.

Found by a campaign on 5.10.0-46-cloud-amd64.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Handle, Operation

OPERATIONS: list[Operation] = [
    Handle(path="trace_marker", flags=0, steps=(("lseek", 1, 0), ("lseek", 1, 1), ("lseek", 0, 2))),
    Handle(path="trace_marker_raw", flags=1, steps=(("lseek", 7, 0),)),
]
KERNEL = [
    [("lseek 1 0", 1), ("lseek 1 1", 2), ("lseek 0 2", 0)],
    [("lseek 7 0", 7)],
]


@pytest.mark.parametrize("spec", ["sim:5.10", pytest.param("vm:5.10", marks=pytest.mark.vm)])
def test_handles_seek_in_trace_marker(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
