"""The options and verbs of `kprobe`: one table that usage, help, parsing, completion and man page are made from."""

from __future__ import annotations

TRACE = ""  # the verb of a command line without one: a trace
TRACES = (TRACE, "top")  # those that show events as they come
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
    `examples` end its help.
    """

    __slots__ = ("examples", "help", "kind", "least", "module", "most", "name", "reads", "usage", "words")

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
        examples: str = "",
    ) -> None:
        self.examples = examples
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
        "remove what killed sessions of kprobe (kill -9) left behind, as every kprobe does before it begins: events "
        "and instances named after a process that is gone, and nothing else",
        examples="""\
  kprobe clean --dry-run                                what it would remove

Exit status: 0 done; 3 no tracefs, no permission; 4 something could not be removed.
""",
    ),
    Verb(
        "list",
        "probing.event_table",
        "list every dynamic event: its owner, where it is enabled, its hits and those that the kernel missed",
        examples="""\
  kprobe --tracefs sim:6.1 list                         of a simulated kernel
""",
    ),
    Verb(
        "doctor",
        "doctor.command",
        "find out why this machine can't be traced, or why a trace is silent: each finding with its evidence and a "
        "remedy; also for single functions and definitions. Status 1 if something stops tracing",
        words="[DEFINITION|FUNCTION ...]",
        kind="function",
        most=ANY,
        examples="""\
  kprobe doctor                                         of the machine, and of every event that there is
  kprobe doctor vfs_read                                also of a function
  kprobe doctor --try 2 'r:c kfree $retval'             also whether the kernel takes a definition, and its hits

Without --try nothing is written, so the kernel isn't asked whether it takes a definition.
Exit status: 0 nothing stops tracing; 1 something does; 2 a wrong command line or definition.
""",
    ),
    Verb(
        "functions",
        "probing.function_table",
        "list the functions with these names (* ? [...]): whether each can be probed, or why not, its address, "
        "module and C prototype",
        words="NAME|PATTERN ...",
        kind="function",
        least=1,
        most=ANY,
        examples="""\
  kprobe functions 'vfs_*' do_sys_openat2
""",
    ),
    Verb(
        "args",
        "probing.arguments",
        "print definitions that fetch a function's arguments and return value, in a form that the kernel accepts",
        words="FUNCTION",
        kind="function",
        least=1,
        most=1,
        examples="""\
  kprobe args do_sys_openat2
""",
    ),
    Verb(
        "top",
        "watching.top",
        "show live how often events fire, in which tasks and on which CPUs (needs kprobe-sim[top] on a terminal)",
        words="definition ... [filter]",
        kind="definition",
        least=1,
        most=ANY,
        examples="""\
  kprobe top p:vfs_read p:vfs_write                     how often each is called
  kprobe top 'p:vfs_read $arg3' 'arg1 > 4096'           of a definition, with a filter: kprobe --help has the language

q or Ctrl-C ends it.
""",
    ),
    Verb(
        "check",
        "check.command",
        "show what every simulated kernel makes of definitions, filters and triggers, and suggest forms that all "
        "accept: kprobe check -h",
        kind="file",
        most=ANY,
        reads=True,
        usage="[--kernels LIST] [--format FORMAT] FILE|-|DEFINITION ...",
    ),
    Verb(
        "parse",
        "parsing.command",
        "read the text of a trace, and print its records as text, JSON lines or CSV: kprobe parse -h",
        kind="file",
        most=ANY,
        reads=True,
        usage="[--format FORMAT] [--schema PATH] ... [FILE ...]",
    ),
    Verb(
        "corpus",
        "corpus.command",
        "list, check or export traces of many kernels, with their true contents, to test parsers: kprobe corpus -h",
        kind="list check export",
        most=2,
        reads=True,
        usage="list|check|export DIR [--kernels LIST] [--scenarios LIST]",
    ),
    Verb(
        "test-parser",
        "readers.command",
        "test any parser of trace text against these traces, or search for text that fools it: kprobe test-parser -h",
        kind="command",
        most=ANY,
        reads=True,
        usage="[--break] [OPTION ...] -- CMD [ARGUMENT ...]",
    ),
    Verb(
        "completion",
        "completion.command",
        "print what a shell needs to complete all of this: kprobe completion -h",
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
    Option("-F", "force: give no warnings before the kernel has decided", sets="force"),
    Option(
        "-d",
        "trace for this many seconds; events stay in the kernel and are printed at the end",
        sets="duration",
        metavar="secs",
        kind="seconds",
    ),
    Option("-d", "end after this many seconds", sets="duration", metavar="secs", kind="seconds", verbs=("top",)),
    Option("-p", "trace only this process, with all its threads", sets="pid", metavar="PID", kind="pid", verbs=TRACES),
    Option("-L", "trace only this thread", sets="tid", metavar="TID", kind="pid", verbs=TRACES),
    Option("-v", "show the event's format (the fields for a filter); don't trace", sets="view"),
    Option("-H", "print the column headings first", sets="headers"),
    Option("-s", "print the kernel stack of each event", sets="stacktrace"),
    Option("-h --help", "this text", verbs=(TRACE, *(verb.name for verb in VERBS))),
    Option(
        "--tracefs",
        "which tracefs: local (this machine's own), local:DIR, sim:6.1 (simulated), vm:6.1 (a guest); the default is "
        "$KPROBE_TRACEFS, else local",
        metavar="SPEC",
        kind="spec",
        verbs=(TRACE, *OWN),
    ),
    Option("--follow", "with -p: also the processes that it forks", verbs=TRACES),
    Option("--raw", "read raw pages instead of text: exact, whatever strings contain; printed as by kprobe parse"),
    Option("--top-level", "trace at the top level of the tracefs, without an instance below instances/"),
    Option("--timeout", "trace for this many seconds, printing events as they come", metavar="SECS", kind="seconds"),
    Option("--max-events", "end after this many events", metavar="N", kind="number"),
    Option("-o", "print to a file, left as it was if tracing doesn't begin", sets="into", metavar="FILE", kind="file"),
    Option("--cpus", "trace only these CPUs: 0,2-3", metavar="LIST", kind="cpus"),
    Option("--buffer-size", "the size of the kernel's buffer for each CPU", metavar="KIB", kind="number"),
    Option(
        "--max-probes",
        "how many functions a name with * ? [...] may match; the default is 100",
        metavar="N",
        kind="number",
    ),
    Option("--version", "print the version", verbs=(TRACE, *OWN)),
    Option("--dry-run", "only show what it would do", verbs=("clean",)),
    Option("--json", "print JSON, one object per line: docs/json.md", verbs=(TRACE, "list", "doctor")),
    Option("--csv", "print CSV, one row per record; an event's values are JSON in the column fields"),
    Option(
        "--latency",
        "measure functions (their names will do) from entry to return; mean, percentiles and a histogram at the end",
    ),
    Option("--hist", "print a histogram of the numbers in a field at the end", metavar="FIELD"),
    Option("--count", "count events by a field, or by comm, pid, cpu or stacktrace; printed at the end", metavar="BY"),
    Option("--stacks", "print folded stacks, for flame graphs, at the end"),
    Option(
        "--try",
        "also trace each of them for this many seconds, then undo that",
        sets="try_for",
        metavar="SECS",
        kind="seconds",
        verbs=("doctor",),
    ),
    Option("-v", "also show where each parameter is", sets="view", verbs=("functions",)),
    # of verbs that read their words themselves
    Option("--kernels", "only these kernels", metavar="LIST", kind="kernels", verbs=("check", "corpus", "test-parser")),
    Option(
        "--format",
        "the output format",
        metavar="FORMAT",
        choices=("text", "markdown", "json", "sarif", "github", "junit"),
        verbs=("check",),
    ),
    Option(
        "--as",
        "read FILEs as",
        sets="as_form",
        metavar="FORM",
        choices=("list", "shell", "python", "go", "c", "rust", "perl", "markdown"),
        verbs=("check",),
    ),
    Option(
        "--fail-on",
        "exit with 1 also for what means something else, or couldn't be asked",
        metavar="LIST",
        choices=("means", "not-asked", "means,not-asked"),
        verbs=("check",),
    ),
    Option("--no-suggestions", "don't look for forms that all kernels accept", verbs=("check",)),
    Option(
        "--format",
        "the output format",
        metavar="FORMAT",
        choices=("text", "ndjson", "csv", "parquet", "arrow"),
        verbs=("parse",),
    ),
    Option("-o", "the directory to write to", sets="directory", metavar="DIR", kind="directory", verbs=("parse",)),
    Option("--jobs", "how many processors to use", metavar="N", kind="number", verbs=("parse", "test-parser")),
    Option(
        "--schema", "the types of the events' arguments", metavar="PATH", kind="file", verbs=("parse",), repeats=True
    ),
    Option("--summary", "rates, histograms, times from entry to return", verbs=("parse",)),
    Option("--latency", "the time from a function's entry to its return", verbs=("parse",)),
    Option("--hist", "a histogram of the numbers in a field", metavar="FIELD", kind="field", verbs=("parse",)),
    Option("--count", "how many events have each value", metavar="BY", kind="field", verbs=("parse",)),
    Option("--stacks", "folded stacks, for flame graphs", verbs=("parse",)),
    Option("--perfetto", "write a trace for ui.perfetto.dev", metavar="TRACE", kind="file", verbs=("parse",)),
    Option("--scenarios", "only these scenarios", metavar="LIST", verbs=("corpus", "test-parser")),
    Option(
        "--corpus",
        "the texts in this directory, with their truth, instead of the installed corpus",
        metavar="DIR",
        kind="directory",
        verbs=("corpus", "test-parser"),
    ),
    Option("--options", "only texts with all of these trace options", metavar="LIST", verbs=("test-parser",)),
    Option("--types", "compare only these types of records", metavar="LIST", verbs=("test-parser",)),
    Option("--dat", "give CMD a trace.dat instead of the text", verbs=("test-parser",)),
    Option("--stay", "start CMD once, and send it the texts' directories, one per line", verbs=("test-parser",)),
    Option("--limit", "the time limit for one text", metavar="SECONDS", kind="seconds", verbs=("test-parser",)),
    Option("--json", "the same as --format json", verbs=("test-parser",)),
    Option(
        "--format",
        "the output format",
        metavar="FORMAT",
        choices=("text", "json", "junit", "github"),
        verbs=("test-parser",),
    ),
    Option(
        "--baseline",
        "fail only by what this file doesn't have as known",
        metavar="FILE",
        kind="file",
        verbs=("test-parser",),
    ),
    Option("--update-baseline", "strike off what is repaired; write the file if there is none", verbs=("test-parser",)),
    Option("--break", "search for the shortest scenario that fools CMD", sets="breaks", verbs=("test-parser",)),
    Option("--seconds", "with --break: search this long at most", metavar="N", kind="seconds", verbs=("test-parser",)),
    Option("--rules", "with --break: only these rules", metavar="LIST", verbs=("test-parser",)),
    Option("--seed", "with --break: the seed of the search", metavar="N", kind="number", verbs=("test-parser",)),
    Option(
        "--confirm", "with --break: also try it on a real kernel", metavar="SPEC", kind="spec", verbs=("test-parser",)
    ),
)


def options_of(verb: str) -> tuple[Option, ...]:
    """Return the options of a verb, or those of a trace."""
    return tuple(option for option in OPTIONS if verb in option.verbs)


def verb_of(word: str) -> Verb | None:
    """Return the verb of that name."""
    return next((verb for verb in VERBS if verb.name == word), None)
