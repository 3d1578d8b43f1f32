"""`kprobe parse`: reads trace text or a trace.dat, and prints its records."""

from __future__ import annotations

from kprobe_text.figures.shape import SHAPES, Counts, title
from kprobe_text.parse.reading import read
from kprobe_text.parse.schema import BadSchema, Schema
from kprobe_text.parse.source import NotText
from kprobe_text.terminal.output import say
from kprobe_text.terminal.verb import UsageError
from kprobe_text.terminal.verb_words import HELP_WORDS, usage_error, verb_options
from kprobe_text.text import Header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kprobe_text.terminal.output import Output
    from kprobe_text.terminal.signals import Signals
    from kprobe_text.text import Record

DONE, UNREAD, USAGE_ERROR = 0, 1, 2  # exit status
COLUMNAR = ("parquet", "arrow")  # copied from kprobe_text.columns, which is imported only when needed

SWITCHES = ("--summary", "--latency", "--stacks")
VALUED: dict[str, tuple[str, ...]] = {"--perfetto": (), "--hist": (), "--count": ()}

HELP = """\
USAGE: kprobe parse [--format FORMAT] [--schema PATH] ... [-o DIR] [FIGURE] [FILE ...]

Read trace text and print its records, one per line, as soon as they arrive. Nothing is left out: text that isn't
understood is shown unchanged, guesses are marked as such, and both are counted at the end.

  FILE             text of trace or trace_pipe of any kernel, function_graph, trace-cmd report or perf script; also
                   compressed with gzip or zstd; or a trace.dat of version 6 or 7; - or no FILE: standard input
  --format FORMAT  text (the default), ndjson (one object per line), csv (arguments as JSON in the column "fields");
                   parquet, arrow: a file for each event, in DIR, for DuckDB, pandas, Dask (needs kprobe-sim[bulk])
  -o DIR           the directory to write to: empty, or not there yet
  --jobs N         processors to use: 1, 2 or 3 (default: as many as there are): with 2, one thread compresses what was
                   read; with 3, two processes read parts of files of 8 MiB and more; the rows are the same
  --schema PATH    the types of the events' arguments: an event's format file, a directory of them such as
                   events/kprobes, or a list of definitions such as kprobe_events. They make all types exact; several
                   add up
  -h, --help       this text

FIGURE, in place of the records:
  --summary        rates by event and task, histograms of numbers, times from entry to return, and what is uncertain
  --latency        the time from a function's entry to its return: mean, percentiles, histogram
  --hist FIELD     a histogram of the numbers in a field, for each event
  --count BY       how many events have each value of a field, or by comm, pid, cpu or stacktrace
  --stacks         folded stacks, for flame graphs
  --perfetto TRACE write a trace for ui.perfetto.dev: calls as slices, everything else as instants, a track per task

  kprobe parse --format ndjson trace.txt.gz | jq .fields
  cat /sys/kernel/tracing/trace_pipe | kprobe parse --schema /sys/kernel/tracing/events/kprobes

Exit status: 0 everything was read, understood or not; 1 a file can't be read or isn't text; 2 a wrong command line.
"""


class _Asked:
    """A request from the command line."""

    def __init__(self) -> None:
        self.format = "text"
        self.schemas: list[str] = []
        self.files: list[str] = []
        self.help = False
        self.directory = ""
        self.jobs = ""
        self.figure = ""  # the option
        self.of = ""  # its value


def main(argv: list[str], output: Output, signals: Signals) -> int:
    """Run the verb with the words that follow it, and return the exit status."""
    try:
        request = _read(argv)
        if request.help:
            output.write(HELP.encode(), lambda: bool(signals.received))
            return DONE
        schema = _schema(request.schemas)
    except (UsageError, BadSchema) as error:
        say(usage_error(error, HELP))
        return USAGE_ERROR
    except OSError as error:
        say(f"ERROR: {error.filename}: {error.strerror}")
        return USAGE_ERROR
    files = request.files or ["-"]
    if request.format in COLUMNAR:
        from kprobe_text.parse.columnar import write

        return write(
            files, request.format, request.directory, schema, signals, jobs=int(request.jobs) if request.jobs else None
        )
    if request.figure:
        return _figure(request, files, schema, output)
    return _print_all(request, files, schema, output, signals)


def _print_all(request: _Asked, files: list[str], schema: Schema, output: Output, signals: Signals) -> int:
    """Print the records of all files."""
    status, counts, shape, label = DONE, Counts(), SHAPES[request.format], ""

    def write(text: str) -> None:
        output.write(text.encode("utf-8", "surrogateescape"), lambda: bool(signals.received))

    def show(records: list[Record]) -> None:
        lines = []
        for record in records:
            if not isinstance(record, Header):
                counts.add(record)
                lines.append(shape(record, label))
        if lines:
            write("".join(lines))

    write(title(request.format))
    for file in files:
        label = file if len(files) > 1 else ""
        try:
            read(file, schema, show)
        except BrokenPipeError:
            raise
        except (OSError, NotText) as error:
            say(f"ERROR: {error.filename}: {error.strerror}" if isinstance(error, OSError) else f"ERROR: {error}")
            status = UNREAD
    output.finish(lambda: bool(signals.received))
    if words := counts.words():
        say(f"NOTE: {words}")
    return status


def _schema(paths: list[str]) -> Schema:
    schema = Schema(paths)
    for problem in schema.problems:
        say(f"WARNING: {problem}; it is left out")
    return schema


def _figure(request: _Asked, files: list[str], schema: Schema, output: Output) -> int:
    from kprobe_text.parse.figures import perfetto, show

    if request.figure == "--perfetto":
        return perfetto(files, request.of, schema)
    if request.figure == "--summary":
        from kprobe_text.parse.summary import Summary

        return show(files, Summary(), schema, output, as_json=False, tells=False)
    from kprobe_text.figures.options import figure_of

    figure, as_json = figure_of(request.figure, request.of), request.format == "ndjson"
    return show(files, figure, schema, output, as_json=as_json, tells=True)


def _read(argv: list[str]) -> _Asked:
    request = _Asked()
    choices = {"--format": (*SHAPES, *COLUMNAR), "--schema": (), "-o": (), "--jobs": ("1", "2", "3"), **VALUED}
    options, request.files = verb_options(argv, SWITCHES, choices)
    for name, value in options:
        if name in HELP_WORDS:
            request.help = True
        elif name == "--schema":
            request.schemas.append(value)
        elif name == "-o":
            request.directory = value
        elif name == "--jobs":
            request.jobs = value
        elif name in SWITCHES or name in VALUED:
            if request.figure not in ("", name):
                raise UsageError(f"{request.figure} and {name} exclude each other")
            request.figure, request.of = name, value
        else:
            request.format = value
    if not request.help and (request.format in COLUMNAR) != bool(request.directory):
        raise UsageError(f"--format {' or '.join(COLUMNAR)} and -o DIR go together")
    as_text = ("--summary", "--perfetto")
    if request.figure and request.format not in (("text",) if request.figure in as_text else ("text", "ndjson")):
        raise UsageError(f"{request.figure} and --format {request.format} exclude each other")
    return request
