"""The fprobes that a call hits, and the tracer's nesting: fprobes share functions with each other and with kprobes.

Source: recorded traces of 6.12.117, 7.2.13 and 7.3 (tests/kprobe_sim/test_function_hits.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from kprobe_sim.events.event_file import EventFile
from kprobe_sim.events.instances import Instances
from kprobe_sim.machine.tracer_frames import Way
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.fprobes import Fprobe, Fprobes
from kprobe_sim.probes.hits.function_users import ENTRIES, KPROBES, NEVER, RETURNS, FunctionUsers


class Attached(NamedTuple):
    """An fprobe whose event some instance wants, the files of the event there, and the preemption depth at a hit."""

    probe: Fprobe
    files: tuple[EventFile, ...]
    depth: int


class FunctionHits(NamedTuple):
    """What is to be done at one function, in the order of doing; `is_shared`: kprobes there are one level deeper.

    `first_entries` come before kprobes; `last_returns` after return probes, as they were at the entry before them.
    `way` is how the function calls all of them.
    """

    entries: tuple[Attached, ...] = ()
    returns: tuple[Attached, ...] = ()
    is_shared: bool = False
    first_entries: tuple[Attached, ...] = ()
    last_returns: tuple[Attached, ...] = ()
    way: Way = Way.ALONE


NO_USERS = FunctionHits()


def function_hits(
    function: int, instances: Instances, fprobes: Fprobes, users: FunctionUsers, *, kprobes: bool
) -> FunctionHits:
    """Return what to do at a function by its address; `kprobes`: there are enabled ones at its entry."""
    there = fprobes.at(function)
    if not there:
        return NO_USERS
    machine = instances.top.machine
    gates = machine.gates
    late, waits = gates.fprobes_late, gates.fprobes_wait
    one = int(bool(machine.profile.preemption))
    probes = [(probe, tuple(instances.enabled(probe.event))) for probe in fprobes.wanted(there, instances)]
    if waits and not probes:
        return NO_USERS
    # before fprobes were made of the function graph each of them was a user of its own
    here = [probe for probe, _ in probes] if waits else there
    users_here = {probe.target.is_return and gates.fprobes_apart for probe in here}
    count = len(users_here) if late else sum(there.values())
    shared = count + kprobes > 1
    newest = [(probe, files) for probe, files in reversed(probes) for _ in range(there[probe])]
    if waits:
        newest.sort(key=lambda pair: users.enabled(pair[0].event), reverse=True)
    entries = [Attached(probe, files, one * (gates.fprobe_entry_depth + shared)) for probe, files in newest]
    returns = [Attached(probe, files, one) for probe, files in (newest if late else reversed(newest))]
    first = next(fprobes.probes()).made if late and not waits else None  # when the one user that they are came
    before, after = (
        [attached for attached in some if _is_newer(attached.probe, users, waits=waits, first=first)]
        for some in (entries, returns)
    )
    return FunctionHits(
        _on(entries, before, is_return=False),
        _on(returns, after, is_return=True),
        shared and bool(one),
        _on(before, (), is_return=False),
        _on(after, (), is_return=True),
        Way.ALONE if not shared else Way.LISTED if kprobes else Way.LISTED_PLAIN,
    )


def _on(some: Sequence[Attached], others: Sequence[Attached], *, is_return: bool) -> tuple[Attached, ...]:
    return tuple(one for one in some if one.probe.target.is_return == is_return and one not in others)


def _is_newer(probe: Fprobe, users: FunctionUsers, *, waits: bool, first: int | None) -> bool:
    """True if a function calls the probe before kprobes."""
    made = probe.made if first is None else first
    since = users.since(RETURNS if probe.target.is_return else ENTRIES) if waits else (made, 0)
    return NEVER < users.since(KPROBES) < since
