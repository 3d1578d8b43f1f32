"""The command `kprobe`."""

from __future__ import annotations

import gc
import sys

from .signals import Signalled, Signals  # the rest is imported once signals are handled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .definition import Probe
    from .options import CommandLine
    from .output import Output
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
    """Run the command and return its exit status; `tracefs` is used in place of what --tracefs would open.

    Without `argv` it is the command line of this process, which has nothing to do afterwards.
    """
    with Signals(is_last=argv is None) as signals:
        try:
            return _command(sys.argv[1:] if argv is None else argv, tracefs, signals)
        except BrokenPipeError:
            return 128 + signals.received if signals.received else BROKEN_PIPE
        except Signalled as signalled:
            return 128 + signalled.number


def _command(argv: list[str], tracefs: Tracefs | None, signals: Signals) -> int:
    from .errors import KprobeError
    from .options import HELP, USAGE, VERBS, UsageError, read_options
    from .output import fill_standard_files, say

    if not fill_standard_files():
        say("ERROR: standard output is closed: there is nowhere to print to")
        return USAGE_ERROR
    if argv and VERBS.get(argv[0]):
        from importlib import import_module

        status: int = import_module(f".{VERBS[argv[0]]}", __package__).main(argv[1:], _output(), signals)
        return status
    try:
        request = read_options(argv)
    except UsageError as error:
        say(f"ERROR: {error}\n{USAGE}kprobe -h explains")
        return USAGE_ERROR
    try:
        if request.help or request.version:
            text = HELP if request.help else _version()
            _output().write(text.encode(), lambda: bool(signals.received))
            return OK
        return _run(request, tracefs, signals)
    except BrokenPipeError:
        raise
    except (KprobeError, OSError) as error:
        _report(error)
        return _status(error)


def _version() -> str:
    from .version import version

    return f"kprobe {version()}\n"


def _output() -> Output:
    from .output import Output

    return Output(sys.stdout.buffer, sys.stdout.encoding)


def _run(request: CommandLine, tracefs: Tracefs | None, signals: Signals) -> int:
    from .errors import KprobeError

    act = _act(request, signals)  # before anything is opened: a guest takes a while to boot
    if tracefs is not None:
        return act(tracefs)
    from .backends import chosen

    spec = chosen(request.tracefs)
    try:
        try:
            opened = _open(spec, is_last=signals.is_last)
        except OSError as error:  # of a file that the spec names
            raise RuntimeError(_words(error)) from error
        try:
            return act(opened)
        finally:
            close: Callable[[], None] = getattr(opened, "close", lambda: None)
            close()
    except (KprobeError, OSError, Signalled):
        raise
    except Exception as error:  # the backend's own: there is no tracefs, or it has died with its machine
        from .output import say

        say(f"ERROR: {spec}: {error}")
        status: int = getattr(error, "exit_status", NO_TRACEFS)
        return status


def _act(request: CommandLine, signals: Signals) -> Callable[[Tracefs], int]:
    """Return what is to be done with the tracefs."""
    if request.verb:
        from importlib import import_module

        from .options import ACTS

        module = import_module(f".{ACTS[request.verb][0]}", __package__)
        return lambda tracefs: int(module.run(tracefs, _output(), signals, request))
    from .definition import parse

    probe = parse(request.definition)
    return lambda tracefs: _use(request, probe, tracefs, signals)


def _open(spec: str, *, is_last: bool) -> Tracefs:
    from .backends import open_tracefs

    if spec.partition(":")[0] == "local":
        return open_tracefs(spec)
    from .output import Progress

    with Progress(f"opening {spec}"):
        if not is_last:
            return open_tracefs(spec)
        gc.disable()  # what is loaded now stays to the end: the collector need never look at it
        try:
            return open_tracefs(spec)
        finally:
            gc.freeze()
            gc.enable()


def _use(request: CommandLine, probe: Probe, tracefs: Tracefs, signals: Signals) -> int:
    from .errors import UndoFailed
    from .output import say
    from .session import Tracer

    if not request.force:
        _warn(probe, tracefs)
    tracer = Tracer(tracefs)
    output = _output()
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
        raw=request.raw,
    )
    try:
        signals.end_by(trace.stop)  # from here on nothing is cut short
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


def _trace(request: CommandLine, trace: Trace, output: Output) -> None:
    from .output import say

    if request.raw:
        from .parsing.raw import Records

    for notice in trace.notices:
        say(f"WARNING: {notice}")
    name = trace.probe.name
    if request.raw:
        how = "" if request.duration is None else f" for {request.duration_text} seconds (buffered)"
        say(f"Tracing kprobe {name}{how}, raw pages.{' Ctrl-C to end.' if not how else ''}")
        _play(trace)
        _stream(trace, output, Records(trace).read)
    elif request.duration is None:
        say(f"Tracing kprobe {name}. Ctrl-C to end.")
        if request.headers:
            output.write(trace.header(), lambda: trace.is_stopped)
        _play(trace)
        _stream(trace, output, trace.read)
    else:
        say(f"Tracing kprobe {name} for {request.duration_text} seconds (buffered)...")
        _play(trace)
        trace.wait()
        from .session import split_header

        header, body = split_header(trace.read_buffer())
        output.write(header + body if request.headers else body, lambda: trace.is_stopped)
    output.finish(lambda: trace.is_stopped)
    missed = trace.missed()
    if missed:
        more = ": give it more instances (r100:...)" if trace.probe.is_return else ""
        say(f"WARNING: the kernel missed {missed} hits of {name}{more}")


def _stream(trace: Trace, output: Output, read: Callable[[float], bytes]) -> None:
    from .output import say

    silent = 0.0
    while True:
        try:
            data = read(TICK)
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
    from .output import say

    doubt = symbols.doubt(probe.place, lambda: symbols.functions(tracefs), getattr(tracefs, "has_function", None))
    if doubt:
        say(f"WARNING: {doubt}. (-F: no warnings)")


def _report(error: BaseException) -> None:
    from .output import say

    say(f"ERROR: {_words(error) if isinstance(error, OSError) else error}")
    for note in getattr(error, "__notes__", ()):
        say(f"ERROR: {note}")


def _words(error: OSError) -> str:
    """Return what happened to what, without the number."""
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)


def _status(error: BaseException) -> int:
    from .errors import DefinitionError, NoSuchProcess, NotPermitted, TracefsMissing, UndoFailed, UnknownBackend

    match error:
        case DefinitionError() | NoSuchProcess():
            return USAGE_ERROR
        case TracefsMissing() | NotPermitted() | UnknownBackend():
            return NO_TRACEFS
        case UndoFailed():
            return LEFT_BEHIND
    return REFUSED
