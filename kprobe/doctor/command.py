"""`kprobe doctor`: says why tracing isn't possible, or why a trace is silent."""

from __future__ import annotations

from kprobe.doctor import report
from kprobe.doctor.examination import UNTRIED, Examination, examine, unopened
from kprobe.doctor.functions import check_words
from kprobe.errors import NotPermitted, TracefsMissing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe.options.command_line import CommandLine
    from kprobe.tracefs.tracefs import Tracefs
    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

OK, STOPPED = 0, 1


def run(tracefs: Tracefs, output: Output, signals: Signals, request: CommandLine) -> int:
    """Print findings on a tracefs and on what the words name; 1 if something stops tracing, else 0."""
    examination = examine(tracefs, request.words)
    if request.try_for is not None:
        from kprobe.doctor.trying import try_probe

        tried = [
            finding
            for probe in examination.probes
            if not signals.received
            for finding in try_probe(tracefs, probe, request.try_for, lambda trace: signals.end_by(trace.stop))
        ]
        unknown = [each for each in examination.unknown if not each.startswith(UNTRIED.partition("{")[0])]
        examination = Examination([*examination.findings, *tried], unknown, examination.probes)
    return _print(examination, output, signals, request)


def without(error: Exception, output: Output, signals: Signals, request: CommandLine) -> int | None:
    """Print why this machine's tracefs can't be opened; return None for an error about anything else."""
    if not isinstance(error, NotPermitted | TracefsMissing):
        return None
    check_words(request.words)
    return _print(unopened(error), output, signals, request)


def _print(examination: Examination, output: Output, signals: Signals, request: CommandLine) -> int:
    text = report.json_lines(examination) if request.json else report.text(examination)
    output.tell(text, lambda: bool(signals.received))
    output.finish(lambda: bool(signals.received))
    return STOPPED if examination.stops else OK
