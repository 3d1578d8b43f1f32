"""`kprobe corpus`: lists, exports and checks the traces that parsers can be tested with."""

from __future__ import annotations

from kprobe_corpus.traces.corpora import corpora, entries
from kprobe_corpus.traces.entry import CorpusError
from kprobe_text.terminal.output import say
from kprobe_text.terminal.unknown_words import near
from kprobe_text.terminal.verb import UsageError
from kprobe_text.terminal.verb_words import HELP_WORDS, usage_error, verb_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe_corpus.traces.entry import Entry
    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals

DONE, FAILED, USAGE_ERROR = 0, 1, 2  # exit status

HELP = """\
USAGE: kprobe corpus list|check|export DIR [--kernels LIST] [--scenarios LIST] [--corpus DIR]

Traces of many kernels, each with the truth: who did what, where, when and with which values, as JSON Lines.

  list              print the kernel, scenario, lines, options, clock and source of each trace
  export DIR        write each into DIR/KERNEL/NAME: trace.txt truth.jsonl formats kprobe_events about.json
  check             read all of them, and name any file that is damaged or missing
  --kernels LIST    only these kernels, separated by commas; * stands for any text (6.*,7.2)
  --scenarios LIST  only these scenarios, likewise (02_comms,04_clock_*)
  --corpus DIR      use the traces exported to DIR instead of the installed corpus
  -h, --help        this text

  kprobe corpus export traces --kernels 6.12 && my-parser < traces/6.12/02_comms/trace.txt

Exit status: 0 done; 1 there is no corpus, or it is damaged; 2 a wrong command line.
"""
ACTIONS = ("list", "check", "export")


class _Task:
    """A request from the command line."""

    def __init__(self) -> None:
        self.action = ""
        self.into = ""
        self.kernels: list[str] = []
        self.scenarios: list[str] = []
        self.corpus: str | None = None
        self.help = False


def main(argv: list[str], output: Output, signals: Signals) -> int:
    """Run the verb with the words that follow it, and return the exit status."""
    try:
        request = _read(argv)
    except UsageError as error:
        say(usage_error(error, HELP))
        return USAGE_ERROR
    if request.help:
        output.write(HELP.encode(), lambda: bool(signals.received))
        return DONE
    try:
        chosen = entries(request.kernels, request.scenarios, directory=request.corpus)
        text = _done(request, chosen)
    except CorpusError as error:
        say(f"ERROR: {error}")
        return FAILED
    output.write(text.encode("utf-8", "backslashreplace"), lambda: bool(signals.received))
    output.finish(lambda: bool(signals.received))
    return DONE


def _done(request: _Task, chosen: list[Entry]) -> str:
    """Run the task, and return the message about it."""
    if request.action == "list":
        return _table([["KERNEL", "SCENARIO", "LINES", "OPTIONS", "CLOCK", "SOURCE", "TRUTH"], *map(_row, chosen)])
    if request.action == "export":
        from kprobe_corpus.traces.writing import write

        for entry in chosen:
            write(entry, request.into)
        return f"{len(chosen)} traces of {_kernels(chosen)} kernels in {request.into}\n"
    records = sum(len(entry.truth()) for entry in chosen)
    lines = sum(entry.about.get("lines", 0) for entry in chosen)
    source = request.corpus or ", ".join(f"{corpus.name} {corpus.version}" for corpus in corpora())
    return f"{source}: {len(chosen)} traces of {_kernels(chosen)} kernels, {lines} lines, {records} records: whole\n"


def _kernels(chosen: list[Entry]) -> int:
    return len({entry.kernel for entry in chosen})


def _row(entry: Entry) -> list[str]:
    about = entry.about
    options = ",".join(about.get("options", ())) or "-"
    said = [about.get(key, "-") for key in ("clock", "source", "truth")]
    return [entry.kernel, entry.name, str(about.get("lines", "-")), options, *said]


def _table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(line + "\n" for line in lines)


def _read(argv: list[str]) -> _Task:
    request = _Task()
    options, words = verb_options(argv, (), {"--kernels": (), "--scenarios": (), "--corpus": ()})
    for name, value in options:
        if name in HELP_WORDS:
            request.help = True
        elif name == "--corpus":
            request.corpus = value
        else:
            (request.kernels if name == "--kernels" else request.scenarios).extend(filter(None, value.split(",")))
    if request.help:
        return request
    if not words or words[0] not in ACTIONS:
        what = f", not {words[0]}{near(words[0], ACTIONS)}" if words else ""
        raise UsageError(f"the action is one of {', '.join(ACTIONS)}{what}")
    request.action = words.pop(0)
    if request.action == "export":
        if not words:
            raise UsageError("export takes the directory to write to")
        request.into = words.pop(0)
    if words:
        raise UsageError(f"{words[0]} is one word too many")
    return request
