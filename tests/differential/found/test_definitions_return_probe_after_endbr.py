"""A return probe after ENDBR passes as one on an entry, also where ftrace doesn't know the function.

Found by a campaign on 7.2.13+deb14-cloud-amd64.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(path="kprobe_events", data=b"r:x __pfx__RNvMNtCsbZfwWpAStWS_4core3stre12substr_range+20", flags=1),
    Write(path="kprobe_events", data=b"r:x _RNvMNtCsbZfwWpAStWS_4core3stre12substr_range+4", flags=1),
    Write(path="kprobe_events", data=b"r:x _RNvMNtCsbZfwWpAStWS_4core3stre12substr_range", flags=1),
    Write(path="kprobe_events", data=b"r:x _RNvMNtCsbZfwWpAStWS_4core3stre12substr_range+5", flags=1),
    Write(path="kprobe_events", data=b"r:x memcpy+4", flags=1),
    Write(path="kprobe_events", data=b"r:x do_one_initcall.cold+4", flags=1),
    Write(path="kprobe_events", data=b"r:x start_secondary+4", flags=1),
    Write(path="kprobe_events", data=b"r:x do_sys_openat2+4", flags=1),
    Read(path="error_log"),
    Read(path="kprobe_events"),
]
KERNEL = [
    [("write", "EINVAL")],
    [("write", "EINVAL")],
    [("write", "EINVAL")],
    [("write", "EINVAL")],
    [("write", "EINVAL")],
    [("write", "EINVAL")],
    [("write", "EINVAL")],
    [("write", "EINVAL")],
    [
        (
            "error_log",
            b"[time] trace_kprobe: error: Failed to register probe event\n  Command: r:x __pfx__RNvMNtCsbZfwWpAStWS_4core3stre12substr_range+20\n               ^\n[time] trace_kprobe: error: Failed to register probe event\n  Command: r:x _RNvMNtCsbZfwWpAStWS_4core3stre12substr_range+4\n               ^\n[time] trace_kprobe: error: Failed to register probe event\n  Command: r:x _RNvMNtCsbZfwWpAStWS_4core3stre12substr_range\n               ^\n[time] trace_kprobe: error: Retprobe address must be an function entry\n  Command: r:x _RNvMNtCsbZfwWpAStWS_4core3stre12substr_range+5\n               ^\n[time] trace_kprobe: error: Failed to register probe event\n  Command: r:x memcpy+4\n               ^\n[time] trace_kprobe: error: Retprobe address must be an function entry\n  Command: r:x do_one_initcall.cold+4\n               ^\n[time] trace_kprobe: error: Retprobe address must be an function entry\n  Command: r:x start_secondary+4\n               ^\n[time] trace_kprobe: error: Retprobe address must be an function entry\n  Command: r:x do_sys_openat2+4\n               ^\n",
        )
    ],
    [("kprobe_events", b"")],
]


@pytest.mark.parametrize("spec", ["sim:7.2", pytest.param("vm:7.2", marks=pytest.mark.vm)])
def test_definitions_return_probe_after_endbr(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
