"""Both ends of functions: the probes at entries and returns by which latencies are measured."""

from __future__ import annotations

from kprobe.definitions.probe import Place, Probe
from kprobe.errors import DefinitionError
from kprobe.kernel.dialect import STACK_OF_2009, of_stack
from kprobe_text.figures.pairs import POINTER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from kprobe.tracefs.tracefs import Tracefs


def functions(probes: Iterable[Probe]) -> dict[str, str]:
    """Return the probed functions by the names of their events."""
    return {probe.name: str(_bare(probe.place)) for probe in probes}


def pointer(probes: Iterable[Probe]) -> str:
    """Return the field of their events with the stack pointer."""
    return STACK_OF_2009 if any(STACK_OF_2009 in probe.args for probe in probes) else POINTER


def both_ends(tracefs: Tracefs, probes: Iterable[Probe]) -> tuple[Probe, ...]:
    """Return these probes, and probes at the other ends of their functions.

    All fetch the stack pointer, in this kernel's words, by which calls are paired; except fprobes, which show another
    one at returns.  Raise `DefinitionError` unless all are at a function's entry or return.
    """
    stack = of_stack(tracefs, POINTER)
    ends: dict[tuple[str, bool], Probe] = {}
    for probe in probes:
        if probe.kind not in ("p", "r", "f") or probe.place.offset or probe.place.address is not None:
            raise DefinitionError(
                "a latency is a function's: give its name, alone or after p:, r: or f:", str(probe), 0
            )
        ends.setdefault((str(_bare(probe.place)), probe.is_return), _pointing(probe, stack))
    for (function, is_return), probe in list(ends.items()):
        if (function, not is_return) not in ends:
            ends[function, not is_return] = _pointing(_other(probe, is_return=not is_return), stack)
    return tuple(ends[key] for key in sorted(ends))


def _bare(place: Place) -> Place:
    return Place(place.symbol, place.module, place.offset, place.address)


def _other(probe: Probe, *, is_return: bool) -> Probe:
    place = _bare(probe.place)
    if probe.kind == "f":
        place = Place(place.symbol, place.module, returns=is_return)
        return Probe("f", probe.name, place, (), probe.group, is_named=False)
    return Probe("r" if is_return else "p", probe.name, place, (), probe.group, is_named=False)


def _pointing(probe: Probe, stack: str) -> Probe:
    if probe.kind == "f" or stack in probe.args or any(arg.startswith(f"{POINTER}=") for arg in probe.args):
        return probe
    args = (*probe.args, stack)
    return Probe(probe.kind, probe.name, probe.place, args, probe.group, probe.maxactive, probe.is_named)
