"""The fprobes that a call hits, and the tracer's nesting: fprobes share functions with each other and with kprobes.

Source: recorded traces of 6.12.117, 7.2.13 and 7.3 (tests/kprobe_sim/test_function_hits.py).
"""

from __future__ import annotations

from kprobe_sim.events.instances import Instances
from kprobe_sim.machine.tracer_frames import Way
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.fprobes import Fprobe, Fprobes
from kprobe_sim.probes.hits.armed import Armed, HandlerContext
from kprobe_sim.probes.hits.function_users import ENTRIES, KPROBES, NEVER, RETURNS, FunctionUsers


class FunctionHits(NamedTuple):
    """What happens at one function, in this order; `is_shared`: kprobes there run one level deeper.

    `first_entries` come before kprobes; `last_returns` after return probes, as they were at the entry before them.
    `way` is how the function calls all of them.
    """

    entries: tuple[Armed, ...] = ()
    returns: tuple[Armed, ...] = ()
    is_shared: bool = False
    first_entries: tuple[Armed, ...] = ()
    last_returns: tuple[Armed, ...] = ()
    way: Way = Way.ALONE


NO_USERS = FunctionHits()


def function_hits(
    entry: int, here: int, instances: Instances, fprobes: Fprobes, users: FunctionUsers, *, kprobes: bool
) -> FunctionHits:
    """Return what to do at a function, which calls ftrace at `here`; `kprobes`: enabled ones are at its entry."""
    attached = fprobes.attached_to(entry)
    if not attached:
        return NO_USERS
    machine = instances.top.machine
    gates = machine.gates
    late, waits = gates.fprobes_late, gates.fprobes_wait
    preemption = int(bool(machine.profile.preemption))
    probes = [(probe, tuple(instances.enabled(probe.event))) for probe in fprobes.enabled(attached, instances)]
    if waits and not probes:
        return NO_USERS
    # before fprobes were made of the function graph each of them was a separate user
    counted = [probe for probe, _ in probes] if waits else attached
    users_here = {probe.target.is_return and gates.fprobes_apart for probe in counted}
    count = len(users_here) if late else sum(attached.values())
    shared = count + kprobes > 1
    way = Way.ALONE if not shared else Way.LISTED if kprobes else Way.LISTED_PLAIN
    newest = [(probe, files) for probe, files in reversed(probes) for _ in range(attached[probe])]
    if waits:
        newest.sort(key=lambda pair: users.enabled(pair[0].event), reverse=True)
    at_entry = HandlerContext(0, preemption * (gates.fprobe_entry_depth + shared))
    at_return = HandlerContext(0, preemption)
    entries = [Armed(probe, False, files, at_entry, here, way) for probe, files in newest if not probe.target.is_return]
    returns = [
        Armed(probe, True, files, at_return, here)
        for probe, files in (newest if late else reversed(newest))
        if probe.target.is_return
    ]
    first = next(fprobes.probes()).made if late and not waits else None  # when the one user that they are came
    newer = {probe for probe, _ in probes if _is_newer(probe, users, waits=waits, first=first)}
    return FunctionHits(
        tuple(armed for armed in entries if armed.probe not in newer),
        tuple(armed for armed in returns if armed.probe not in newer),
        shared and bool(preemption),
        tuple(armed for armed in entries if armed.probe in newer),
        tuple(armed for armed in returns if armed.probe in newer),
        way,
    )


def _is_newer(probe: Fprobe, users: FunctionUsers, *, waits: bool, first: int | None) -> bool:
    """True if a function calls the probe before kprobes."""
    made = probe.made if first is None else first
    since = users.since(RETURNS if probe.target.is_return else ENTRIES) if waits else (made, 0)
    return NEVER < users.since(KPROBES) < since
