"""Patterns: a probe on every function whose name matches -> one probe for each of them."""

from __future__ import annotations

from kprobe.definitions.naming import distinct
from kprobe.definitions.probe import NAME_MAX, Place
from kprobe.errors import DefinitionError, Unsupported

from . import symbols

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.definitions.probe import Probe
    from kprobe.tracefs.tracefs import Tracefs

MOST = 100  # probes that a pattern makes, unless the user says otherwise


class Expansion:
    """The probes that a pattern stands for; `notice` says how many, and which functions it leaves out.

    A kernel with function probes takes * and ? in them itself: then it is one probe, whose lines tell the function.
    """

    __slots__ = ("notice", "probes")

    def __init__(self, probes: tuple[Probe, ...], notice: str) -> None:
        self.probes = probes
        self.notice = notice


def expand(tracefs: Tracefs, probe: Probe, most: int = MOST) -> Expansion:
    """Expand a probe to the functions that ftrace can trace, except those on the blacklist of kprobes.

    Raise `DefinitionError` if no function matches, or more than `most`, and `Unsupported` if there is no list of them.
    """
    counts = _functions(tracefs, probe.place)
    banned = {name for _, _, name in symbols.blacklist(tracefs)} if probe.kind != "f" else set()
    twice = [name for name, count in counts.items() if count > 1]
    names = [name for name in sorted(counts) if name not in banned and name not in twice]
    column = str(probe).find(str(probe.place))
    if not names:
        raise DefinitionError(
            f"no function that can be probed matches, according to {symbols.LIST}", str(probe), column
        )
    if len(names) > most:
        raise DefinitionError(
            f"{len(names)} functions match, and at most {most} may: narrow it, or allow --max-probes {len(names)}",
            str(probe),
            column,
        )
    notice = f"{probe.kind}:{probe.place} matches {len(names)} function{'s' if len(names) > 1 else ''}"
    if probe.kind == "f" and "[" not in probe.place.symbol:
        return Expansion((probe,), f"{notice}, which are one event: a line tells its function by its address")
    if twice:
        notice += f"; left out, as several functions have the name: {', '.join(twice)}"
    return Expansion(tuple(_on_function(probe, name) for name in names), notice)


def expand_all(
    tracefs: Tracefs, probes: tuple[Probe, ...], most: int | None = None
) -> tuple[tuple[Probe, ...], frozenset[Place], list[str]]:
    """Expand patterns; return all probes, with different names, the probe points from patterns, and notices."""
    every: list[Probe] = []
    fitting: list[Place] = []
    notices: list[str] = []
    for probe in probes:
        if not probe.place.is_pattern:
            every.append(probe)
            continue
        counts = expand(tracefs, probe, most or MOST)
        notices.append(counts.notice)
        every += counts.probes
        fitting += [one.place for one in counts.probes if len(counts.probes) > 1]
    return distinct(every), frozenset(fitting), notices


def _on_function(probe: Probe, function: str) -> Probe:
    place = Place(function, probe.place.module, returns=probe.place.returns)
    clean = "".join(char if char.isascii() and char.isalnum() else "_" for char in function)
    return probe.moved(place, f"{probe.name}_{clean}"[:NAME_MAX] if probe.is_named else clean[:NAME_MAX])


def _functions(tracefs: Tracefs, place: Place) -> dict[str, int]:
    """Return the functions that match, and how many have each name."""
    import re
    from fnmatch import translate

    try:
        listed = symbols.functions_and_modules(tracefs)
    except OSError as error:
        raise Unsupported(
            "list of functions for a pattern", f"{symbols.LIST} can't be read: {error.strerror}"
        ) from error
    fits = re.compile(translate(place.symbol)).match
    counts: dict[str, int] = {}
    for name, module in listed:
        if fits(name) and place.module in ("", module):
            counts[name] = counts.get(name, 0) + 1
    return counts
