"""Room that was measured for strings and isn't written shows what the scratch page held."""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Outcome, Read, Write

_UNMAPPED = 0xFFFF_8000_0000_1000  # an address of the kernel's that nothing is at
_NO_ADDRESS = 0x8000_0000_0000_0000  # not canonical
_BLOCK = bytes(range(1, 128)) + b"\0"
# the fetch arguments of the probe between, and what of its record the next one shows, from the fields' end on
_ODD = {
    "a=%dx:symstr b=$comm": b"0x1workload\0" + bytes(range(0x15, 0x31)),
    f"a=%dx:symstr b=$comm c=+0(\\{_UNMAPPED}):string": b"0x1workload\0\0" + bytes(range(0x1A, 0x31)),
    f"a=%dx:symstr b=$comm c=+0(\\{_NO_ADDRESS}):string": b"0x1workload\0" + bytes(range(0x19, 0x31)),
    "a=%dx:symstr b=+119(%si):ustring": b"0x1xyz{|}~\x7f\0" + bytes(range(0x15, 0x31)),
    "a=%dx:symstr b=%cx:symstr c=%dx:symstr d=+123(%si):ustring": b"0x10x50x1|}~\x7f\0\0\0\0"
    + bytes(range(0x22, 0x31)),
}


def _operations(odd: str) -> list[Operation]:
    arguments = {"show": "f=+0(%di):x8[48]", "odd": odd, "all": "f=+0(%si):x8[64]"}
    lines = [f"p:g/{name} ksys_fadvise64_64 {words}" for name, words in arguments.items()]
    return [
        Write("kprobe_events", "\n".join(lines).encode()),
        *[Write(f"events/g/{name}/filter", b'comm == "workload"') for name in arguments],
        Write("events/g/enable", b"1"),  # who is enabled last is hit first
        Call("fadvise", (-2, 0x1000_0000, 1, 5, _BLOCK)),
        Read("trace"),
    ]


def _shown(outcomes: list[Outcome]) -> bytes:
    text = outcomes[-1][0][1]
    assert isinstance(text, bytes)
    (line,) = (line for line in text.decode().splitlines() if " show: " in line)
    return bytes(int(word, 16) for word in line.partition("f={")[2].rstrip("}").split(","))


@pytest.mark.parametrize(
    "spec",
    [f"sim:{series}" for series in ("6.1", "6.12")]
    + [pytest.param(f"vm:{series}", marks=pytest.mark.vm) for series in ("6.1", "6.12")],
)
@pytest.mark.parametrize("odd", _ODD)
def test_unwritten(spec: str, odd: str) -> None:
    fields = 4 * odd.count("=")
    assert _shown(answers(spec, _operations(odd)))[fields:] == _ODD[odd]
