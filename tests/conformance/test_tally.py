"""What a trace says at its end of events and losses is what its text says, whoever counts: the kernel or the tracer."""

from __future__ import annotations

import re
from typing import Any

import pytest

A, B = "p:a do_sys_openat2", "p:b do_sys_openat2"


@pytest.mark.parametrize(
    ("definitions", "terms"), [([A], {}), ([A, B], {}), ([A], {"stacktrace": True}), ([A], {"max_events": 20})]
)
def test_as_many_are_told_as_are_printed(
    tracer: Any, workload: Any, definitions: list[str], terms: dict[str, Any]
) -> None:
    with tracer.trace(*definitions, filter='comm == "workload"', buffer_size=8, **terms) as trace:
        workload.open("/dev/null", repeat=1000)
        trace.stop()
        text = b"".join(trace.chunks())
    printed = len(re.findall(rb"[0-9]: [ab]: \(", text))
    lost = sum(int(number) for number in re.findall(rb"\[LOST ([0-9]+) EVENTS\]", text))
    assert (trace.tally.total, trace.tally.lost, trace.tally.uncertain) == (printed, lost, False)
    if "stacktrace" not in terms and "max_events" not in terms:  # a stack is lost like an event
        assert printed + lost == 1000 * len(definitions)
    assert terms.get("max_events", printed) == printed
