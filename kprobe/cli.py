"""The command `kprobe`."""

from __future__ import annotations

import sys

from .errors import (
    DefinitionError,
    KprobeError,
    NoSuchProcess,
    NotPermitted,
    TracefsMissing,
    UndoFailed,
    UnknownBackend,
)
from .options import HELP, USAGE, Request, UsageError, read_options
from .output import Output, say
from .signals import Signalled, Signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .definition import Probe
    from .session import Trace
    from .tracefs import Tracefs

OK = 0
REFUSED = 1
USAGE_ERROR = 2
NO_TRACEFS = 3
LEFT_BEHIND = 4
BROKEN_PIPE = 141  # 128 + SIGPIPE, as the shell reports any command whose reader went away
INTERRUPT = 2  # SIGINT; the way to end a trace, so no failure
SILENCE = 10.0  # seconds without an event after which the user is told what may be wrong
TICK = 0.5  # seconds between two looks at the reader of our output


def main(argv: list[str] | None = None, *, tracefs: Tracefs | None = None) -> int:
    """Run the command and return its exit status; `tracefs` is used in place of what --tracefs would open."""
    try:
        request = read_options(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        say(f"ERROR: {error}\n{USAGE}kprobe -h explains")
        return USAGE_ERROR
    if request.help:
        sys.stdout.write(HELP)
        return OK
    if request.version:
        sys.stdout.write(f"kprobe {_version()}\n")
        return OK
    with Signals() as signals:
        try:
            return _run(request, tracefs, signals)
        except BrokenPipeError:
            return 128 + signals.received if signals.received else BROKEN_PIPE
        except Signalled as signalled:
            return 128 + signalled.number
        except (KprobeError, OSError) as error:
            _report(error)
            return _status(error)


def _run(request: Request, tracefs: Tracefs | None, signals: Signals) -> int:
    from .definition import parse

    probe = parse(request.definition)  # before anything is opened: a guest takes a while to boot
    if tracefs is not None:
        return _use(request, probe, tracefs, signals)
    from .backends import chosen

    spec = chosen(request.tracefs)
    try:
        opened = _open(spec)
        try:
            return _use(request, probe, opened, signals)
        finally:
            close: Callable[[], None] = getattr(opened, "close", lambda: None)
            close()
    except (KprobeError, OSError, Signalled):
        raise
    except Exception as error:  # the backend's own: there is no tracefs, or it has died with its machine
        say(f"ERROR: {spec}: {error}")
        status: int = getattr(error, "exit_status", NO_TRACEFS)
        return status


def _open(spec: str) -> Tracefs:
    from .backends import open_tracefs

    if spec.partition(":")[0] == "local":
        return open_tracefs(spec)
    from .output import Progress

    with Progress(f"opening {spec}"):
        return open_tracefs(spec)


def _use(request: Request, probe: Probe, tracefs: Tracefs, signals: Signals) -> int:
    from .session import Tracer

    if not request.force:
        _warn(probe, tracefs)
    tracer = Tracer(tracefs)
    output = Output(sys.stdout.buffer)
    if request.view:
        output.write(tracer.format(probe), lambda: bool(signals.received))
        return OK
    trace = tracer.trace(
        probe,
        filter=request.filter,
        pid=request.pid,
        tid=request.tid,
        stacktrace=request.stacktrace,
        duration=request.duration,
        top_level=request.top_level,
        follow=request.follow,
    )
    try:
        signals.stop = trace.stop  # from here on nothing is cut short
        with trace:
            said = len(trace.notices)
            _trace(request, trace, output)
            say("\nEnding tracing...")
        for notice in trace.notices[said:]:
            say(f"WARNING: {notice}")
    except BrokenPipeError:
        if trace.undo_failures:
            raise UndoFailed(trace.undo_failures) from None
        raise
    if signals.received in (0, INTERRUPT):
        return OK
    return 128 + signals.received


def _trace(request: Request, trace: Trace, output: Output) -> None:
    for notice in trace.notices:
        say(f"WARNING: {notice}")
    name = trace.probe.name
    if request.duration is None:
        say(f"Tracing kprobe {name}. Ctrl-C to end.")
        if request.headers:
            output.write(trace.header(), lambda: trace.is_stopped)
        _play(trace)
        _stream(trace, output)
    else:
        say(f"Tracing kprobe {name} for {request.duration_text} seconds (buffered)...")
        _play(trace)
        trace.wait()
        from .session import split_header

        header, body = split_header(trace.read_buffer())
        output.write(header + body if request.headers else body, lambda: trace.is_stopped)
    missed = trace.missed()
    if missed:
        more = ": give it more instances (r100:...)" if trace.probe.is_return else ""
        say(f"WARNING: the kernel missed {missed} hits of {name}{more}")


def _stream(trace: Trace, output: Output) -> None:
    silent = 0.0
    while True:
        try:
            data = trace.read(TICK)
        except TimeoutError:
            if output.is_broken():
                raise BrokenPipeError from None
            if silent >= 0:
                silent += TICK
            if silent >= SILENCE:
                silent = -1.0
                say(
                    f"NOTE: nothing has fired in {SILENCE:.0f} seconds. The function may not run now, may have been "
                    "inlined where it is called, or the filter lets nothing through."
                )
            continue
        if not data:
            return
        silent = -1.0
        if not output.write(data, lambda: trace.is_stopped):
            return


def _play(trace: Trace) -> None:
    """Let a machine that does nothing by itself begin to do something."""
    play: Callable[[], None] | None = getattr(trace.tracefs, "play", None)
    if play is not None:
        play()


def _warn(probe: Probe, tracefs: Tracefs) -> None:
    from . import symbols

    doubt = symbols.doubt(probe.place, lambda: symbols.functions(tracefs))
    if doubt:
        say(f"WARNING: {doubt}. (-F: no warnings)")


def _report(error: BaseException) -> None:
    say(f"ERROR: {error}")
    for note in getattr(error, "__notes__", ()):
        say(f"ERROR: {note}")


def _status(error: BaseException) -> int:
    match error:
        case DefinitionError() | NoSuchProcess():
            return USAGE_ERROR
        case TracefsMissing() | NotPermitted() | UnknownBackend():
            return NO_TRACEFS
        case UndoFailed():
            return LEFT_BEHIND
    return REFUSED


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kprobe-sim")
    except PackageNotFoundError:
        return "(not installed)"
