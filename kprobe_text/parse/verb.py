"""The verb `kprobe parse`: its words and its options, for usage, help, completion and man page."""

from __future__ import annotations

from kprobe_text.terminal.verb import ANY, Option, Verb

PARSE = Verb(
    "parse",
    "kprobe_text.parse.command",
    "read the text of a trace, and print its records as text, JSON lines or CSV: kprobe parse -h",
    kind="file",
    most=ANY,
    reads=True,
    usage="[--format FORMAT] [--schema PATH] ... [FILE ...]",
    options=(
        Option(
            "--format", "the output format", metavar="FORMAT", choices=("text", "ndjson", "csv", "parquet", "arrow")
        ),
        Option("-o", "the directory to write to", sets="directory", metavar="DIR", kind="directory"),
        Option("--jobs", "how many processors to use", metavar="N", kind="number"),
        Option("--schema", "the types of the events' arguments", metavar="PATH", kind="file", repeats=True),
        Option("--summary", "rates, histograms, times from entry to return"),
        Option("--latency", "the time from a function's entry to its return"),
        Option("--hist", "a histogram of the numbers in a field", metavar="FIELD", kind="field"),
        Option("--count", "how many events have each value", metavar="BY", kind="field"),
        Option("--stacks", "folded stacks, for flame graphs"),
        Option("--perfetto", "write a trace for ui.perfetto.dev", metavar="TRACE", kind="file"),
    ),
)
