"""The records of a trace as they arrive: from raw pages where there are any, else from the kernel's text."""

from __future__ import annotations

from kprobe.tracing.session import Trace
from kprobe_text.figures.shape import Counts
from kprobe_text.terminal.output import note
from kprobe_text.text import Event, Header, Parser, Record, StackTrace


class Records:
    """Reads the records of a trace, and counts them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._parser = None if trace.is_raw else Parser(trace.formats().get, live=trace.terms.duration is None)
        self._is_over = False
        self._reported = 0
        self.counts = Counts()
        self.events = self.stacks = 0

    @property
    def source(self) -> str:
        """The source of the records: raw or text."""
        return "text" if self._parser is not None else "raw"

    def read(self, timeout: float) -> list[Record]:
        """Return the next records; an empty list at the end.  Raise `TimeoutError` after a time without any."""
        while not self._is_over:
            records = self._trace.named(self._next(timeout))
            shown: list[Record] = [record for record in records if not isinstance(record, Header)]
            for record in shown:
                self.counts.add(record)
                self.events += isinstance(record, Event)
                self.stacks += isinstance(record, StackTrace)
            if shown:
                return shown
        return []

    def _next(self, timeout: float) -> list[Record]:
        if self._parser is None:
            shown = self._trace.read_records(timeout)
            self._is_over = not shown
            problems = self._trace.problems()
            for words in problems[self._reported :]:
                note(f"WARNING: {words}")
            self._reported = len(problems)
            return shown
        if self._trace.terms.duration is not None:
            self._trace.wait(timeout)
            data, self._is_over = b"".join(self._trace.chunks()), True
            return [*self._parser.feed(data), *self._parser.close()]
        data = self._trace.read(timeout)
        self._is_over = not data
        return self._parser.feed(data) if data else self._parser.close()
