"""`kprobe check`: asks every kernel that can be opened about probe definitions, filters and triggers."""

from __future__ import annotations

import sys

from kprobe.definitions.foreign import meant
from kprobe.errors import KprobeError
from kprobe.tracefs.kernels import ALL, UnknownKernel, chosen
from kprobe_check.asking.checking import DIFFERS, REFUSED, UNASKED, NoKernel, Report, check
from kprobe_check.output import formats
from kprobe_check.output.sarif import as_sarif
from kprobe_check.sources.lists import begins_statement, statement
from kprobe_check.sources.reading import FORMS, LONGEST, BadSource, statements
from kprobe_check.statement import Position, Statement, linked
from kprobe_text.terminal.output import say
from kprobe_text.terminal.verb import UsageError
from kprobe_text.terminal.verb_words import HELP_WORDS, usage_error, verb_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

SOUND, FAILED, NOT_CHECKED = 0, 1, 2  # exit status

HELP = """\
USAGE: kprobe check [--kernels LIST] [--format FORMAT] [--as FORM] [--fail-on LIST] [--no-suggestions]
                    FILE|-|DEFINITION ...

Ask every kernel that can be simulated what it makes of probe definitions, filters and triggers.

  FILE              a list (a line is a definition, "filter: TEXT", "trigger: TEXT" or a trigger, for the definition
                    before it; or with an event in front: "sched/sched_switch filter: next_pid == 1"), a shell script
                    (*.sh, or by its #!) or Python (*.py); with kprobe-sim[check] Go, C, C++, Rust, Perl and the code in
                    Markdown: what they write to files of a tracefs, how they open these, kprobe commands, and strings
                    that are whole definitions.  "# kprobe: ignore" on its line, or alone on the line before it, leaves
                    a statement out
  -                 the same from standard input
  DEFINITION        a line of a list
  --kernels LIST    separated by commas: series (6.1), with a flavour (6.12-rt-amd64), releases, all (the default), or
                    any spec (vm:6.1, sim:./my.kprofile, local)
  --format FORMAT   text (the default), markdown (a table), json, sarif (2.1.0), junit,
                    github (annotations)
  --as FORM         read FILEs and - as list, shell, python, go, c (and C++), rust, perl or markdown, whatever their
                    names
  --fail-on LIST    exit with 1 also if something has another meaning on a kernel (means), or couldn't be asked
                    (not-asked)
  --no-suggestions  don't look for forms that all kernels accept
  -h, --help        this text

  kprobe check 'p:myopen do_sys_open file=+0(%si):string' 'filter: file ~ "*stat"'
  kprobe check --kernels 5.10,6.1 --format github scripts/*.sh

Exit status: 0 no kernel refuses anything; 1 a kernel refuses something, or what --fail-on names was found; 2 a wrong
command line, a file that can't be read or has no form that is read, no such kernel.
"""
FORMATS = ("text", "markdown", "json", "sarif", "github", "junit")
FAILURES = {"refused": REFUSED, "means": DIFFERS, "not-asked": UNASKED}


class _Request:
    """A request from the command line."""

    def __init__(self) -> None:
        self.kernels = ALL
        self.format = "text"
        self.as_form = ""
        self.fail_on = {REFUSED}
        self.suggest = True
        self.help = False
        self.words: list[str] = []


def main(argv: list[str], output: Output, signals: Signals) -> int:
    """Run the verb with the words that follow it, and return the exit status."""
    try:
        request = _read(argv)
        if request.help:
            output.write(HELP.encode(), lambda: bool(signals.received))
            return SOUND
        kernels = chosen(request.kernels)
        report = check(_statements(request), kernels, suggest=request.suggest)
    except UsageError as error:
        say(usage_error(error, HELP))
        return NOT_CHECKED
    except (BadSource, UnknownKernel, NoKernel, KprobeError) as error:
        say(f"ERROR: {error}")
        return NOT_CHECKED
    except OSError as error:
        say(f"ERROR: {error.filename}: {error.strerror}" if error.filename else f"ERROR: {error}")
        return NOT_CHECKED
    _print(report, request.format, output, signals)
    return FAILED if request.fail_on & {finding.state for finding in report.findings} else SOUND


def _print(report: Report, form: str, output: Output, signals: Signals) -> None:
    from kprobe import __version__

    shown: dict[str, Callable[[], str]] = {
        "text": lambda: formats.text(report),
        "markdown": lambda: formats.markdown(report),
        "json": lambda: formats.as_json(report),
        "sarif": lambda: as_sarif(report, __version__),
        "github": lambda: formats.github(report),
        "junit": lambda: formats.as_junit(report),
    }
    output.write(shown[form]().encode(errors="surrogateescape"), lambda: bool(signals.received))
    output.finish(lambda: bool(signals.received))


def _read(argv: list[str]) -> _Request:
    request = _Request()
    values = {"--kernels": (), "--format": FORMATS, "--as": FORMS, "--fail-on": ()}
    options, request.words = verb_options(argv, ("--no-suggestions",), values)
    for name, value in options:
        if name in HELP_WORDS:
            request.help = True
        elif name == "--no-suggestions":
            request.suggest = False
        elif name == "--fail-on":
            request.fail_on |= _failures(value)
        else:
            setattr(request, {"--kernels": "kernels", "--format": "format", "--as": "as_form"}[name], value)
    if not request.words and not request.help:
        raise UsageError("a file or a definition is missing")
    return request


def _failures(value: str) -> set[str]:
    """Return the states that a list of words names.  Raise `UsageError`."""
    words = value.split(",")
    wrong = [word for word in words if word not in FAILURES]
    if wrong:
        raise UsageError(f"--fail-on takes {', '.join(FAILURES)}, separated by commas, not {wrong[0]!r}")
    return {FAILURES[word] for word in words}


def _statements(request: _Request) -> list[Statement]:
    """Return the statements to ask, in the order of the command line; words that are statements form one list."""
    found: list[Statement] = []
    given: list[Statement] = []
    for word in request.words:
        if begins_statement(word):
            one = statement(word, Position())
            given += [] if one is None else [one]
            continue
        found += linked(given)
        given = []
        found += statements(_contents(word), "standard input" if word == "-" else word, request.as_form)
    return found + linked(given)


def _contents(word: str) -> bytes:
    if word == "-":
        return sys.stdin.buffer.read(LONGEST + 1)
    try:
        with open(word, "rb") as file:
            return file.read(LONGEST + 1)
    except FileNotFoundError:
        other = meant(word)
        if other is None:
            raise
        raise BadSource(word, f"no such file; {other}") from None
