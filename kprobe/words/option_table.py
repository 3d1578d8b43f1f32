"""The options and verbs of `kprobe`: one table, from which usage, help, reading, completion and man page come."""

from __future__ import annotations

TRACE = ""  # the verb of a command line without one: a trace
TRACES = (TRACE, "top")  # what shows events as they come
ANY = 1 << 30  # as many words as there are


class Option:
    """An option; the first of `names` is the one that messages name.

    `metavar` stands for its value, "" if it takes none.  `sets` is the attribute of `options.CommandLine`.  `kind` says
    how its value is read and completed: seconds, number, pid, cpus, text, file, directory, spec, kernels, field, or,
    if it has `choices`, one of them.  It may be given several times if it is `repeats`.
    """

    __slots__ = ("choices", "help", "kind", "metavar", "names", "repeats", "sets", "verbs")

    def __init__(
        self,
        names: str,
        help: str,
        *,
        sets: str = "",
        metavar: str = "",
        kind: str = "text",
        choices: tuple[str, ...] = (),
        verbs: tuple[str, ...] = (TRACE,),
        repeats: bool = False,
    ) -> None:
        self.names = tuple(names.split())
        self.help = help
        self.sets = sets or self.names[-1].lstrip("-").replace("-", "_")
        self.metavar = metavar
        self.kind = kind
        self.choices = choices
        self.verbs = verbs
        self.repeats = repeats

    @property
    def shown(self) -> str:
        """The option as help shows it: "-h, --help", "-d secs"."""
        return ", ".join(self.names) + (f" {self.metavar}" if self.metavar else "")


class Verb:
    """What the first word can be in place of a definition, as a definition has a colon, or is p or r.

    `module` lies below kprobe: its `run(tracefs, output, signals, request)` does it or, if the verb `reads` its words
    itself, `main(words, output, signals)`.  `words` are what follows it, for the usage; `kind` what they are, for their
    completion: function, spec, file, or the words that there are, with blanks between; so many at `least`, `most`.
    """

    __slots__ = ("help", "kind", "least", "module", "most", "name", "reads", "usage", "words")

    def __init__(
        self,
        name: str,
        module: str,
        help: str,
        *,
        words: str = "",
        kind: str = "",
        least: int = 0,
        most: int = 0,
        reads: bool = False,
        usage: str = "",
    ) -> None:
        self.name = name
        self.module = module
        self.help = help
        self.words = words
        self.kind = kind
        self.least = least
        self.most = most
        self.reads = reads
        self.usage = usage


VERBS = (
    Verb(
        "clean",
        "command.clean",
        "remove what kprobes left that were killed (kill -9), as every kprobe does before it begins: events "
        "and instances that are called after a process that is gone; nothing else",
    ),
    Verb(
        "list",
        "probing.event_table",
        "every dynamic event: whose it is, where it is enabled, its hits and what the kernel missed",
    ),
    Verb(
        "doctor",
        "doctor.command",
        "why can't this machine be traced, or why is it silent: each finding with its facts and what helps; of "
        "functions and definitions, too. Status 1 if something stops tracing",
        words="[DEFINITION|FUNCTION ...]",
        kind="function",
        most=ANY,
    ),
    Verb(
        "functions",
        "probing.function_table",
        "which functions there are of these names (* ? [...]), if each can be probed, or why not, its address, "
        "module and C prototype",
        words="NAME|PATTERN ...",
        kind="function",
        least=1,
        most=ANY,
    ),
    Verb(
        "args",
        "probing.arguments",
        "definitions that fetch a function's arguments and what it returns, as the kernel takes them",
        words="FUNCTION",
        kind="function",
        least=1,
        most=1,
    ),
    Verb(
        "top",
        "watching.top",
        "how often events fire, in whose tasks and on which CPUs, as it goes on (needs kprobe-sim[top] on a terminal)",
        words="definition ... [filter]",
        kind="definition",
        least=1,
        most=ANY,
    ),
    Verb(
        "check",
        "check.command",
        "what every simulated kernel makes of definitions, filters and triggers, and what all take instead: "
        "kprobe check -h",
        kind="file",
        most=ANY,
        reads=True,
        usage="[--kernels LIST] [--format FORMAT] FILE|-|DEFINITION ...",
    ),
    Verb(
        "parse",
        "parsing.command",
        "what the text of a trace says, as text, JSON lines or CSV: kprobe parse -h",
        kind="file",
        most=ANY,
        reads=True,
        usage="[--format FORMAT] [--schema PATH] ... [FILE ...]",
    ),
    Verb(
        "corpus",
        "corpus.command",
        "traces of many kernels, each with what it says, to test readers with: kprobe corpus -h",
        kind="list check export",
        most=2,
        reads=True,
        usage="list|check|export DIR [--kernels LIST] [--scenarios LIST]",
    ),
    Verb(
        "test-parser",
        "readers.command",
        "hold any parser of trace text to these traces, or search what fools it: kprobe test-parser -h",
        kind="command",
        most=ANY,
        reads=True,
        usage="[--break] [OPTION ...] -- CMD [ARGUMENT ...]",
    ),
    Verb(
        "completion",
        "completion.command",
        "print what a shell needs to complete all this: kprobe completion -h",
        kind="bash zsh fish",
        least=1,
        most=1,
        reads=True,
        usage="bash|zsh|fish",
    ),
)
OWN = tuple(verb.name for verb in VERBS if not verb.reads)

# In the order of the help: those of traces and of all verbs, then those of single verbs, which stand behind their verb.
OPTIONS = (
    Option("-F", "force: no warnings before the kernel has decided", sets="force"),
    Option(
        "-d",
        "trace that long; events stay in the kernel and are printed at the end",
        sets="duration",
        metavar="secs",
        kind="seconds",
        verbs=TRACES,
    ),
    Option("-p", "only this process, with all its threads", sets="pid", metavar="PID", kind="pid", verbs=TRACES),
    Option("-L", "only this thread", sets="tid", metavar="TID", kind="pid", verbs=TRACES),
    Option("-v", "show the event's format (the fields for a filter); don't trace", sets="view"),
    Option("-H", "print the column headings first", sets="headers"),
    Option("-s", "kernel stack traces", sets="stacktrace"),
    Option("-h --help", "this text", verbs=(TRACE, *(verb.name for verb in VERBS))),
    Option(
        "--tracefs",
        "where: local (the machine's own), local:DIR, sim:6.1 (simulated), vm:6.1 (a guest); the default is "
        "$KPROBE_TRACEFS, else local",
        metavar="SPEC",
        kind="spec",
        verbs=(TRACE, *OWN),
    ),
    Option("--follow", "with -p: also what the process forks", verbs=TRACES),
    Option("--raw", "read raw pages in place of text: exact, whatever strings hold; printed as kprobe parse prints"),
    Option("--top-level", "don't make an instance of its own below instances/"),
    Option("--timeout", "trace that long, and print events as they come", metavar="SECS", kind="seconds"),
    Option("--max-events", "end after so many events", metavar="N", kind="number"),
    Option("-o", "print to a file, which is written once tracing begins", sets="into", metavar="FILE", kind="file"),
    Option("--cpus", "only on these CPUs: 0,2-3", metavar="LIST", kind="cpus"),
    Option("--buffer-size", "of the kernel's buffer of each CPU", metavar="KIB", kind="number"),
    Option(
        "--max-probes",
        "how many functions a name with * ? [...] may stand for; the default is 100",
        metavar="N",
        kind="number",
    ),
    Option("--version", "the version", verbs=(TRACE, *OWN)),
    Option("--dry-run", "only say what there is", verbs=("clean",)),
    Option("--json", "an object a line: docs/json.md", verbs=(TRACE, "list", "doctor")),
    Option("--csv", "a row for each record, values of events as JSON in the column fields"),
    Option(
        "--latency",
        "of functions (names will do): the time from entry to return; mean, percentiles and a histogram at the end",
    ),
    Option("--hist", "a histogram of the numbers in a field, at the end", metavar="FIELD"),
    Option("--count", "events by a field, or by comm, pid, cpu or stacktrace, at the end", metavar="BY"),
    Option("--stacks", "folded stacks for flame graphs, at the end"),
    Option(
        "--try",
        "also trace each so long, and take that back",
        sets="try_for",
        metavar="SECS",
        kind="seconds",
        verbs=("doctor",),
    ),
    Option("-v", "also what holds each parameter", sets="view", verbs=("functions",)),
    # of verbs that read their words themselves
    Option("--kernels", "these kernels", metavar="LIST", kind="kernels", verbs=("check", "corpus", "test-parser")),
    Option(
        "--format",
        "how it is written",
        metavar="FORMAT",
        choices=("text", "markdown", "json", "sarif", "github"),
        verbs=("check",),
    ),
    Option(
        "--as", "what FILEs are", sets="as_form", metavar="FORM", choices=("list", "shell", "python"), verbs=("check",)
    ),
    Option("--no-suggestions", "don't look for what all kernels take", verbs=("check",)),
    Option(
        "--format",
        "how it is written",
        metavar="FORMAT",
        choices=("text", "ndjson", "csv", "parquet", "arrow"),
        verbs=("parse",),
    ),
    Option("-o", "where to", sets="directory", metavar="DIR", kind="directory", verbs=("parse",)),
    Option("--jobs", "processors to use", metavar="N", kind="number", verbs=("parse", "test-parser")),
    Option("--schema", "what the events' arguments are", metavar="PATH", kind="file", verbs=("parse",), repeats=True),
    Option("--summary", "rates, histograms, times from entry to return", verbs=("parse",)),
    Option("--latency", "the time from a function's entry to its return", verbs=("parse",)),
    Option("--hist", "a histogram of the numbers in a field", metavar="FIELD", kind="field", verbs=("parse",)),
    Option("--count", "how many events there are of each value", metavar="BY", kind="field", verbs=("parse",)),
    Option("--stacks", "folded stacks, for flame graphs", verbs=("parse",)),
    Option("--perfetto", "write a trace for ui.perfetto.dev", metavar="TRACE", kind="file", verbs=("parse",)),
    Option("--scenarios", "these scenarios only", metavar="LIST", verbs=("corpus", "test-parser")),
    Option(
        "--corpus",
        "texts with their truth, instead of what is installed",
        metavar="DIR",
        kind="directory",
        verbs=("corpus", "test-parser"),
    ),
    Option("--options", "with all of these trace options", metavar="LIST", verbs=("test-parser",)),
    Option("--types", "compare these types of records", metavar="LIST", verbs=("test-parser",)),
    Option("--dat", "CMD gets a trace.dat in place of the text", verbs=("test-parser",)),
    Option("--stay", "CMD stays: it gets a directory a line", verbs=("test-parser",)),
    Option("--limit", "for one text", metavar="SECONDS", kind="seconds", verbs=("test-parser",)),
    Option("--json", "the whole report as JSON", verbs=("test-parser",)),
    Option("--break", "search the shortest scenario that fools CMD", sets="breaks", verbs=("test-parser",)),
    Option("--seconds", "with --break: so long at most", metavar="N", kind="seconds", verbs=("test-parser",)),
    Option("--rules", "with --break: these rules only", metavar="LIST", verbs=("test-parser",)),
    Option("--seed", "with --break: what the search begins with", metavar="N", kind="number", verbs=("test-parser",)),
    Option("--confirm", "with --break: on a real kernel, too", metavar="SPEC", kind="spec", verbs=("test-parser",)),
)


def options_of(verb: str) -> tuple[Option, ...]:
    """Return the options of a verb, or those of a trace."""
    return tuple(option for option in OPTIONS if verb in option.verbs)


def verb_of(word: str) -> Verb | None:
    """Return the verb of that name."""
    return next((verb for verb in VERBS if verb.name == word), None)
