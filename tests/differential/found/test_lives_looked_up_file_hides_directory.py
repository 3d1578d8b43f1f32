"""A file below events/ that was looked up hides an event's directory of its name that is made later.

Found by a campaign on 7.2.13+deb14-cloud-amd64.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import List, Operation, Read, Write

OPERATIONS: list[Operation] = [
    Read(path="events/enable"),
    Write(path="kprobe_events", data=b"p:enable/a ksys_readahead", flags=1),
    Read(path="events/enable"),
    Read(path="events/enable/a/enable"),
    Write(path="kprobe_events", data=b"-:enable/a", flags=1),
    Write(path="kprobe_events", data=b"p:g/a ksys_readahead", flags=1),
    Read(path="events/g/enable"),
    Write(path="kprobe_events", data=b"p:g/enable ksys_readahead", flags=1),
    Read(path="events/g/enable"),
    Read(path="events/g/enable/enable"),
    Write(path="kprobe_events", data=b"p:g/filter ksys_readahead", flags=1),
    Read(path="events/g/filter/enable"),
    List(path="events/g"),
    Write(path="kprobe_events", data=b"-:g/a\n-:g/enable\n-:g/filter", flags=1),
    Write(path="kprobe_events", data=b"p:g/enable ksys_readahead", flags=1),
    Read(path="events/g/enable/enable"),
    Write(path="kprobe_events", data=b"-:g/enable\np:g/a ksys_readahead", flags=1),
    Read(path="events/g/enable"),
]
KERNEL = [
    [("events/enable", b"0\n")],
    [("write", 25)],
    [("events/enable", b"0\n")],
    [("events/enable/a/enable", "ENOTDIR")],
    [("write", 10)],
    [("write", 20)],
    [("events/g/enable", b"0\n")],
    [("write", 25)],
    [("events/g/enable", b"0\n")],
    [("events/g/enable/enable", "ENOTDIR")],
    [("write", 25)],
    [("events/g/filter/enable", b"0\n")],
    [("events/g/", ["a", "enable", "enable", "filter", "filter"])],
    [("write", 27)],
    [("write", 25)],
    [("events/g/enable/enable", b"0\n")],
    [("write", 31)],
    [("events/g/enable", b"0\n")],
]


@pytest.mark.parametrize(
    "spec",
    [
        "sim:7.2",
        "sim:6.12",
        "sim:7.3",
        pytest.param("vm:7.2", marks=pytest.mark.vm),
        pytest.param("vm:6.12", marks=pytest.mark.vm),
        pytest.param("vm:7.3", marks=pytest.mark.vm),
    ],
)
def test_lives_looked_up_file_hides_directory(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
