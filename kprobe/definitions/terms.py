"""The settings that a trace was asked for, besides its probes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Terms:
    """The options of `Tracer.trace`, under the same names.

    Raise `ValueError` if they exclude each other, for numbers below 1, and for times that are below 0 or no numbers.
    """

    __slots__ = (
        "buffer_size", "count", "cpus", "duration", "filter", "follow", "max_events", "max_probes", "pid", "raw",
        "stacktrace", "tid", "timeout", "top_level",
    )  # fmt: skip

    def __init__(
        self,
        *,
        filter: str | None = None,
        pid: int | None = None,
        tid: int | None = None,
        stacktrace: bool = False,
        duration: float | None = None,
        top_level: bool = False,
        follow: bool = False,
        raw: bool | None = False,
        count: str = "",
        max_probes: int | None = None,
        max_events: int | None = None,
        timeout: float | None = None,
        buffer_size: int | None = None,
        cpus: Iterable[int] | None = None,
    ) -> None:
        if pid is not None and tid is not None:
            raise ValueError("pid or tid, not both")
        if duration is not None and timeout is not None:
            raise ValueError("duration or timeout, not both")
        numbers = {"max_probes": max_probes, "max_events": max_events, "buffer_size": buffer_size}
        for name, number in numbers.items():
            if number is not None and number < 1:
                raise ValueError(f"{name} is a number from 1 on, not {number}")
        for name, seconds in (("duration", duration), ("timeout", timeout)):
            if seconds is not None and not seconds >= 0:
                raise ValueError(f"{name} is a number of seconds, not {seconds}")
        self.cpus = None if cpus is None else tuple(cpus)
        if self.cpus == ():
            raise ValueError("cpus names no CPU")
        self.filter = filter or ""
        self.pid = pid
        self.tid = tid
        self.stacktrace = stacktrace
        self.duration = duration
        self.top_level = top_level
        self.follow = follow
        self.raw = raw
        self.max_probes = max_probes
        self.max_events = max_events
        self.timeout = timeout
        self.buffer_size = buffer_size
        self.count = count

    @property
    def picks(self) -> bool:
        """True if only some tasks or CPUs are recorded."""
        return self.pid is not None or self.tid is not None or self.cpus is not None

    @property
    def is_countable(self) -> bool:
        """True if a hist trigger sees the events that are asked for.

        It also sees those that set_event_pid and tracing_cpumask keep from the buffer, and knows no number to end at.
        """
        return bool(self.count) and not self.picks and not self.top_level and self.max_events is None
