"""An event named like a file of its group is listed beside that file, and is what the name opens.

Found by a campaign on 6.12.117+deb13-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Sweep, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"r:filter ksys_readahead", flags=1),
    Write(path="kprobe_events", data=b"p:g/enable ksys_readahead", flags=1),
    Sweep(instance=""),
]
KERNEL = [
    [("write", 23)],
    [("write", 25)],
    [
        ("kprobe_events", b"r10:kprobes/filter ksys_readahead\np:g/enable ksys_readahead\n"),
        ("error_log", b""),
        ("set_event", b""),
        (
            "kprobe_profile",
            b"  filter                                                     0               0\n  enable                                                     0               0\n",
        ),
        ("dynamic_events", b"r10:kprobes/filter ksys_readahead\np:g/enable ksys_readahead\n"),
        (
            "events/kprobes/filter/format",
            b'name: filter\nID: +0\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n\nprint fmt: "(%lx <- %lx)", REC->__probe_func, REC->__probe_ret_ip\n',
        ),
        ("events/kprobes/filter/filter", b"none\n"),
        ("events/kprobes/filter/enable", b"0\n"),
        ("events/kprobes/filter/id", b"id+0\n"),
        (
            "events/g/enable/format",
            b'name: enable\nID: +1\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: "(%lx)", REC->__probe_ip\n',
        ),
        ("events/g/enable/filter", b"none\n"),
        ("events/g/enable/enable", b"0\n"),
        ("events/g/enable/id", b"id+1\n"),
        ("events/kprobes/", ["enable", "filter", "filter"]),
        ("events/kprobes/enable", b"0\n"),
        ("events/kprobes/filter", "EISDIR"),
        ("events/g/", ["enable", "enable", "filter"]),
        ("events/g/enable", "EISDIR"),
        (
            "events/g/filter",
            b"### global filter ###\n# Use this to set filters for multiple events.\n# Only events with the given fields will be affected.\n# If no events are modified, an error message will be displayed here\n",
        ),
    ],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_definitions_event_named_like_a_file(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
