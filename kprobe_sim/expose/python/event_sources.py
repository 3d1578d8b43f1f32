"""/sys/bus/event_source/devices: the PMUs that a kernel has on every processor.

Source: guests of 5.10 to 7.3; tests/conformance/test_sysctls.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kprobe_sim.tree.files.node import Node
from kprobe_sim.tree.files.texts import Directory, TextFile

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

_FIXED = {"software": 1, "tracepoint": 2, "breakpoint": 5}  # PERF_TYPE_* of perf_event_open(2)
_FIRST_DYNAMIC = 6  # PERF_TYPE_MAX: PMUs get the next types in the order of their registration


def event_sources(kernel: SimulatedKernel) -> Directory:
    """Return the directory, which has a directory for each PMU."""

    def pmus() -> dict[str, Node]:
        gates = kernel.gates
        interval = b"%d\n" % (4 if gates.software_pmus_named else 0)
        entries = {name: _pmu(type_, interval, {}) for name, type_ in _FIXED.items()}
        if gates.probe_pmus:
            first = _FIRST_DYNAMIC + 2 * gates.software_pmus_named
            is_return = {"retprobe": b"config:0\n"}
            counter = {}
            if b"ref_ctr_offset" in kernel.tracefs.read("README"):
                counter["ref_ctr_offset"] = b"config:32-63\n"
            entries["kprobe"] = _pmu(first, interval, is_return)
            entries["uprobe"] = _pmu(first + 1, interval, is_return | counter)
        return entries

    return Directory(0o755, pmus)


def _pmu(type_: int, interval: bytes, formats: dict[str, bytes]) -> Node:
    entries: dict[str, Node] = {
        "type": TextFile(lambda: b"%d\n" % type_),
        "perf_event_mux_interval_ms": TextFile(lambda: interval),
    }
    if formats:
        texts: dict[str, Node] = {name: _text(text) for name, text in formats.items()}
        entries["format"] = Directory(0o755, lambda: texts)
    return Directory(0o755, lambda: entries)


def _text(text: bytes) -> Node:
    return TextFile(lambda: text)
