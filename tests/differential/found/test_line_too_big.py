"""What of a line doesn't fit the kernel's buffer is left out, piece by piece, and a note says so if it fits."""

from __future__ import annotations

import os

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Handle, Operation, Read, Write

_TEXT = b"y" * 1340


def _operations(*last: Operation) -> list[Operation]:
    return [
        Write("kprobe_events", b"p:g/e ksys_fadvise64_64 a=+0(%si):string b=+0(%si):string c=+0(%si):string d=%dx"),
        Write("events/g/e/enable", b"1"),
        Call("fadvise", (-2, 0x1000_0000, 1, 5, _TEXT + b"\0")),
        Write("trace_marker", b"hello"),
        *last,
    ]


_SPECS = [
    spec
    for series in ("5.10", "6.1", "6.12")
    for spec in (f"sim:{series}", pytest.param(f"vm:{series}", marks=pytest.mark.vm))
]
_CUT = b' a="%b" b="%b" c=[LINE TOO BIG]' % (_TEXT, _TEXT)
_WHOLE = b' a="%b" b="%b" c="%b" d=0x1' % (_TEXT, _TEXT, _TEXT)


@pytest.mark.parametrize("spec", _SPECS)
def test_trace(spec: str) -> None:
    ((_, text),) = answers(spec, _operations(Read("trace")))[-1]
    assert isinstance(text, bytes)
    first, second = (line for line in text.splitlines() if not line.startswith(b"#"))
    assert first.partition(b")")[2] == (_WHOLE if spec.endswith("6.12") else _CUT)
    assert second.endswith(b" tracing_mark_write: hello")


@pytest.mark.parametrize("spec", _SPECS)
def test_trace_pipe(spec: str) -> None:
    """Nothing comes after a line that was cut in the same read."""
    pipe = Handle("trace_pipe", os.O_RDONLY | os.O_NONBLOCK, (("read", 9000), ("read", 9000)))
    (_, first), (_, second) = answers(spec, _operations(pipe))[-1]
    assert isinstance(first, bytes)
    lines = first.splitlines()
    if spec.endswith("6.12"):
        assert lines[0].partition(b")")[2] == _WHOLE
        assert lines[1].endswith(b" tracing_mark_write: hello")
        assert second == "EAGAIN"
    else:
        assert [line.partition(b")")[2] for line in lines] == [_CUT]
        assert isinstance(second, bytes)
        assert second.endswith(b" tracing_mark_write: hello\n")


@pytest.mark.parametrize("spec", [spec for spec in _SPECS if "6.12" not in str(spec)])
def test_array(spec: str) -> None:
    """An array is cut after an element or its comma."""
    names = " ".join(f"f{index}=+0(%si):x8[64]" for index in range(13))
    operations: list[Operation] = [
        Write("kprobe_events", f"p:g/e ksys_fadvise64_64 {names}".encode()),
        Write("events/g/e/enable", b"1"),
        Call("fadvise", (-2, 0x1000_0000, 1, 5, b"\x11" * 64)),
        Read("trace"),
    ]
    ((_, text),) = answers(spec, operations)[-1]
    assert isinstance(text, bytes)
    (line,) = (line for line in text.splitlines() if not line.startswith(b"#"))
    assert line.count(b"={") == 13
    assert line.partition(b" f12=")[2] in [
        b"{" + b"0x11," * count + rest for count in range(20, 60) for rest in (b"", b"0x11")
    ]
