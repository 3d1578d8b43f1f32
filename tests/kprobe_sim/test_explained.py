"""The gates as programs that compare kernels find them, and kernels with other answers."""

from __future__ import annotations

import errno

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.questions.explained import open_altered, rows, values


def test_rows() -> None:
    found = {row.name: row for row in rows()}
    row = found["delete_compares"]
    assert row.source == "conformance suite on 5.10 and 6.1: a delete's arguments; answers of 6.12.117 to 7.2.13"
    assert row.answers == ((63, "ok ENOENT"), (None, "ENOENT ok"))
    assert row.steps[0].startswith("write kprobe_events p:zz/q vfs_read ")
    assert found["raw_mark_sizes"].answers[0][0] == [4060, 4060] or isinstance(
        found["raw_mark_sizes"].answers[0][0], list
    )
    assert found["full_match_bounded"].steps == ()
    assert set(values("6.1")) == set(found)


def test_values() -> None:
    assert values("6.1")["unknown_symbol_errno"] == errno.ENOENT
    assert values("6.12")["unknown_symbol_errno"] == errno.EINVAL
    assert values("6.1.0-54-cloud-amd64") == values("6.1")
    with pytest.raises(ValueError, match=r"3\.5"):
        values("3.5")


def test_a_kernel_with_another_answer() -> None:
    altered = open_altered("6.1", {"unknown_symbol_errno": errno.EINVAL, "cpulist": True})
    with pytest.raises(OSError, match="Invalid argument"):
        altered.write("kprobe_events", b"p:x no_such_symbol")
    altered.write("events/sched/sched_switch/filter", b"CPU & CPUS{0}")
    plain = SimulatedKernel("6.1").tracefs
    with pytest.raises(OSError, match="No such file") as refused:
        plain.write("kprobe_events", b"p:x no_such_symbol")
    assert refused.value.errno == errno.ENOENT
    with pytest.raises(OSError, match="Invalid argument"):
        plain.write("events/sched/sched_switch/filter", b"CPU & CPUS{0}")
    assert altered.kernel.release == "6.1.0-54-cloud-amd64"
