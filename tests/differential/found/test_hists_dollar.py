"""How a histogram shows a variable of another event by its full name."""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Read, Write

_HEAD = "hist:keys=common_pid:vals=hitcount"
_TAIL = ":sort=hitcount:size=2048 [active]\n"
_SHOWN = {
    "6.1": ("$g.b.x", "g.b.x"),
    "6.12": ("g.b.$x", "g.b.$x"),
    "7.2": ("g.b.$x", "g.b.$x"),
    "7.3": ("g.b.$x", "g.b.$x"),
}


@pytest.mark.parametrize("series", _SHOWN)
@pytest.mark.parametrize("backend", ["sim", pytest.param("vm", marks=pytest.mark.vm)])
def test_qualified_variable(backend: str, series: str) -> None:
    operations: list[Operation] = [
        Write("kprobe_events", b"p:g/a ksys_fadvise64_64 a0=%si\np:g/b ksys_fadvise64_64 a0=%si"),
        Write("events/g/b/trigger", b"hist:key=common_pid:x=a0"),
        Write("events/g/a/trigger", b"hist:key=common_pid:val=g.b.$x,g.b.$x-a0:z=g.b.$x"),
        Call("fadvise", (-2, 0x1000_0010, 1, 5, b"")),
        Read("events/g/a/trigger"),
        Read("events/g/a/hist"),
    ]
    in_trigger, in_hist = _SHOWN[series]
    *_, ((_, trigger),), ((_, hist),) = answers(f"{backend}:{series}", operations)
    assert isinstance(trigger, bytes)
    assert isinstance(hist, bytes)
    assert trigger.decode() == f"{_HEAD},{in_trigger},{in_trigger}-a0:z={in_trigger}{_TAIL}"
    assert f"  {in_hist}:  268435472" in hist.decode()
