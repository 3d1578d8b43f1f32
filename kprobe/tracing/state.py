"""The state of a trace that has recorded nothing, for messages to those who wait for it."""

from __future__ import annotations

from kprobe.events.registration import profiled
from kprobe.undo.owners import read_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from kprobe.definitions.probe import Probe
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.instance import Instance

UNKNOWN = "can't be read"


def facts(tracefs: Tracefs, instance: Instance, probes: Iterable[Probe], filter: str) -> list[tuple[str, str]]:
    """Return the known facts: (what, its state)."""
    found = []
    for probe in probes:
        counts = profiled(tracefs, probe)
        hits, lost = counts or ("not counted", 0)
        own = read_session(probe.group) is not None
        found.append(("event", str(probe.in_default_group() if own else probe)))
        found.append(("enabled", instance.state(f"events/{probe.event}/enable") or UNKNOWN))
        found.append(("hits so far", f"{hits}, and {lost} that the kernel missed" if lost else str(hits)))
    found.append(("filter", filter or "none"))
    found.append(("tracing_on", instance.state("tracing_on") or UNKNOWN))
    return found
