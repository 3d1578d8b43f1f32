"""`kprobe top`: how often each event fires, in which tasks and on which CPUs, shown live."""

from __future__ import annotations

import os
import sys
import time
from importlib.util import find_spec

from kprobe.options.trace_words import definitions_and_filter
from kprobe.tracefs.capabilities import Capabilities
from kprobe.tracing.tracer import Tracer
from kprobe.views.records import Records
from kprobe_text.figures.rates import Rates, text
from kprobe_text.terminal.output import note, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kprobe.options.command_line import CommandLine
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.tracing.session import Trace
    from kprobe_text.figures.rates import Sample
    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

OK, USAGE_ERROR = 0, 2
INTERRUPT = 2  # SIGINT, the usual way to end it
EVERY = 1.0  # seconds between two samples
TICK = 0.1
NO_SCREEN = ("dumb", "unknown")  # terminals, by TERM, without cursor movement
MISSING = "ERROR: kprobe top needs rich on a terminal: pip install 'kprobe-sim[top]', or use | cat for text"


def run(tracefs: Tracefs, output: Output, signals: Signals, request: CommandLine) -> int:
    """Show the rates of the verb's probes until a signal or the timeout.

    A terminal gets an alternate screen; a dumb one, and anything else, a few lines a second.
    """
    definitions, filter_text = definitions_and_filter(list(request.words), ())
    on_screen = sys.stdout.isatty() and os.environ.get("TERM") not in NO_SCREEN
    if on_screen and find_spec("rich") is None:
        say(MISSING)
        return USAGE_ERROR
    trace = Tracer(tracefs).trace(
        *definitions, filter=filter_text, pid=request.pid, tid=request.tid, follow=request.follow, raw=None
    )
    signals.end_by(trace.stop)
    with trace:
        for notice in trace.notices:
            note(f"WARNING: {notice}")
        play = Capabilities(tracefs).play
        if play is not None:
            play()
        if on_screen:
            from kprobe.views.keys import Keys
            from kprobe.views.screen import shown

            with Keys() as keys:
                ends = "q or Ctrl-C ends" if keys.are_seen else "Ctrl-C ends"
                title = ", ".join(probe.name for probe in trace.probes)
                last = shown(title, _samples(trace, request.duration, lambda: b"q" in keys.pressed().lower()), ends)
            note("")
        else:
            last = None
            for last in _samples(trace, request.duration, lambda: False):
                if last.seconds > TICK:  # the first sample is empty
                    output.write(text(last).encode("utf-8", "surrogateescape"), lambda: trace.is_stopped)
        if on_screen and last is not None:
            output.write(text(last).encode("utf-8", "surrogateescape"), lambda: trace.is_stopped)
        output.finish(lambda: trace.is_stopped)
        if missed := trace.missed():
            note(f"WARNING: the kernel missed {missed} hits")
    return OK if signals.received in (0, INTERRUPT) else 128 + signals.received


def _samples(trace: Trace, duration: float | None, is_left: Callable[[], bool]) -> Iterator[Sample]:
    """Yield a sample each second, until the trace is stopped or left, or its time is over."""
    records = Records(trace)
    began = due = time.monotonic()
    rates = Rates(began, (probe.name for probe in trace.probes))
    yield rates.sample(began)
    due += EVERY
    is_over = False
    while not is_over:
        if is_left() or (duration is not None and time.monotonic() >= began + duration):
            trace.stop()
        try:
            found = records.read(TICK)
            is_over = not found
            for record in found:
                rates.add(record)
        except TimeoutError:
            pass
        now = time.monotonic()
        if now >= due or is_over:
            yield rates.sample(now, is_last=is_over)
            due = now + EVERY
