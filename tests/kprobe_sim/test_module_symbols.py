"""Symbols of modules that are loaded: which of them count, and when one that isn't there is noticed.

By the sources of the kernels (trace_kprobe.c: validate_module_probe_symbol(), number_of_same_symbols()); the recorded
guests have no module with such symbols.
"""

from __future__ import annotations

import errno

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.builds.symbol import Symbol


def kernel_of(series: str) -> SimulatedKernel:
    kernel = SimulatedKernel(series)
    kernel.symbols.add(Symbol("vfs_read", module="ext"))
    kernel.symbols.add(Symbol("only", module="ext"))
    return kernel


def refusal(kernel: SimulatedKernel, line: str) -> int:
    with pytest.raises(OSError) as refused:
        kernel.tracefs.write("kprobe_events", line.encode())
    return refused.value.errno or 0


@pytest.mark.parametrize("series", ["5.10", "6.1", "6.12", "7.2", "7.3"])
def test_a_symbol_of_a_module_alone(series: str) -> None:
    kernel = kernel_of(series)
    kernel.tracefs.write("kprobe_events", b"p only\np ext:vfs_read")
    assert len(kernel.tracefs.read("kprobe_events").splitlines()) == 2


@pytest.mark.parametrize(
    ("series", "number"), [("5.10", errno.EADDRNOTAVAIL), ("6.1", errno.EADDRNOTAVAIL), ("6.12", 22)]
)
def test_modules_are_counted(series: str, number: int) -> None:
    assert refusal(kernel_of(series), "p vfs_read") == number


@pytest.mark.parametrize("series", ["7.2", "7.3"])
def test_the_kernel_s_own_symbol_wins(series: str) -> None:
    kernel = kernel_of(series)
    kernel.tracefs.write("kprobe_events", b"p vfs_read")
    assert kernel.tracefs.read("kprobe_events") == b"p:kprobes/p_vfs_read_0 vfs_read\n"


@pytest.mark.parametrize(
    ("series", "number"), [("5.10", errno.ENOENT), ("6.1", errno.ENOENT), ("6.12", 22), ("7.2", 22)]
)
def test_what_a_module_lacks(series: str, number: int) -> None:
    assert refusal(kernel_of(series), "p ext:nosuch") == number
