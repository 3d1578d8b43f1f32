"""A trace run by the command: started, printed as the command line asks, ended by a signal or its limits."""

from __future__ import annotations

from kprobe.tracefs.capabilities import Capabilities
from kprobe_text.terminal.output import note, say

from .events.registration import profiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

    from .definitions.probe import Probe
    from .options.command_line import CommandLine
    from .tracefs.tracefs import Tracefs
    from .tracing.session import Trace
    from .views.views import View

OK = 0
INTERRUPT = 2  # SIGINT; the usual way to end a trace, so not a failure
TICK = 0.5  # seconds between two checks of the reader of our output
SILENCE = 10.0  # seconds without an event, after which a message explains the silence
NAMED = 5  # events that are named where tracing begins


def trace(tracefs: Tracefs, output: Output, signals: Signals, request: CommandLine, probes: tuple[Probe, ...]) -> int:
    """Trace the probes as the command line asks, or show their formats; return the exit status."""
    from .errors import UndoFailed
    from .tracing.tracer import Tracer

    for probe in () if request.force else probes:
        if probe.kind in ("p", "r", "f") and not probe.place.is_pattern:
            _warn(probe, tracefs)
    if request.latency:
        from .tracing.ends import both_ends

        probes = both_ends(tracefs, probes)
    tracer = Tracer(tracefs)
    if request.view:
        text = b"".join(map(tracer.format, probes))
        output.begin()
        output.write(text, lambda: bool(signals.received))
        return OK
    running = tracer.trace(
        *probes,
        filter=request.filter,
        pid=request.pid,
        tid=request.tid,
        stacktrace=request.stacktrace or request.stacks or request.count == "stacktrace",
        duration=request.duration,
        top_level=request.top_level,
        follow=request.follow,
        raw=True if request.raw else None if request.wants_records else False,
        count=request.hist or request.count,
        max_probes=request.max_probes,
        max_events=request.max_events,
        timeout=request.timeout,
        buffer_size=request.buffer_size,
        cpus=request.cpus,
    )
    try:
        signals.end_by(running.stop)  # from here on no signal interrupts
        with running:
            output.begin()
            said = len(running.notices)
            _run(request, running, output)
            note(f"\nEnding tracing...\n{_sum(running)}")
        for notice in running.notices[said:]:
            note(f"WARNING: {notice}")
    except BrokenPipeError:
        if running.undo_failures:
            raise UndoFailed(running.undo_failures) from None
        raise
    if signals.received in (0, INTERRUPT):
        return OK
    return 128 + signals.received


def _run(request: CommandLine, trace: Trace, output: Output) -> None:
    from .views.views import view

    for notice in trace.notices:
        note(f"WARNING: {notice}")
    shown = view(trace, request)
    if request.duration is None:
        note(f"Tracing {_named(trace)}{shown.title}. Ctrl-C to end.")
    elif shown.title:
        note(f"Tracing {_named(trace)} for {request.texts['duration']} seconds (buffered){shown.title}.")
    else:
        note(f"Tracing {_named(trace)} for {request.texts['duration']} seconds (buffered)...")
    output.write(shown.head(), lambda: trace.is_stopped)
    _play(trace)
    if _stream(trace, output, shown):
        output.write(shown.tail(), lambda: trace.is_stopped)
    output.finish(lambda: trace.is_stopped)
    missed = trace.missed()
    if missed:
        more = ": give it more instances (r100:...)" if any(probe.is_return for probe in trace.probes) else ""
        note(f"WARNING: the kernel missed {missed} hits of {_names(trace)}{more}")


def _stream(trace: Trace, output: Output, shown: View) -> bool:
    """Print the trace until it ends; False if nobody reads it any more."""
    silent = 0.0
    came = False
    while True:
        try:
            data = shown.read(TICK)
        except TimeoutError:
            data = None
            if trace.terms.duration is None:  # otherwise all events are in the buffer
                silent = _after_silence(trace, silent + TICK if silent >= 0 else silent)
        else:
            silent, came = -1.0, came or data != b""
        if data is None:
            if output.is_broken():
                raise BrokenPipeError
            continue
        if not data:
            if not came and trace.terms.duration is not None and not trace.is_stopped:
                _explain(trace, trace.terms.duration)
            return True
        if not output.write(data, lambda: trace.is_stopped):
            return False


def _after_silence(trace: Trace, silent: float) -> float:
    """Handle a silence of some seconds, and return the seconds to count on from: -1, once it is explained."""
    terms = trace.terms
    if silent >= SILENCE / 2 and (terms.filter or terms.picks):
        trace.count_hits()
    if silent < SILENCE:
        return silent
    _explain(trace, SILENCE)
    return -1.0


def _explain(trace: Trace, seconds: float) -> None:
    """Say why nothing has come for some seconds."""
    from .doctor.silence import explain

    why = explain(trace, seconds)
    if why:
        note(f"NOTE: {why}")


def _sum(trace: Trace) -> str:
    """Say how many events there were, how many the kernel lost, and how many hits it missed."""
    tally = trace.tally
    missed = {probe.name: profiled(trace.tracefs, probe) for probe in trace.probes}
    counts = {name: count[1] for name, count in missed.items() if count is not None}
    every = [f"{tally.total} event{'' if tally.total == 1 else 's'}"]
    every.append(f"{tally.lost}{' or more' if tally.uncertain else ''} lost")
    if trace.is_counted:  # counted by the kernel, which recorded nothing
        every = [f"{sum(sum(numbers.values()) + dropped for _, numbers, dropped in trace.counted())} events counted"]
    if counts:
        only = "" if len(counts) == len(trace.probes) else " (of p: and r:)"  # kernels count no others
        every.append(f"{sum(counts.values())} missed{only}")
    text = ", ".join(every)
    if len(trace.probes) < 2 or trace.is_counted or not tally.is_by_event:
        return text
    single = [
        f"{name} {count}" + (f" ({counts[name]} missed)" if counts.get(name) else "")
        for name, count in tally.events.items()
        if count or counts.get(name) or len(tally.events) <= NAMED
    ]
    return f"{text}: {', '.join(single)}" if single else text


def _named(trace: Trace) -> str:
    kind = "kprobe" if all(probe.kind in ("p", "r") for probe in trace.probes) else "probe"
    return f"{kind}{'s' if len(trace.probes) > 1 else ''} {_names(trace)}"


def _names(trace: Trace) -> str:
    names = [probe.name for probe in trace.probes]
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} others"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _play(trace: Trace) -> None:
    """Start a machine with a scripted activity."""
    play = Capabilities(trace.tracefs).play
    if play is not None:
        play()


def _warn(probe: Probe, tracefs: Tracefs) -> None:
    from .kernel import symbols

    doubt = symbols.doubt(probe.place, lambda: symbols.functions(tracefs), Capabilities(tracefs).has_function)
    if doubt:
        say(f"WARNING: {doubt}. (-F: no warnings)")
