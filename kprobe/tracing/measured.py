"""The results of a trace, for programs: latencies, histograms, counts, stacks.

Each method reads the trace to its end, which `stop`, a timeout, a duration or a number of events makes; one that hasn't
begun begins here, and ends.  What a figure leaves out is said in `notices`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Self

    from kprobe.definitions.probe import Probe
    from kprobe.definitions.terms import Terms
    from kprobe_text.figures.figure import Figure
    from kprobe_text.figures.histogram import Histogram
    from kprobe_text.figures.latencies import Latency
    from kprobe_text.text import Record


class Measured:
    """The methods of a trace that read it to its end and return figures of it."""

    _is_open: bool
    notices: list[str]
    probes: tuple[Probe, ...]
    terms: Terms

    def latencies(self) -> dict[str, Latency]:
        """Return the times from entry to return, in nanoseconds, of each function of which there are both ends.

        Its probes are at both ends with `Tracer.trace(..., latency=True)`, by which recursive calls are told apart.
        """
        from kprobe_text.figures.latencies import Latencies

        from .ends import functions, pointer

        with self._begun():
            figure = Latencies(functions(self.probes), pointer(self.probes))
            self._take(figure)
            return figure.rows

    def histograms(self, field: str) -> dict[str, Histogram]:
        """Return of each event how the numbers in a field are spread.

        With `count=field` in `Tracer.trace` the kernel has counted them, where it can.  Raise `ValueError` if it
        counted by something else.
        """
        from kprobe_text.figures.spreads import Spreads

        figure = Spreads(field)
        with self._begun():
            self._take(figure, by=field, count=figure.count)
        return figure.tables

    def counts(self, by: str) -> dict[str, dict[object, int]]:
        """Return of each event how often which value came: of a field, or of comm, pid, cpu or stacktrace.

        With `count=by` in `Tracer.trace` the kernel has counted them, where it can.  Raise `ValueError` if it counted
        by something else.
        """
        from kprobe_text.figures.frequencies import Frequencies

        figure = Frequencies(by)
        with self._begun():
            self._take(figure, by=by, count=figure.count)
        return figure.tables

    def stacks(self) -> dict[tuple[str, ...], int]:
        """Return how often each kernel stack came: the task's name, then its frames, outermost first.

        They are recorded with `stacktrace=True` in `Tracer.trace`.
        """
        from kprobe_text.figures.folded import Folded

        figure = Folded()
        with self._begun():
            self._take(figure)
        return figure.stacks

    def _begun(self) -> Measured | _Begun:
        return _Begun() if self._is_open else self

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

    if TYPE_CHECKING:  # the trace's own

        @property
        def is_counted(self) -> bool: ...
        def __enter__(self) -> Self: ...
        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
        ) -> None: ...
        def batches(self) -> Iterator[Iterable[Record]]: ...
        def counted(self) -> list[tuple[str, dict[int, int], int]]: ...
        def _wait_for_count(self) -> None: ...


class _Begun:
    """Stands for a trace that somebody else has begun, and ends."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
