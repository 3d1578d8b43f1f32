"""A probe at the raw address of a function's entry is listed with the address after ENDBR, where it was registered.

Found by a campaign on 6.12.117+deb13-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Sweep, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"r:g/a 0xffffffff815b6510", flags=1),
    Write(path="kprobe_events", data=b"p:g/b 0xffffffff815b6510", flags=1),
    Sweep(instance=""),
]
KERNEL = [
    [("write", 24)],
    [("write", 24)],
    [
        ("kprobe_events", b"r10:g/a 0xhashed0000000000\np:g/b 0xhashed0000000000\n"),
        ("error_log", b""),
        ("set_event", b""),
        (
            "kprobe_profile",
            b"  a                                                          0               0\n  b                                                          0               0\n",
        ),
        ("dynamic_events", b"r10:g/a 0xhashed0000000000\np:g/b 0xhashed0000000000\n"),
        (
            "events/g/a/format",
            b'name: a\nID: +0\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;\n\nprint fmt: "(%lx <- %lx)", REC->__probe_func, REC->__probe_ret_ip\n',
        ),
        ("events/g/a/filter", b"none\n"),
        ("events/g/a/enable", b"0\n"),
        ("events/g/a/id", b"id+0\n"),
        (
            "events/g/b/format",
            b'name: b\nID: +1\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: "(%lx)", REC->__probe_ip\n',
        ),
        ("events/g/b/filter", b"none\n"),
        ("events/g/b/enable", b"0\n"),
        ("events/g/b/id", b"id+1\n"),
        ("events/g/", ["a", "b", "enable", "filter"]),
        ("events/g/enable", b"0\n"),
        (
            "events/g/filter",
            b"### global filter ###\n# Use this to set filters for multiple events.\n# Only events with the given fields will be affected.\n# If no events are modified, an error message will be displayed here\n",
        ),
    ],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_definitions_address_moved_past_endbr(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
