"""The verb `kprobe check`: its words and its options, for usage, help, completion and man page."""

from __future__ import annotations

from kprobe_text.terminal.verb import ANY, Option, Verb

CHECK = Verb(
    "check",
    "kprobe_check.command",
    "show what every simulated kernel makes of definitions, filters and triggers, and suggest forms that all "
    "accept: kprobe check -h",
    kind="file",
    most=ANY,
    reads=True,
    usage="[--kernels LIST] [--format FORMAT] FILE|-|DEFINITION ...",
    options=(
        Option("--kernels", "only these kernels", metavar="LIST", kind="kernels"),
        Option(
            "--format",
            "the output format",
            metavar="FORMAT",
            choices=("text", "markdown", "json", "sarif", "github", "junit"),
        ),
        Option(
            "--as",
            "read FILEs as",
            sets="as_form",
            metavar="FORM",
            choices=("list", "shell", "python", "go", "c", "rust", "perl", "markdown"),
        ),
        Option(
            "--fail-on",
            "exit with 1 also if something has another meaning on a kernel, or couldn't be asked",
            metavar="LIST",
            choices=("means", "not-asked", "means,not-asked"),
        ),
        Option("--no-suggestions", "don't look for forms that all kernels accept"),
    ),
)
