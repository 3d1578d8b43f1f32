"""`onchange()` of a string compares the address where it lies, so it takes a snapshot at the first hit.

Found by a campaign on 6.12.117+deb13-cloud-amd64, seed 2.
"""
# ruff: noqa: E501 - recorded text has lines of any length

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Call, Operation, Read, Write

OPERATIONS: list[Operation] = [
    Write(
        path="kprobe_events",
        data=b'p:g/a ksys_fadvise64_64 a0=%si a1=%cx:u8 a2=%dx:s64 s=+0(%si):string d=\\"imm"\nr:g/b ksys_fadvise64_64 a0=$retval:s32\np:g/c ksys_fadvise64_64 a0=%si a1=%cx:u8 arr=+0(%si):u8[4]',
        flags=1,
    ),
    Write(
        path="events/g/a/trigger",
        data=b"hist:key=a1,a1.hex,a2.log2:x=s,y=a0:onchange($x).snapshot() if a1 == 5 ",
        flags=1,
    ),
    Call(name="fadvise", arguments=(-2, 268435456, 77, 5, b"another text that is longer\x00")),
    Read(path="events/g/a/hist"),
]
KERNEL = [
    [("write", 175)],
    [("write", 71)],
    [("fadvise", -9)],
    [
        (
            "events/g/a/hist",
            b"# event histogram\n#\n# trigger info: hist:keys=a1,a1.hex,a2.log2:vals=hitcount:x=s,y=a0:sort=hitcount:size=2048:onchange($x).snapshot() if a1 == 5 [active]\n#\n\n{ a1:          5, a1: 5, a2: ~ 2^7  } hitcount:          1\n\nSnapshot taken (see tracing/snapshot).  Details:\n\ttriggering value { onchange($x) }: address\ttriggered by event with key: { a1:          5, a1: 5, a2: ~ 2^7  }\n\nTotals:\n    Hits: 1\n    Entries: 1\n    Dropped: 0\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_hists_onchange_of_a_string(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
