"""The life of a trace: add the probe, filter, enable, read, and undo everything however it ends."""

from __future__ import annotations

from kprobe.definitions.probe import Probe
from kprobe.events.hist_triggers import count, count_hits
from kprobe.events.registration import missed
from kprobe.events.threads import TracedThreads
from kprobe.events.traced_events import TracedEvents
from kprobe.kernel import denial
from kprobe.kernel.dialect import has_groups
from kprobe.kernel.patterns import expand_all
from kprobe.undo.cleaning import clear
from kprobe.undo.instance import Instance, open_instance, pick
from kprobe.undo.undo import Undo

from .raw_pages import open_raw
from .ring_counts import ring_counts
from .settings import Settings
from .state import facts
from .tally import EventTally
from .trace_events import TraceEvents
from .trace_file import lines_of, read_shared, read_trace, split_header
from .waiting import Waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import nullcontext
    from types import TracebackType
    from typing import Protocol, Self, TypeVar

    from kprobe.definitions.probe import Probe
    from kprobe.definitions.terms import Terms
    from kprobe.events.hist_triggers import HistTriggers
    from kprobe.tracefs.tracefs import Stream, Tracefs
    from kprobe.tracing.live import RawPipe
    from kprobe.tracing.remainder import Remainder
    from kprobe.undo.owners import Owner
    from kprobe_text.figures.figure import Figure
    from kprobe_text.figures.histogram import Histogram
    from kprobe_text.figures.latencies import Latency
    from kprobe_text.text import Record

    from .unnamed import NamesByAddress
    from .worker import Worker

    T = TypeVar("T")

    class Maker(Protocol):
        """The part of a `Tracer` that its traces need."""

        tracefs: Tracefs
        proc: str
        owner: Owner
        clock: Callable[[], float]
        sleep: Callable[[float], None]


UNCOUNTED = ("f", "t", "e")  # kinds of probes without a row in kprobe_profile
TICK = 0.1  # seconds until a `stop` is noticed


class Trace:
    """One trace, from adding its probes to the last undo; `async with` and `async for` work, too.

    `probes` are what is traced, `instance` where; once it has begun, the probes' events are in the session's group,
    unless the user named another.  `notices` are our sentences for the user about what may surprise; `tally` counts the
    events read; `undo_failures`, after the end, are the steps that could not be undone.
    """

    instance: Instance
    _worker: Worker | None = None

    def __init__(self, tracer: Maker, probes: tuple[Probe, ...], terms: Terms) -> None:
        self.tracefs = tracer.tracefs
        self.probes = probes
        self.terms = terms
        self.notices: list[str] = []
        self._tracer = tracer
        self._threads = TracedThreads(tracer.tracefs, terms.pid, terms.tid, tracer.proc, tracer.clock)
        self._raw: RawPipe | None = None
        self._hists: HistTriggers | None = None
        self._hits: HistTriggers | None = None
        self._counted: tuple[Probe, ...] = ()
        self._undo = Undo()
        self._events: TracedEvents | None = None
        self._waiting = Waiting(tracer.clock, lambda: facts(self.tracefs, self.instance, self.probes, terms.filter))
        self.tally = EventTally((), terms.max_events)
        self._stream: Stream | None = None
        self._names: NamesByAddress | None = None
        self._last: Iterator[bytes] | None = None  # of the text, once the trace has ended
        self._is_drained = False  # whether all raw pages were read after the end
        self._began = 0.0
        self._is_open = False
        self._is_stopped = False
        self._has_ended = False

    @property
    def probe(self) -> Probe:
        """The first of the probes, or the only one."""
        return self.probes[0]

    def __enter__(self) -> Trace:
        if self._is_open:
            raise ValueError("this trace has begun already")
        self._is_open = True
        try:
            self._begin()
        except OSError as error:
            denied = denial.denied(self.tracefs, str(error.filename), error)
            self._end(denied)
            raise denied from error
        except BaseException as error:
            self._end(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)

    def __iter__(self) -> Iterator[Record]:
        """Yield every record as it comes; a trace that hasn't begun begins here and ends with the iteration."""
        if self._is_open:
            yield from self._records()
        else:
            with self:
                yield from self._records()

    async def __aenter__(self) -> Self:
        from .worker import Worker

        worker = Worker()
        try:
            await worker.do(self.__enter__)
        except BaseException as error:
            try:
                if worker.is_done:
                    await self._undone(worker, error)
            finally:
                worker.close()
            raise
        self._worker = worker
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            raise ValueError("this trace wasn't begun by async with")
        try:
            await self._undone(worker, error)
        finally:
            worker.close()

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Yield every record as it comes; a trace that hasn't begun begins here and ends with the iteration."""
        worker = self._worker
        if worker is None:
            async with self:
                async for record in self:
                    yield record
            return
        if worker.batches is None:
            worker.batches = self.batches()
        while worker.ready or await worker.fetch(self._waiting):
            yield worker.ready.popleft()

    async def _undone(self, worker: Worker, error: BaseException | None) -> None:
        cancelled = None
        if worker.pending is not None:  # nobody takes it any more
            self.stop()
            cancelled = await worker.settled(worker.pending)
        await worker.do(lambda: self.__exit__(type(error) if error else None, error, None))
        if cancelled is not None:
            raise cancelled

    def events(self) -> TraceEvents:
        """Return only the events, for `for` and `async for`: iteration without records of other types."""
        return TraceEvents(self)

    @property
    def undo_failures(self) -> tuple[tuple[str, BaseException], ...]:
        """What could not be undone: (step, error)."""
        return tuple(self._undo.failures)

    def read(self, timeout: float | None = None) -> bytes:
        """Return the kernel's text as it comes, unchanged; b"" at the end.

        Raise `TimeoutError` after `timeout` seconds with none.  After `stop`, return what the kernel still holds.
        """
        self._check()
        if self._stream is None:
            other = "iteration" if self.is_raw else "read_buffer()"
            raise ValueError(f"a trace that is raw or has a duration has no stream of text: use {other}")
        data = None if self.tally.is_full else self._await(self._stream.read, timeout)
        if data is not None:
            return self.tally.text(data, self.formats, live=True)
        data = b"" if self.tally.is_full else next(self._last_texts(self._stream), b"")
        return data and self.tally.text(data, self.formats, live=True)

    def read_records(self, timeout: float | None = None) -> list[Record]:
        """Return the next records of a raw trace; an empty list at its end, after a duration or `stop`.

        Raise `TimeoutError` after `timeout` seconds without any.
        """
        self._check()
        if self._raw is None:
            raise ValueError("a trace of text is read with read()")
        if self.terms.duration is not None:
            self.wait(timeout)
        elif not self.tally.is_full and (records := self._await(self._raw.read, timeout)) is not None:
            return self.tally.records(records)
        self._disable()
        if self.tally.is_full or self._is_drained:
            return []
        self._is_drained = True
        return self.tally.records(self._raw.drain())

    def _last_texts(self, stream: Stream) -> Iterator[bytes]:
        """Return the remaining text, once only: others' text may go on for ever."""
        self._disable()
        if self._last is None:
            self._last = self._held().texts(stream, self._tracer.sleep)
        return self._last

    def _held(self) -> Remainder:
        from kprobe.tracing.remainder import Remainder

        return Remainder(self.tracefs, self.instance.path("per_cpu"), self._tracer.clock)

    def _await(self, read: Callable[[float], T], timeout: float | None) -> T | None:
        """Return the result of `read` once there is one; None after `stop`.  Raise `TimeoutError`."""
        clock = self._tracer.clock
        now = clock()
        deadline = None if timeout is None else now + timeout
        while not self._is_over(now):
            self._threads.admit_new()
            late, found = None, None
            try:
                found = read(TICK if deadline is None else max(0.0, min(TICK, deadline - now)))
            except TimeoutError as error:
                late = error
            now = self._waiting.since(now)
            if late is None:
                return found
            if deadline is not None and now >= deadline:
                raise late
        return None

    def _is_over(self, now: float) -> bool:
        """True after `stop`, which a timeout calls."""
        if self.terms.timeout is not None and self._began and now >= self._began + self.terms.timeout:
            self.stop()
        return self._is_stopped

    def chunks(self) -> Iterator[bytes]:
        """Yield the kernel's text unchanged: as it comes or, with a duration, the whole buffer at its end."""
        if self.terms.duration is not None:
            self.wait()
            header, body = split_header(self.read_buffer())
            self.tally.header(header)
            yield header + self.tally.text(body, self.formats, live=False)
            return
        while data := self.read():
            yield data

    def lines(self) -> Iterator[bytes]:
        """Yield the kernel's lines unchanged, each with its newline."""
        return lines_of(self.chunks())

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the duration is over, or `stop`; then disable the events.

        Raise `TimeoutError` if that takes longer than `timeout` seconds.
        """
        if self.terms.duration is not None:
            clock = self._tracer.clock
            end = self._began + self.terms.duration
            latest = float("inf") if timeout is None else clock() + timeout
            while not self.is_stopped and (left := end - clock()) > 0:
                if clock() >= latest:
                    raise TimeoutError
                self._threads.admit_new()
                self._tracer.sleep(max(0.0, min(TICK, left, latest - clock())))
        self._disable()

    def read_buffer(self) -> bytes:
        """Return the `trace` file: the header, and every event in the buffer, where they stay."""
        self._check()
        path = self.instance.path("trace")
        if self.instance.is_own:
            return read_trace(self.tracefs, path)
        return read_shared(self.tracefs, path, self._held(), self._tracer.clock)

    def header(self) -> bytes:
        """Return the column headings."""
        return split_header(self.read_buffer())[0]

    def formats(self) -> dict[str, str]:
        """Return the text of each event's `format` file by the event's name."""
        paths = {probe.name: self.instance.path(f"events/{probe.event}/format") for probe in self.probes}
        return {name: self.tracefs.read(path).decode(errors="surrogateescape") for name, path in paths.items()}

    def problems(self) -> list[str]:
        """Return sentences on what isn't understood in a raw trace."""
        return [] if self._raw is None else self._raw.problems

    @property
    def is_raw(self) -> bool:
        """True if raw pages are read; known once it has begun."""
        return bool(self.terms.raw) or self._raw is not None

    @property
    def is_counted(self) -> bool:
        """True if the kernel counts, and records nothing; known once it has begun."""
        return self._hists is not None

    def counted(self) -> list[tuple[str, dict[int, int], int]]:
        """Return for each event its name, the count of each number, and how many events the kernel's table dropped."""
        is_over = self.is_stopped or self._tracer.clock() >= self._began + (self.terms.duration or float("inf"))
        return [] if self._hists is None else self._hists.counted(self.probes, is_over=is_over)

    def _wait_for_count(self) -> None:
        """Wait until the trace is over, while the kernel counts."""
        self.wait()
        while self.terms.duration is None and not self.is_stopped:
            began = self._tracer.clock()
            self._tracer.sleep(TICK)
            self._waiting.since(began)

    def count_hits(self) -> None:
        """Count from now on, for `hits`, the events that the kernel doesn't count by itself: f:, t: and e:."""
        if self._hits is None and not self.is_counted:
            self._counted = tuple(probe for probe in self.probes if probe.kind in UNCOUNTED)
            self._hits = count_hits(self.tracefs, self._undo, self.instance, self._counted)

    def hits(self) -> int | None:
        """Return how often those were hit since `count_hits`, filtered or not; None if unknown."""
        return self._hits.hits(self._counted) if self._hits is not None and self._counted else None

    def latencies(self) -> dict[str, Latency]:
        """Return the times from entry to return, in nanoseconds, of each function with both ends probed.

        `Tracer.trace(..., latency=True)` puts probes at both ends, and tells recursive calls apart.
        """
        from kprobe_text.figures.latencies import Latencies

        from .ends import functions, pointer

        with self._begun():
            figure = Latencies(functions(self.probes), pointer(self.probes))
            self._take(figure)
            return figure.rows

    def histograms(self, field: str) -> dict[str, Histogram]:
        """Return for each event a histogram of the numbers in a field.

        With `count=field` in `Tracer.trace` the kernel has counted them, where it can.  Raise `ValueError` if it
        counted by something else.
        """
        from kprobe_text.figures.spreads import Spreads

        figure = Spreads(field)
        with self._begun():
            self._take(figure, by=field, count=figure.count)
        return figure.tables

    def counts(self, by: str) -> dict[str, dict[object, int]]:
        """Return for each event the count of each value of a field, or of comm, pid, cpu or stacktrace.

        With `count=by` in `Tracer.trace` the kernel has counted them, where it can.  Raise `ValueError` if it counted
        by something else.
        """
        from kprobe_text.figures.frequencies import Frequencies

        figure = Frequencies(by)
        with self._begun():
            self._take(figure, by=by, count=figure.count)
        return figure.tables

    def stacks(self) -> dict[tuple[str, ...], int]:
        """Return the count of each kernel stack: the task's name, then its frames, outermost first.

        They are recorded with `stacktrace=True` in `Tracer.trace`.
        """
        from kprobe_text.figures.folded import Folded

        figure = Folded()
        with self._begun():
            self._take(figure)
        return figure.stacks

    def _begun(self) -> Trace | nullcontext[None]:
        from contextlib import nullcontext

        return nullcontext() if self._is_open else self

    def _take(self, figure: Figure, *, by: str = "", count: Callable[[str, object, int], None] | None = None) -> None:
        """Read the trace to its end into a figure."""
        if self.is_counted:
            if count is None or by != self.terms.count:
                raise ValueError(f"the kernel has counted by {self.terms.count}, and recorded nothing else")
            self._wait_for_count()
            for event, numbers, dropped in self.counted():
                for number, times in numbers.items():
                    count(event, number, times)
                if dropped:
                    self.notices.append(f"{dropped} events of {event} aren't counted: the kernel's table has no room")
        else:
            for batch in self.batches():
                for record in batch:
                    figure.add(record)
        figure.end()
        self.notices += figure.notes()

    def missed(self) -> int:
        """Return how many hits of p: and r: probes the kernel missed; then r: needs a higher maxactive."""
        return sum(missed(self.tracefs, probe) for probe in self.probes)

    def stop(self) -> None:
        """End the trace soon, from a signal handler or any thread: readers still get what the kernel holds."""
        self._is_stopped = True

    @property
    def is_stopped(self) -> bool:
        """True after `stop`, or its timeout."""
        return self._is_over(self._tracer.clock())

    def _begin(self) -> None:
        tracefs, terms, tids = self.tracefs, self.terms, self._threads.ids()
        self.notices += clear(tracefs, self._tracer.proc, self._tracer.owner)
        is_named = any(probe.has_own_group for probe in self.probes)
        self.probes, fitting, notices = expand_all(tracefs, self.probes, terms.max_probes)
        self.notices += notices
        self.instance = open_instance(
            tracefs, self._undo, self._tracer.owner, top_level=terms.top_level, is_named=is_named
        )
        if not has_groups(tracefs):
            from .unnamed import NamesByAddress

            self._names = NamesByAddress(self.probes)
        else:
            session = self.instance.session
            self.probes = tuple(probe if probe.has_own_group else probe.in_group(session) for probe in self.probes)
        picks = self.instance.picks_threads
        settings = Settings(tracefs, self._undo, self.instance, self._tracer.proc)
        settings.prepare(terms, follows=bool(tids) and picks)
        self.notices += self.instance.notices()
        if terms.pid is not None and not picks:
            self.notices.append("threads that the process starts from now on are not seen")
        self._events = TracedEvents(tracefs, self._undo, self.instance)
        # late: if we are killed before it is enabled, nothing tells whose an event in the user's group is
        self.notices += self._events.add(self.probes, {one.event for one in self.probes if one.place in fitting})
        self.probes = self._events.probes
        self.tally = EventTally([probe.name for probe in self.probes], terms.max_events)
        # after the events: before 5.16, an event added later fires for all threads
        self.notices += self._events.set_filter(terms.filter, pick(self.instance, tids))
        if picks:
            self._threads.watch(self.instance, tids)
        self._hists = count(tracefs, self._undo, self.instance, self.probes, terms)
        if self._hists is None:
            self._listen()
        self._events.verify()  # a probe added in between would get our hits, and we its hits
        self._began = self._tracer.clock()

    def _listen(self) -> None:
        """Open the source of the events, and enable them."""
        terms = self.terms
        if terms.raw is not False:
            self._open_raw()
        if self._raw is None and terms.duration is None:
            path = self.instance.path("trace_pipe")
            self._undo.push(f"close {path}", lambda: self._close(self._stream), is_left=lambda: True, frees=True)
            self._stream = self.tracefs.stream(path)
            self.tally.ring = ring_counts(self.tracefs, self.instance, self.probes, terms)
        assert self._events is not None
        self._events.enable()

    def _open_raw(self) -> None:
        events = tuple(probe.event for probe in self.probes)
        self._undo.push("close trace_pipe_raw", lambda: self._close(self._raw), is_left=lambda: True, frees=True)
        self._raw = open_raw(self.tracefs, self.instance.prefix, events, insists=bool(self.terms.raw))

    @staticmethod
    def _close(opened: Stream | RawPipe | None) -> None:
        if opened is not None:
            opened.close()

    def _disable(self) -> None:
        if self._events is not None:
            self._events.disable()

    def named(self, records: list[Record]) -> list[Record]:
        """Return records of this trace with their events' names, where the kernel's text has none."""
        if self._names is None:
            return records
        return self._names.named(records)

    def _records(self) -> Iterator[Record]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[Record]]:
        """Yield the records in batches: what each read returns."""
        self._check()
        if self.is_raw:
            while records := self.read_records():
                yield records
            return
        from kprobe_text.text import Parser

        parser = Parser(self.formats().get, live=self.terms.duration is None)
        for data in self.chunks():
            began = self._tracer.clock()
            records = parser.feed(data)
            self._waiting.since(began)
            yield self.named(records)
        yield self.named(parser.close())

    def _check(self) -> None:
        """Raise `ValueError` if there is nothing to read any more."""
        if self._has_ended:
            raise ValueError("this trace has ended: read it before its `with` does")

    def _end(self, error: BaseException | None) -> None:
        self._has_ended = True
        try:
            self.tally.settle()
        finally:
            self._undo_all(error)

    def _undo_all(self, error: BaseException | None) -> None:
        try:
            self._undo.finish(error)
        finally:
            self.notices += [*self._undo.notices, *(self._events.notices() if self._events is not None else ())]
