"""Python code that opens /sys/kernel/tracing itself, on the simulator in the same process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.expose import patched

T = "/sys/kernel/tracing"
PROBE = "p:probe do_sys_openat2 path=+0(%si):string"
LISTED = "p:kprobes/probe do_sys_openat2 path=+0(%si):string\n"


@pytest.fixture
def kernel() -> Iterator[SimulatedKernel]:
    with patched("6.1") as kernel:
        yield kernel


def refused(error: pytest.ExceptionInfo[OSError]) -> tuple[int | None, object]:
    return error.value.errno, error.value.filename


def open_text(name: str) -> str:
    with open(f"{T}/{name}") as file:
        return file.read()
