"""The command `kprobe`."""

from __future__ import annotations

import gc
import os
import sys

from kprobe_text.terminal.signals import Signalled, Signals  # other modules are imported once signals are handled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe_text.terminal.output import Output

    from .errors import KprobeError
    from .options.command_line import CommandLine
    from .tracefs.tracefs import Tracefs

OK = 0
REFUSED = 1
USAGE_ERROR = 2
NO_TRACEFS = 3
LEFT_BEHIND = 4
BROKEN_PIPE = 141  # 128 + SIGPIPE, as the shell reports any command whose reader went away


def main(argv: list[str] | None = None, *, tracefs: Tracefs | None = None) -> int:
    """Run the command and return its exit status; `tracefs` is used in place of what --tracefs would open.

    Without `argv` it runs the command line of this process, which then ends.
    """
    with Signals(is_last=argv is None) as signals:
        try:
            return _command(sys.argv[1:] if argv is None else argv, tracefs, signals)
        except BrokenPipeError:
            return 128 + signals.received if signals.received else BROKEN_PIPE
        except Signalled as signalled:
            return 128 + signalled.number


def _command(argv: list[str], tracefs: Tracefs | None, signals: Signals) -> int:
    from kprobe_text.terminal.output import fill_standard_files, say

    from .errors import KprobeError
    from .options.command_line import UsageError, read_options
    from .options.table import verb_of
    from .options.usage import help_of, help_text

    if not fill_standard_files():
        say("ERROR: standard output is closed: there is nowhere to print to")
        return USAGE_ERROR
    if "_ARGCOMPLETE" in os.environ:
        return _complete()
    verb = verb_of(argv[0]) if argv else None
    if verb is not None and verb.reads:
        if "--version" not in argv[: argv.index("--") if "--" in argv else None]:
            return _do(verb.module, argv[1:], signals)
        argv = ["--version"]
    try:
        request = read_options(argv)
    except UsageError as error:
        say(f"ERROR: {error}\nkprobe {error.verb}{' ' if error.verb else ''}--help explains")
        return USAGE_ERROR
    try:
        if request.help or request.version:
            text = (help_of(asked) if (asked := verb_of(request.verb)) else help_text()) if request.help else _version()
            with _output() as output:
                output.write(text.encode(), lambda: bool(signals.received))
            return OK
        return _run_into(request, tracefs, signals)
    except BrokenPipeError:
        raise
    except (KprobeError, OSError) as error:
        _report(error)
        return _status(error)


def _do(module: str, words: list[str], signals: Signals) -> int:
    """Run a verb that parses its words itself."""
    from importlib import import_module

    try:
        with _output() as output:
            status: int = import_module(module).main(words, output, signals)
    except BrokenPipeError:
        raise
    except OSError as error:  # an error of standard output: a verb reports errors of its files itself
        _report(error)
        return REFUSED
    return status


def _complete() -> int:
    """Answer a shell's request for completions."""
    try:
        from .completion.answer import answer
    except ImportError:  # without argcomplete there are no completions, and no user reads stderr
        return REFUSED
    answer()
    return OK


def _version() -> str:
    from . import __version__

    return f"kprobe {__version__}\n"


def _output() -> Output:
    from kprobe_text.terminal.output import Output

    return Output(sys.stdout.buffer, sys.stdout.encoding)


def _run_into(request: CommandLine, tracefs: Tracefs | None, signals: Signals) -> int:
    """Run it with its output: a file is opened before anything else."""
    from kprobe_text.terminal.output import FileOutput

    from .errors import KprobeError

    try:
        opened = FileOutput(request.into) if request.into else _output()
    except OSError as error:
        _report(error)
        return USAGE_ERROR
    with opened as output:
        try:
            return _run(request, output, tracefs, signals)
        except BrokenPipeError:
            raise
        except (KprobeError, OSError) as error:
            _tell(error, request, output, signals)
            raise


def _run(request: CommandLine, output: Output, tracefs: Tracefs | None, signals: Signals) -> int:
    from .errors import KprobeError

    act = _act(request, output, signals)  # before anything is opened: a guest takes a while to boot
    if tracefs is not None:
        return act(tracefs)
    from .tracefs.backends import chosen

    spec = chosen(request.tracefs)
    try:
        try:
            opened = _open(spec, is_last=signals.is_last)
        except OSError as error:  # an error of a file that the spec names
            raise RuntimeError(_words(error)) from error
        except KprobeError as error:
            status = _unopened(request, signals, error)
            if status is None:
                raise
            return status
        try:
            return act(opened)
        finally:
            from .tracefs.capabilities import Capabilities

            Capabilities(opened).close()
    except (KprobeError, OSError, Signalled):
        raise
    except Exception as error:  # an error of the backend: there is no tracefs, or it died with its machine
        from kprobe_text.terminal.output import say

        said = str(error)
        say(f"ERROR: {said}" if said.startswith(f"{spec}: ") else f"ERROR: {spec}: {said}")
        _tell(error, request, output, signals)
        return int(getattr(error, "exit_status", NO_TRACEFS))


def _unopened(request: CommandLine, signals: Signals, error: KprobeError) -> int | None:
    """Return a verb's exit status for a tracefs that can't be opened; None if that is an error for it."""
    from .options.table import verb_of

    verb = verb_of(request.verb) if request.verb else None
    if verb is None:
        return None
    from importlib import import_module

    without = getattr(import_module(verb.module), "without", None)
    if without is None:
        return None
    with _output() as output:
        status: int | None = without(error, output, signals, request)
    return status


def _act(request: CommandLine, output: Output, signals: Signals) -> Callable[[Tracefs], int]:
    """Return the action to run on the tracefs."""
    from .options.table import verb_of

    verb = verb_of(request.verb) if request.verb else None
    if verb is not None:
        from importlib import import_module

        module = import_module(verb.module)
        return lambda tracefs: int(module.run(tracefs, output, signals, request))
    from .definitions.definition import parse
    from .definitions.naming import distinct
    from .running import trace

    probes = distinct([parse(definition) for definition in request.definitions])
    return lambda tracefs: trace(tracefs, output, signals, request, probes)


def _open(spec: str, *, is_last: bool) -> Tracefs:
    from .tracefs.backends import open_tracefs

    if spec.partition(":")[0] == "local":
        return open_tracefs(spec)
    from kprobe_text.terminal.output import Progress

    with Progress(f"opening {spec}"):
        if not is_last:
            return open_tracefs(spec)
        gc.disable()  # modules loaded now stay to the end: the collector need not visit them
        try:
            return open_tracefs(spec)
        finally:
            gc.freeze()
            gc.enable()


def _report(error: BaseException) -> None:
    from kprobe_text.terminal.output import say

    say(f"ERROR: {_words(error) if isinstance(error, OSError) else error}")
    for note in getattr(error, "__notes__", ()):
        say(f"ERROR: {note}")
    from .errors import NotPermitted, TracefsMissing

    if isinstance(error, NotPermitted | TracefsMissing):
        say("kprobe doctor looks for the reason")


def _tell(error: BaseException, request: CommandLine, output: Output, signals: Signals) -> None:
    """Add the reason for a trace's end to its JSON: after its other lines, or on stdout if there are none yet."""
    if not request.json or request.verb:
        return
    from contextlib import suppress

    from .views.lines import error_line

    with suppress(OSError), output if output.is_begun else _output() as into:  # the disk may be full
        into.write(error_line(error), lambda: bool(signals.received))


def _words(error: OSError) -> str:
    """Return an error's text and path, without the errno."""
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)


def _status(error: BaseException) -> int:
    from .errors import (
        DefinitionError,
        NoSuchField,
        NoSuchProcess,
        NotPermitted,
        TracefsMissing,
        UndoFailed,
        UnknownBackend,
    )

    match error:
        case DefinitionError() | NoSuchField() | NoSuchProcess():
            return USAGE_ERROR
        case TracefsMissing() | NotPermitted() | UnknownBackend():
            return NO_TRACEFS
        case UndoFailed():
            return LEFT_BEHIND
    return REFUSED
