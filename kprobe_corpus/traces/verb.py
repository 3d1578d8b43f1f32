"""The verb `kprobe corpus`: its words and its options, for usage, help, completion and man page."""

from __future__ import annotations

from kprobe_text.terminal.verb import Option, Verb

CORPUS = Verb(
    "corpus",
    "kprobe_corpus.traces.command",
    "list, check or export traces of many kernels, with their true contents, to test parsers: kprobe corpus -h",
    kind="list check export",
    most=2,
    reads=True,
    usage="list|check|export DIR [--kernels LIST] [--scenarios LIST]",
    options=(
        Option("--kernels", "only these kernels", metavar="LIST", kind="kernels"),
        Option("--scenarios", "only these scenarios", metavar="LIST"),
        Option(
            "--corpus",
            "the texts in this directory, with their truth, instead of the installed corpus",
            metavar="DIR",
            kind="directory",
        ),
    ),
)
