"""Why nothing arrives: the message to the user when a trace has been silent for a while."""

from __future__ import annotations

from kprobe.doctor.counts import hits_of
from kprobe.doctor.facts import Facts
from kprobe.doctor.functions import ON_FUNCTIONS, TRACEITER, misread_argument, never, no_tracepoint
from kprobe.doctor.instances import recorded, recording
from kprobe.doctor.kprobes import switched_off
from kprobe.doctor.machine import machine_of
from kprobe.errors import NoSuchProcess
from kprobe.events.hits import FILES
from kprobe.kernel.symbols import successors
from kprobe.tracefs.capabilities import Capabilities
from kprobe.undo.processes import PROC, check_thread, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from kprobe.definitions.definition import Probe
    from kprobe.definitions.terms import Terms
    from kprobe.doctor.diagnosis import Diagnosis
    from kprobe.doctor.machine import Machine
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.tracing.session import Trace

NAMED = 3  # functions that a message names


def explain(trace: Trace, seconds: float, machine: Machine | None = None, proc: str = PROC) -> str:
    """Return a sentence on why this trace has been silent for some seconds: the likeliest visible cause.

    It is "" if events were recorded after all: a view may keep them to the end.
    """
    tracefs = trace.tracefs
    facts = Facts(tracefs, machine_of(tracefs) if machine is None else machine)
    if trace.instance.is_own and recorded(facts, trace.instance.prefix):
        return ""
    cause = next(_causes(trace, facts, proc))
    return f"nothing in {seconds:g} second{'' if seconds == 1 else 's'}: {cause}" if cause else ""


def _causes(trace: Trace, facts: Facts, proc: str) -> Iterator[str]:
    """Yield the visible causes, the surest first."""
    gone = _gone(trace, proc)
    if gone:
        yield gone
    yield from map(_told, _recording(trace, facts))
    counts = [(probe, hits_of(trace.tracefs, probe)) for probe in trace.probes]
    hits = sum(count.count for _, count in counts if count is not None)
    missed = sum(count.missed or 0 for _, count in counts if count is not None)
    if hits:
        hit = [probe for probe, count in counts if count is not None and count.count]
        yield _held_back(trace, hit, hits)
    uncounted = trace.hits()
    if uncounted:
        hit = [probe for probe, count in counts if count is None]
        yield _held_back(trace, hit, uncounted, "a hist trigger")
    if missed:
        what = (
            "too few return probe instances: r100:... has more" if trace.probe.is_return else "its hits come too fast"
        )
        yield f"the kernel missed {_times(missed)} that {_names(trace.probes)} was hit; {what}"
    yield from map(_told, switched_off(facts))
    known = _known(trace.tracefs, trace.probes)
    if known:
        yield known
    absent = [one.place.symbol for one in trace.probes if one.kind == "t" and not _has_tracepoint(trace.tracefs, one)]
    if len(absent) == len(trace.probes):
        yield no_tracepoint(absent[0])
    if uncounted == 0 and all(count is None for _, count in counts):
        yield f"{_names(trace.probes)} was not hit recently (a hist trigger: 0 hits){_doctor(trace.probes)}"
    if any(count is None for _, count in counts):
        is_called = all(probe.kind in ON_FUNCTIONS for probe in trace.probes)
        how = "be called now, may be inlined where it is called," if is_called else "fire now,"
        yield f"{_names(trace.probes)} may not {how} or no hit passes the trace's filters{_doctor(trace.probes)}"
    yield _never(trace.tracefs, trace.probes)


def _gone(trace: Trace, proc: str) -> str:
    """Say that the traced process or thread is gone; "" if it exists, or none was named."""
    try:
        if trace.terms.pid is not None and not trace.terms.follow:
            threads(trace.tracefs, trace.terms.pid, proc)
        if trace.terms.tid is not None:
            check_thread(trace.tracefs, trace.terms.tid, proc)
    except NoSuchProcess as error:
        return f"there is {error} any more, and nothing else is traced"
    except OSError:
        pass
    return ""


def _recording(trace: Trace, facts: Facts) -> list[Diagnosis]:
    """Return why its instance records nothing, or not on all CPUs, unless the trace itself picks them."""
    wanted = "" if trace.terms.cpus is None else "tracing_cpumask"
    return [finding for finding in recording(facts, trace.instance.prefix) if finding.check != wanted]


def _held_back(trace: Trace, probes: list[Probe], hits: int, source: str = "kprobe_profile") -> str:
    """Say what keeps counted hits from being recorded; "" if they may have been, among others'."""
    terms = trace.terms
    name = _names(probes)
    only = _only(terms)
    was = f"{name} was hit {_times(hits)} ({source})"
    if terms.filter and only:
        return f"{was}, but never {only} with what the filter {terms.filter!r} lets through"
    if only:
        return f"{was}, but never {only}"
    if not terms.filter and not trace.instance.is_own:
        return ""
    if not terms.filter:
        return f"{was}, but nothing was recorded: kprobe doctor looks for what holds it back"
    misread = next(filter(misread_argument, probes), None)
    if misread is not None:
        symbol = misread.place.symbol
        return (
            f"{was}, but the filter {terms.filter!r} let none through; the arguments of a system call are behind "
            f"the pointer that {symbol} gets: kprobe args {symbol}"
        )
    return f"{was}, but the filter {terms.filter!r} let none through; without the filter you see what values there are"


def _only(terms: Terms) -> str:
    """Return a trace's restrictions besides its filter: "by process 2 on CPU 1"."""
    process = [] if terms.pid is None else [f"by process {terms.pid}"]
    thread = [] if terms.tid is None else [f"by thread {terms.tid}"]
    cpus = [f"CPU{'s' * (len(terms.cpus) > 1)} {', '.join(map(str, terms.cpus))}"] if terms.cpus else []
    return " ".join([*process, *thread, *(f"on {name}" for name in cpus)])


def _known(tracefs: Tracefs, probes: tuple[Probe, ...]) -> str:
    """Say why the machine is known never to hit any of the probes; "" if it does, or that is unknown."""
    reasons = [never(tracefs, probe) for probe in probes]
    if not all(reasons):
        return ""
    return reasons[0] if len(reasons) == 1 else f"{reasons[0]}, nor the others"


def _never(tracefs: Tracefs, probes: tuple[Probe, ...]) -> str:
    """Say that the kernel counted no hit, and suggest why."""
    symbols = [probe.place.symbol for probe in probes]
    if all(probe.is_return for probe in probes):
        return f"no call of {_names(probes)} that began since has returned: p: shows the calls{_doctor(probes)}"
    known: list[str] = []
    for symbol in symbols:
        known += [name for name in successors(symbol) if _has(tracefs, name)]
    if known:
        return f"{_names(probes)} was not called (kprobe_profile: 0 hits); this kernel has {known[0]} for it"
    verb = "called" if all(probe.place.symbol for probe in probes) else "hit"
    return f"{_names(probes)} was not {verb} ({FILES[probes[0].file]}: 0 hits){_doctor(probes)}"


def _has(tracefs: Tracefs, name: str) -> bool:
    has = Capabilities(tracefs).has_function
    if has is not None:
        return has(name)
    from kprobe.kernel.symbols import functions

    return name in (functions(tracefs) or ())


def _has_tracepoint(tracefs: Tracefs, probe: Probe) -> bool:
    return _has(tracefs, f"{TRACEITER}{probe.place.symbol}")


def _names(probes: tuple[Probe, ...] | list[Probe]) -> str:
    names = list(dict.fromkeys(str(probe.place) for probe in probes))
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} others" if len(names) > NAMED else "")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _told(finding: Diagnosis) -> str:
    return f"{finding.what} ({finding.facts[0]}): {finding.helps}"


def _doctor(probes: tuple[Probe, ...]) -> str:
    names = [probe.place.symbol for probe in probes if probe.place.symbol and probe.kind in ON_FUNCTIONS]
    return f"; kprobe doctor {names[0]} looks further" if names else ""
