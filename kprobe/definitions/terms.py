"""The options of a trace: declared once, for `Tracer.trace` and all readers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypedDict, Unpack

    class TraceOptions(TypedDict, total=False):
        """The keyword arguments of `Tracer.trace` and `Terms`; `Tracer.trace` says what each does."""

        filter: str | None
        pid: int | None
        tid: int | None
        stacktrace: bool
        duration: float | None  # seconds
        top_level: bool
        follow: bool
        raw: bool | None
        count: str
        max_probes: int | None
        max_events: int | None
        timeout: float | None  # seconds
        buffer_size: int | None  # KiB
        cpus: Iterable[int] | None


class Terms:
    """The options of one trace, as attributes.

    Raise `ValueError` if they exclude each other, for numbers below 1, and for times below 0, and `TypeError` for an
    option that doesn't exist.
    """

    def __init__(self, **options: Unpack[TraceOptions]) -> None:
        cpus = options.get("cpus")
        self.filter = options.get("filter") or ""
        self.pid = options.get("pid")
        self.tid = options.get("tid")
        self.stacktrace = options.get("stacktrace", False)
        self.duration = options.get("duration")
        self.top_level = options.get("top_level", False)
        self.follow = options.get("follow", False)
        self.raw = options.get("raw", False)
        self.count = options.get("count", "")
        self.max_probes = options.get("max_probes")
        self.max_events = options.get("max_events")
        self.timeout = options.get("timeout")
        self.buffer_size = options.get("buffer_size")
        self.cpus = None if cpus is None else tuple(cpus)
        for name in options.keys() - vars(self).keys():
            raise TypeError(f"a trace has no option {name!r}")
        self._check()

    def _check(self) -> None:
        if self.pid is not None and self.tid is not None:
            raise ValueError("pid or tid, not both")
        if self.duration is not None and self.timeout is not None:
            raise ValueError("duration or timeout, not both")
        numbers = {"max_probes": self.max_probes, "max_events": self.max_events, "buffer_size": self.buffer_size}
        for name, number in numbers.items():
            if number is not None and number < 1:
                raise ValueError(f"{name} is a number from 1 on, not {number}")
        for name, seconds in (("duration", self.duration), ("timeout", self.timeout)):
            if seconds is not None and not seconds >= 0:  # a NaN, too
                raise ValueError(f"{name} is a number of seconds, not {seconds}")
        if self.cpus == ():
            raise ValueError("cpus names no CPU")

    @property
    def picks(self) -> bool:
        """True if only some tasks or CPUs are recorded."""
        return self.pid is not None or self.tid is not None or self.cpus is not None

    @property
    def is_countable(self) -> bool:
        """True if a hist trigger sees exactly the requested events.

        It also sees those that set_event_pid and tracing_cpumask keep from the buffer, and can't end after a number of
        events.
        """
        return bool(self.count) and not self.picks and not self.top_level and self.max_events is None
