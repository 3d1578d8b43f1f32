"""The tracer, which makes traces: one tracefs, and what they look at on this machine."""

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
    from collections.abc import Callable, Iterable

    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.undo.owners import Owner


class Tracer:
    """Traces with one tracefs.

    `proc` is where this machine's processes are listed, `owner` whose name our sessions carry (by default, this
    process's), `clock` gives seconds and `sleep` waits for them.
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

    def trace(
        self,
        *definitions: str | Probe,
        filter: str | None = None,
        pid: int | None = None,
        tid: int | None = None,
        stacktrace: bool = False,
        duration: float | None = None,
        top_level: bool = False,
        follow: bool = False,
        raw: bool | None = False,
        count: str = "",
        latency: bool = False,
        max_probes: int | None = None,
        max_events: int | None = None,
        timeout: float | None = None,
        buffer_size: int | None = None,
        cpus: Iterable[int] | None = None,
    ) -> Trace:
        """Return the trace of these probes; it begins with `with`, or with iteration.

        `filter` is the kernel's event filter, of each event that has its fields; `pid` and `tid` pick a process (all
        its threads) or a thread, together with the filter.  `follow` takes in what the process forks, too.
        `stacktrace` has the kernel stack recorded after every event.  With a `duration` (seconds) events stay in the
        kernel's buffer until it is over.  `top_level` works without an instance of its own.  `raw` reads the kernel's
        raw pages in place of its text: the same records by iteration, exact whatever their strings hold, and no text;
        None: where it can.  `count` has the kernel count by that field, `pid` or `cpu` and record nothing, if it can.

        `latency` puts probes at both ends of these functions (their names will do), for `Trace.latencies`, and reads
        raw pages where it can, whose times are nanoseconds.

        The trace ends by itself after `max_events`, or `timeout` seconds.  `buffer_size` is that of the kernel's buffer
        of each CPU, in KiB; `cpus` are those whose events are recorded.

        A function's name with * ? [...] stands for all that fit, at most `max_probes` (default 100).

        Raise `TypeError` for what can't be a definition, `DefinitionError`, also if a name is given twice, and
        `ValueError` for numbers that can't be meant; what the kernel refuses is raised when it begins.
        """
        if not definitions:
            raise ValueError("a definition is missing")
        terms = Terms(
            filter=filter,
            pid=pid,
            tid=tid,
            stacktrace=stacktrace,
            duration=duration,
            top_level=top_level,
            follow=follow,
            raw=None if latency and raw is False else raw,
            max_probes=max_probes,
            count=count,
            max_events=max_events,
            timeout=timeout,
            buffer_size=buffer_size,
            cpus=cpus,
        )
        if latency:
            from .ends import both_ends

            named = (with_functions([one])[0] if isinstance(one, str) else one for one in definitions)
            definitions = both_ends(self.tracefs, [_parsed(one) for one in named])
        return Trace(self, distinct([_parsed(one) for one in definitions]), terms)

    def format(self, definition: str | Probe) -> bytes:
        """Return the `format` file that the probe's event would have; add the probe for that long only."""
        probe = definition if isinstance(definition, Probe) else parse(definition)
        return event_format(self.tracefs, self.owner, probe)


def _parsed(one: str | Probe) -> Probe:
    if isinstance(one, Probe):
        return one
    if not isinstance(one, str):
        raise TypeError(f"a definition is a str or a Probe, not {type(one).__name__}")
    return parse(one)
