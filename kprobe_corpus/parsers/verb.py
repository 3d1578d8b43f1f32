"""The verb `kprobe test-parser`: its words and its options, for usage, help, completion and man page."""

from __future__ import annotations

from kprobe_text.terminal.verb import ANY, Option, Verb

TEST_PARSER = Verb(
    "test-parser",
    "kprobe_corpus.parsers.command",
    "test any parser of trace text against these traces, or search for text that fools it: kprobe test-parser -h",
    kind="command",
    most=ANY,
    reads=True,
    usage="[--break] [OPTION ...] -- CMD [ARGUMENT ...]",
    options=(
        Option("--kernels", "only these kernels", metavar="LIST", kind="kernels"),
        Option("--jobs", "how many processors to use", metavar="N", kind="number"),
        Option("--scenarios", "only these scenarios", metavar="LIST"),
        Option(
            "--corpus",
            "the texts in this directory, with their truth, instead of the installed corpus",
            metavar="DIR",
            kind="directory",
        ),
        Option("--options", "only texts with all of these trace options", metavar="LIST"),
        Option("--types", "compare only these types of records", metavar="LIST"),
        Option("--dat", "give CMD a trace.dat instead of the text"),
        Option("--stay", "start CMD once, and send it the texts' directories, one per line"),
        Option("--limit", "the time limit for one text", metavar="SECONDS", kind="seconds"),
        Option("--json", "the same as --format json"),
        Option("--format", "the output format", metavar="FORMAT", choices=("text", "json", "junit", "github")),
        Option("--baseline", "fail only by what this file doesn't have as known", metavar="FILE", kind="file"),
        Option("--update-baseline", "strike off what is repaired; write the file if there is none"),
        Option("--break", "search for the shortest scenario that fools CMD", sets="breaks"),
        Option("--seconds", "with --break: search this long at most", metavar="N", kind="seconds"),
        Option("--rules", "with --break: only these rules", metavar="LIST"),
        Option("--seed", "with --break: the seed of the search", metavar="N", kind="number"),
        Option("--confirm", "with --break: also try it on a real kernel", metavar="SPEC", kind="spec"),
    ),
)
