"""Which fprobes a call hits, and how deep in the tracer: fprobes share functions with each other and with kprobes.

Source: recorded traces of 6.12.117, 7.2.13 and 7.3 (tests/kprobe_sim/test_function_hits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from kprobe_sim.event_file import EventFile
from kprobe_sim.fprobes import Fprobe

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel


class Attached(NamedTuple):
    """An fprobe whose event some instance wants, the files of the event there, and the preemption depth at a hit."""

    probe: Fprobe
    files: tuple[EventFile, ...]
    depth: int


class FunctionHits(NamedTuple):
    """What is to be done at one function, in the order of doing; `is_shared`: kprobes there are one level deeper."""

    entries: tuple[Attached, ...] = ()
    returns: tuple[Attached, ...] = ()
    is_shared: bool = False


NOBODY = FunctionHits()


def function_hits(
    kernel: SimulatedKernel, entry: Callable[[int], int], kprobes: Collection[int]
) -> dict[int, FunctionHits]:
    """Return what to do where: by the address at which a function's entry is probed.

    `entry` gives that address of a function, `kprobes` are the addresses where an enabled kprobe is.
    """
    late = kernel.gates.fprobes_late
    one = int(bool(kernel.profile.preemption))
    found: dict[int, list[tuple[Fprobe, tuple[EventFile, ...]]]] = {}
    for probe in kernel.probes.fprobes.probes():
        files = [instance.probe_files.get(probe.event) for instance in kernel.all_instances()]
        wanted = tuple(file for file in files if file is not None and file.enabled)
        for address in probe.addresses if wanted or not late else ():
            found.setdefault(entry(address), []).append((probe, wanted))
    hits = {}
    for address, probes in found.items():
        # before fprobes were made of the function graph each of them was a user of its own, enabled or not
        users = len({probe.target.is_return for probe, _ in probes}) if late else len(probes)
        shared = users + (address in kprobes) > 1
        entries = [Attached(probe, files, one * (late + shared)) for probe, files in reversed(probes) if files]
        returns = [Attached(probe, files, one) for probe, files in (reversed(probes) if late else probes) if files]
        hits[address] = FunctionHits(
            tuple(attached for attached in entries if not attached.probe.target.is_return),
            tuple(attached for attached in returns if attached.probe.target.is_return),
            shared and bool(one),
        )
    return hits
