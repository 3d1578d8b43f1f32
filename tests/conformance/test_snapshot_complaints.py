"""What a snapshot trigger says in the trace when it can't take a snapshot, and in which context it says so."""

from __future__ import annotations

from typing import Any

import pytest

from .text import define

MISSING = ["*** SNAPSHOT NOT ALLOCATED ***", "*** stopping trace here!   ***"]


@pytest.mark.parametrize("definition", ["p:g/a ksys_fadvise64_64", "r:g/a ksys_fadvise64_64"])
@pytest.mark.parametrize(("condition", "depth"), [("", "1"), (" if common_pid > 0", "2")])
def test_complaints(tracefs: Any, workload: Any, choose: Any, definition: str, condition: str, depth: str) -> None:
    """The tracer's own context has preemption off, twice while a record waits for a filter; 5.10 doesn't count it."""
    define(tracefs, definition)
    tracefs.write("events/g/a/trigger", f"snapshot{condition}".encode())
    tracefs.write("snapshot", b"0")
    workload.fadvise(-2, 0x10000000, 1, 1)
    lines = [line for line in tracefs.read("trace").decode().splitlines() if not line.startswith("#")]
    tracefs.write("events/g/a/trigger", b"!snapshot")
    tracefs.write("tracing_on", b"1")
    assert [line.partition(": tracing_snapshot_instance_cond: ")[2] for line in lines] == MISSING
    counted = choose({"": False, "[<group>/][<event>]": True})
    for line in lines:
        letters = line.partition("[000] ")[2].split()[0]
        assert letters[2:4] == "." + (depth if counted else ".")  # the second letter is up to the scheduler
        assert letters[0] == ("d" if definition[0] == "r" and not counted else ".")
