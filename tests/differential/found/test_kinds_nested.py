"""A campaign, seed 8001, on 6.12.117: where what an event probe makes of a record stands."""

from __future__ import annotations

import re

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.generators.traces import MEMORY
from kprobe_lab.operations.operation import Call, Operation, Read, Write

FILTER = Write(path="events/g/f/filter", data=b'comm == "workload"', flags=1)
OPERATIONS: list[Operation] = [
    Write(path="dynamic_events", data=b"f:g/f ksys_fadvise64_64 a0=$arg2", flags=1),
    Write(path="dynamic_events", data=b"e:g/b g/f", flags=1),
    Write(path="set_event", data=b"g:*", flags=1),
    Call(name="fadvise", arguments=(-2, MEMORY, 0, 1, b"text\0")),
    Read(path="trace"),
]


def order(spec: str, operations: list[Operation]) -> list[bytes]:
    """Return the names of the events in the trace."""
    ((_, text),) = answers(spec, operations)[-1]
    return re.findall(rb"time: (\w+):", text)


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_what_is_made_of_a_record_comes_after_it(spec: str) -> None:
    assert order(spec, OPERATIONS) == [b"f", b"b"]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_and_before_it_where_a_filter_may_yet_discard_it(spec: str) -> None:
    assert order(spec, [*OPERATIONS[:2], FILTER, *OPERATIONS[2:]]) == [b"b", b"f"]
