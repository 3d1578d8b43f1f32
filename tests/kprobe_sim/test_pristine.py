"""What is put back between the tests on a real kernel; the simulator stands in for it here."""

from __future__ import annotations

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.pristine import Pristine


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("max_graph_depth", b"3"),
        ("stack_max_size", b"100"),
        ("buffer_percent", b"30"),
        ("tracing_max_latency", b"77"),
        ("tracing_thresh", b"5"),
        ("trace_clock", b"mono"),
        ("trace_options", b"sym-offset"),
    ],
)
def test_values_are_put_back(path: str, value: bytes) -> None:
    tracefs = SimulatedKernel("6.1").tracefs
    before = tracefs.read(path)
    pristine = Pristine(tracefs)
    pristine.write(path, value)
    assert tracefs.read(path) != before
    pristine.reset()
    assert tracefs.read(path) == before
