"""The options and verbs of `kprobe`: one table that usage, help, parsing, completion and man page are made from."""

from __future__ import annotations

from kprobe_text.terminal.verb import ANY, TRACE, Option, Verb, added_verb, added_verbs

__all__ = ["ANY", "OPTIONS", "OWN", "TRACE", "TRACES", "VERBS", "Option", "Verb", "options_of", "verb_of", "verbs"]

TRACES = (TRACE, "top")  # options that show events as they come

# The verbs of this package; others add theirs (kprobe_text.terminal.verb).
VERBS = (
    Verb(
        "clean",
        "kprobe.undo.command",
        "remove what killed sessions of kprobe (kill -9) left behind, as every kprobe does before it begins: events "
        "and instances named after a process that is gone, and nothing else",
        examples="""\
  kprobe clean --dry-run                                what it would remove

Exit status: 0 done; 3 no tracefs, no permission; 4 something could not be removed.
""",
    ),
    Verb(
        "list",
        "kprobe.events.command",
        "list every dynamic event: its owner, where it is enabled, its hits and those that the kernel missed",
        examples="""\
  kprobe --tracefs sim:6.1 list                         of a simulated kernel
""",
    ),
    Verb(
        "doctor",
        "kprobe.doctor.command",
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
        "kprobe.functions.command",
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
        "kprobe.functions.arguments",
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
        "kprobe.views.top",
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
        "completion",
        "kprobe.completion.command",
        "print what a shell needs to complete all of this: kprobe completion -h",
        kind="bash zsh fish",
        least=1,
        most=1,
        reads=True,
        usage="bash|zsh|fish",
    ),
)
OWN = tuple(verb.name for verb in VERBS if not verb.reads)
HELP = Option("-h --help", "this text", verbs=(TRACE, *(verb.name for verb in VERBS)))

# In the order of the help: options of traces and of all verbs, then options of single verbs, given after their verb.
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
    HELP,
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
    Option("--json", "print JSON, one object per line: docs/reference/json.md", verbs=(TRACE, "list", "doctor")),
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
)


def verbs() -> tuple[Verb, ...]:
    """Return all verbs; verbs of other packages come last."""
    return (*VERBS, *added_verbs())


def options_of(verb: str) -> tuple[Option, ...]:
    """Return the options of a verb, or those of a trace."""
    own = tuple(option for option in OPTIONS if verb in option.verbs)
    if own or (added := added_verb(verb)) is None:
        return own
    return (HELP, *added.options)


def verb_of(word: str) -> Verb | None:
    """Return the verb of that name."""
    return next((verb for verb in VERBS if verb.name == word), None) or added_verb(word)


def places_of(name: str) -> list[str]:
    """Return the verbs with an option, "" for traces; verbs that parse their words themselves only if no others."""
    places = [place for option in OPTIONS if name in option.names for place in option.verbs]
    places = list(dict.fromkeys(place for place in places if not place or not _reads(place)))
    readers = [verb for verb in verbs() if verb.reads]
    return places or [verb.name for verb in readers for option in options_of(verb.name) if name in option.names]


def _reads(place: str) -> bool:
    return next(verb.reads for verb in VERBS if verb.name == place)
