"""Event names for probes that are traced together: all different, as only they tell a trace's lines apart."""

from __future__ import annotations

from kprobe.errors import DefinitionError

from .probe import NAME_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .probe import Probe

RETURN_SUFFIX = "_return"


def distinct(probes: Sequence[Probe]) -> tuple[Probe, ...]:
    """Return the probes, each with a unique name: users' names stay, others change where two are the same.

    The return of a function whose entry is traced too is called FUNCTION_return, anything else NAME_2 and so on.
    Raise `DefinitionError` if the user gave a name twice, even in different groups.
    """
    taken: set[str] = set()
    for probe in probes:
        if probe.is_named and probe.name in taken:
            raise DefinitionError(
                f"another probe is called {probe.name}, too: their lines couldn't be told apart", str(probe), 0
            )
        if probe.is_named:
            taken.add(probe.name)
    names: dict[int, str] = {}
    for at, probe in sorted(enumerate(probes), key=lambda item: item[1].is_return):
        if not probe.is_named:
            names[at] = _free(probe, taken)
            taken.add(names[at])
    return tuple(
        probe.called(names[at]) if names.get(at, probe.name) != probe.name else probe for at, probe in enumerate(probes)
    )


def _free(probe: Probe, taken: set[str]) -> str:
    if probe.name not in taken:
        return probe.name
    stem = probe.name
    if probe.is_return:
        stem = _with(stem, RETURN_SUFFIX)
        if stem not in taken:
            return stem
    number = 2
    while (name := _with(stem, f"_{number}")) in taken:
        number += 1
    return name


def _with(stem: str, suffix: str) -> str:
    return stem[: NAME_MAX - len(suffix)] + suffix
