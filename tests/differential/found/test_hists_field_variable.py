"""A field that an action names becomes a variable without a sign; a system call's number is an int."""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Read, Write

_BACKENDS = pytest.mark.parametrize("backend", ["sim", pytest.param("vm", marks=pytest.mark.vm)])
_SERIES = pytest.mark.parametrize("series", ["6.1", "6.12", "7.3"])


@_BACKENDS
@_SERIES
@pytest.mark.parametrize(
    ("field", "trigger", "answer"),
    [
        (b"u32", b"hist:key=a0:onmatch(g.b).s1(a0)", 31),
        (b"u32", b"hist:key=a0:x=a0:onmatch(g.b).s1($x)", "EINVAL"),
        (b"u32", b"hist:key=a0:onmatch(g.b).s1(a0):clear", "ENOENT"),
        (b"s32", b"hist:key=a0:onmatch(g.b).s1(a0)", 31),
        (b"int", b"hist:key=a0:x=a0:onmatch(g.b).s1($x)", 36),
    ],
)
def test_sign(backend: str, series: str, field: bytes, trigger: bytes, answer: int | str) -> None:
    operations: list[Operation] = [
        Write("kprobe_events", b"r:g/b ksys_fadvise64_64 a0=$retval:s32"),
        Write("synthetic_events", b"s1 %b v" % field),
        Write("events/g/b/trigger", trigger),
    ]
    assert answers(f"{backend}:{series}", operations)[-1] == [("write", answer)]


@_BACKENDS
@_SERIES
def test_number_of_a_system_call(backend: str, series: str) -> None:
    operations: list[Operation] = [
        Write("kprobe_events", b"p:g/a ksys_fadvise64_64 a2=%dx:s64"),
        Write("events/g/a/trigger", b"hist:keys=a2.syscall"),
        Call("fadvise", (-2, 0x1000_0000, 1 << 40, 0, b"")),
        Read("events/g/a/hist"),
    ]
    ((_, text),) = answers(f"{backend}:{series}", operations)[-1]
    assert isinstance(text, bytes)
    assert b"{ a2: sys_read                      [1099511627776] } hitcount:          1\n" in text
