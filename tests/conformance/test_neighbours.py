"""A trace at the top level ends though somebody else records there on and on, and has all that was recorded before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kprobe import Event, Tracer

OPENS = 50


@pytest.fixture
def neighbour(tracefs: Any) -> Iterator[None]:
    """Somebody who makes a mark every few milliseconds."""
    is_over = threading.Event()

    def mark() -> None:
        while not is_over.wait(0.003):
            with suppress(OSError):
                tracefs.write("trace_marker", b"noise\n")

    thread = threading.Thread(target=mark)
    thread.start()
    yield
    is_over.set()
    thread.join()


@pytest.mark.parametrize("options", [{"raw": True}, {}, {"raw": True, "latency": True}], ids=["raw", "text", "latency"])
def test_a_trace_ends_beside_one_that_goes_on(
    tracefs: Any, workload: Any, neighbour: None, options: dict[str, bool]
) -> None:
    began = time.monotonic()
    with Tracer(tracefs).trace("p:mine do_sys_openat2", top_level=True, timeout=0.3, **options) as trace:
        workload.open("/etc/hostname", repeat=OPENS)
        records = [record for record in trace if isinstance(record, Event) and record.name == "mine"]
        assert list(trace) == []
    assert sum(record.pid == workload.pid for record in records) == OPENS
    assert time.monotonic() - began < 20  # a guest may be slow, too; it would be for ever
    assert b"mine" not in tracefs.read("kprobe_events")
