"""The tracer, which makes traces: one tracefs, and this machine's processes and clock."""

from __future__ import annotations

import time

from kprobe.definitions.definition import parse
from kprobe.definitions.naming import distinct
from kprobe.definitions.probe import Probe
from kprobe.definitions.terms import Terms
from kprobe.events.event_format import event_format
from kprobe.options.trace_words import with_functions
from kprobe.undo.owners import this_process
from kprobe.undo.processes import PROC

from .session import Trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from kprobe.definitions.terms import TraceOptions
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.owners import Owner


class Tracer:
    """Traces with one tracefs.

    `proc` is where this machine's processes are listed, `owner` the process that our sessions are named after (this one
    by default), `clock` returns seconds and `sleep` waits for them.
    """

    def __init__(
        self,
        tracefs: Tracefs,
        *,
        proc: str = PROC,
        owner: Owner | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.tracefs = tracefs
        self.proc = proc
        self.owner = this_process(proc) if owner is None else owner
        self.clock = clock
        self.sleep = sleep

    def trace(self, *definitions: str | Probe, latency: bool = False, **options: Unpack[TraceOptions]) -> Trace:
        """Return a trace of these probes; it begins with `with`, or with iteration.

        - `filter`: The kernel's event filter, set on each event that has its fields.
        - `pid`, `tid`: Trace only this process (all its threads), or only this thread.
        - `follow`: Trace what the process forks, too.
        - `stacktrace`: Record the kernel stack after every event.
        - `duration`: Seconds to trace; until they are over, events stay in the kernel's buffer.
        - `top_level`: Work without a private instance.
        - `raw`: Read the kernel's raw pages in place of its text.  Iteration yields the same records, exact
          whatever their strings hold, and there is no text.  None means where the kernel offers it.
        - `count`: Have the kernel count by this field, `pid` or `cpu` and record nothing, where it can.
        - `latency`: Put probes at both ends of these functions (their names will do), for `Trace.latencies`, and read
          raw pages where possible: their times are in nanoseconds.
        - `max_probes`: How many functions a name with * ? [...] may stand for; by default 100.
        - `max_events`, `timeout`: End the trace after this many events, or seconds.
        - `buffer_size`: The size of each CPU's buffer in the kernel, in KiB.
        - `cpus`: The CPUs whose events are recorded.

        Raise `TypeError` for what can't be a definition, `DefinitionError`, also if a name is given twice, and
        `ValueError` for impossible numbers.  The kernel's refusals are raised when the trace begins.
        """
        if not definitions:
            raise ValueError("a definition is missing")
        if latency and options.get("raw") is not True:
            options["raw"] = None
        terms = Terms(**options)
        if latency:
            from .ends import both_ends

            named = (with_functions([one])[0] if isinstance(one, str) else one for one in definitions)
            definitions = both_ends(self.tracefs, [_parsed(one) for one in named])
        return Trace(self, distinct([_parsed(one) for one in definitions]), terms)

    def format(self, definition: str | Probe) -> bytes:
        """Return the `format` file that the probe's event would have; add the probe only to read it."""
        probe = definition if isinstance(definition, Probe) else parse(definition)
        return event_format(self.tracefs, self.owner, probe)


def _parsed(one: str | Probe) -> Probe:
    if isinstance(one, Probe):
        return one
    if not isinstance(one, str):
        raise TypeError(f"a definition is a str or a Probe, not {type(one).__name__}")
    return parse(one)
