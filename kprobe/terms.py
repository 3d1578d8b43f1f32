"""What a trace was asked for, beside its probes."""

from __future__ import annotations


class Terms:
    """The options of `Tracer.trace`, under the same names.  Raise `ValueError` if they exclude each other."""

    __slots__ = (
        "count", "duration", "filter", "follow", "max_probes", "pid", "raw", "stacktrace", "tid", "top_level",
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
    ) -> None:
        if pid is not None and tid is not None:
            raise ValueError("pid or tid, not both")
        self.filter = filter or ""
        self.pid = pid
        self.tid = tid
        self.stacktrace = stacktrace
        self.duration = duration
        self.top_level = top_level
        self.follow = follow
        self.raw = raw
        self.max_probes = max_probes
        self.count = count

    @property
    def is_countable(self) -> bool:
        """True if a hist trigger sees the events that are asked for: it knows nothing of set_event_pid."""
        return bool(self.count) and self.pid is None and self.tid is None and not self.top_level
