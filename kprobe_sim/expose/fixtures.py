"""pytest fixtures for code that opens the paths itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kprobe_sim.expose import real  # noqa: F401  # before pyfakefs can fake what it keeps

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel


@pytest.fixture
def sys_kernel_tracing() -> Iterator[SimulatedKernel]:
    """A fresh SimulatedKernel whose files this process sees at /sys/kernel/tracing, for the time of the test."""
    from kprobe_sim.expose.patched import patched

    with patched() as kernel:
        yield kernel


@pytest.fixture
def simulated_machine(fs: Any) -> Iterator[SimulatedKernel]:
    """The same in a whole fake machine: pyfakefs' `fs`, with the rest of /proc, and places for locks and logs."""
    from kprobe_sim.expose.patched import patched

    with patched(fs=fs) as kernel:
        yield kernel
