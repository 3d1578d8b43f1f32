"""Trace a Linux kernel probe through tracefs: the machine's own, a simulated one, or that of a guest.

    from kprobe import Tracer, open_tracefs
    with Tracer(open_tracefs()).trace("p:myopen do_sys_openat2 filename=+0(%si):string") as trace:
        for event in trace: ...

Importing this package needs no rights and touches no file; a name is loaded when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe_text.figures.histogram import Histogram
    from kprobe_text.figures.latencies import Latencies, Latency
    from kprobe_text.text import Event, Lost, Parser, StackTrace, Unparsed

    from .definitions.definition import parse
    from .definitions.probe import Place, Probe
    from .errors import (
        AlreadyExists,
        AmbiguousSymbol,
        Busy,
        DefinitionError,
        FilterRefused,
        KprobeError,
        NoSuchField,
        NoSuchProcess,
        NotABoundary,
        NotPermitted,
        Refused,
        TracefsMissing,
        UndoFailed,
        UnknownBackend,
        UnknownSymbol,
        Unsupported,
        WaitedTooLong,
    )
    from .tracefs.backends import open_tracefs
    from .tracefs.mounts import find_tracefs
    from .tracefs.tracefs import Handle, LocalTracefs, Stream, Tracefs
    from .tracing.session import Trace
    from .tracing.tracer import Tracer

__all__ = [
    "AlreadyExists",
    "AmbiguousSymbol",
    "Busy",
    "DefinitionError",
    "Event",
    "FilterRefused",
    "Handle",
    "Histogram",
    "KprobeError",
    "Latencies",
    "Latency",
    "LocalTracefs",
    "Lost",
    "NoSuchField",
    "NoSuchProcess",
    "NotABoundary",
    "NotPermitted",
    "Parser",
    "Place",
    "Probe",
    "Refused",
    "StackTrace",
    "Stream",
    "Trace",
    "Tracefs",
    "TracefsMissing",
    "Tracer",
    "UndoFailed",
    "UnknownBackend",
    "UnknownSymbol",
    "Unparsed",
    "Unsupported",
    "WaitedTooLong",
    "find_tracefs",
    "open_tracefs",
    "parse",
]

_HOMES = {
    "kprobe.tracefs.backends": ("open_tracefs",),
    "kprobe.definitions.definition": ("parse",),
    "kprobe_text.figures.histogram": ("Histogram",),
    "kprobe_text.figures.latencies": ("Latencies", "Latency"),
    "kprobe.definitions.probe": ("Place", "Probe"),
    "kprobe.tracefs.mounts": ("find_tracefs",),
    "kprobe.tracing.session": ("Trace",),
    "kprobe_text.text": ("Event", "Lost", "Parser", "StackTrace", "Unparsed"),
    "kprobe.tracefs.tracefs": ("Handle", "LocalTracefs", "Stream", "Tracefs"),
    "kprobe.tracing.tracer": ("Tracer",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


if TYPE_CHECKING:
    __version__: str
else:  # from which type checkers would conclude that every name exists

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version  # slow to import

            try:
                value: object = version("kprobe-sim")
            except PackageNotFoundError:  # a checkout that isn't installed
                value = "0+unknown"
        elif name in __all__:
            from importlib import import_module

            value = getattr(import_module(_MODULE_OF.get(name, "kprobe.errors")), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
