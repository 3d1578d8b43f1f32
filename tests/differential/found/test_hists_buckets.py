"""Buckets of what is no field of the event: the CPU, the task's name, the time."""

from __future__ import annotations

import re

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Read, Write


@pytest.mark.parametrize("series", ["6.1", "6.12", "7.2", "7.3"])
@pytest.mark.parametrize("backend", ["sim", pytest.param("vm", marks=pytest.mark.vm)])
def test_buckets(backend: str, series: str) -> None:
    operations: list[Operation] = [
        Write("kprobe_events", b"p:g/a ksys_fadvise64_64 a0=%si\np:g/b ksys_fadvise64_64\np:g/c ksys_fadvise64_64"),
        Write("events/g/a/trigger", b"hist:key=common_cpu.bucket=5,a0.buckets=3"),
        Write("events/g/b/trigger", b"hist:key=common_timestamp.buckets=1000"),
        Write("events/g/c/trigger", b"hist:key=common_comm.buckets=5"),
        Call("fadvise", (-2, 0x1000_0010, 1, 5, b"")),
        *(Read(f"events/g/{name}/{file}") for name in "abc" for file in ("trigger", "hist")),
    ]
    texts = [
        text.decode() for ((_, text),) in answers(f"{backend}:{series}", operations)[-6:] if isinstance(text, bytes)
    ]
    cpu, counted, stamp, at, *comm = texts
    twice = "common_cpu" * (series in ("7.2", "7.3"))
    assert cpu == f"hist:keys={twice}common_cpu.buckets=5,a0.buckets=3:vals=hitcount:sort=hitcount:size=2048 [active]\n"
    assert "{ common_cpu: ~ 0-4, a0: ~ 268435470-268435472 } hitcount:          1\n" in counted
    assert stamp.startswith("hist:keys=common_timestamp.buckets=1000:vals=hitcount:")
    found = re.search(r"\{ common_timestamp: ~ (\d+)000-(\d+)999 \}", at)
    assert found is not None
    assert found[1] == found[2]
    if series in ("7.2", "7.3"):
        assert comm[0].startswith("hist:keys=common_comm.buckets=5:vals=hitcount:")
        assert "{ common_comm: ~ 0-4 } hitcount:          1\n" in comm[1]
