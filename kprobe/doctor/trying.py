"""Tests whether a function is called, by probing it for a while: `kprobe doctor --try SECS`."""

from __future__ import annotations

from kprobe.doctor.counts import hits_of
from kprobe.doctor.diagnosis import NOTE, STOPS, Diagnosis, Fact
from kprobe.doctor.facts import Facts
from kprobe.doctor.functions import ON_FUNCTIONS
from kprobe.doctor.instances import recorded
from kprobe.doctor.machine import Machine
from kprobe.errors import KprobeError, Refused
from kprobe.events.hits import FILES
from kprobe.tracefs.capabilities import Capabilities
from kprobe.tracing.tracer import Tracer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kprobe.definitions.definition import Probe
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.tracing.session import Trace


def try_probe(
    tracefs: Tracefs, probe: Probe, seconds: float, begin: Callable[[Trace], None] = lambda trace: None
) -> Iterator[Diagnosis]:
    """Trace a probe for some seconds, remove it, and yield that the kernel refuses it or that it isn't hit.

    `begin` gets the trace before it starts.  Raise `UndoFailed` if something is left behind.
    """
    play = Capabilities(tracefs).play
    trace = Tracer(tracefs).trace(probe, duration=seconds)
    begin(trace)
    try:
        with trace:
            if play is not None:
                play()
            trace.wait()
            hits = hits_of(tracefs, trace.probe)
            count = recorded(Facts(tracefs, Machine()), trace.instance.prefix)
    except Refused as error:
        fact = Fact(error.path, error.says or str(error).partition("\n")[0])
        yield Diagnosis(STOPS, "try", f"the kernel takes no probe {probe}", (fact,), error.hint)
        return
    except KprobeError as error:
        yield Diagnosis(
            STOPS, "try", f"{probe.place} can't be traced", (Fact("kprobe", str(error).partition("\n")[0]),)
        )
        return
    while_tried = f"in {seconds:g} second{'' if seconds == 1 else 's'}"
    if hits is None:
        fact = Fact("per_cpu/*/stats", f"{count} entries")
    else:
        count = hits.count
        fact = Fact(FILES[probe.file], f"{probe.name} {count} {hits.missed or 0}")
    often = f"{count} time{'s' * (count > 1)} {while_tried}"
    if probe.is_return:
        what = f"returned {often}" if count else f"didn't return {while_tried}"
    else:
        verb = "called" if probe.kind in ON_FUNCTIONS else "hit"
        what = f"was {verb} {often}" if count else f"wasn't {verb} {while_tried}"
    yield Diagnosis(NOTE, "try", f"{probe.place} {what}", (fact,))
