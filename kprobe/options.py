"""The command line: perf-tools' options, and a few long ones."""

from __future__ import annotations

SHORT = "Fd:hHp:L:sv"  # as in getopt(3): a colon after those that take a value
LONG = ("help", "version", "tracefs=", "top-level", "follow", "raw", "dry-run", "json")
# What else the first word can be, as a definition has a colon, or is p or r -> the module below kprobe whose `main`
# reads the words after it; "" where they are read here
VERBS = {
    "clean": "",
    "list": "",
    "functions": "",
    "args": "",
    "check": "check.command",
    "parse": "parsing.command",
    "corpus": "corpus.command",
    "test-parser": "readers.command",
}
WITH_VERBS = ("-h", "--help", "--version", "--tracefs")
# Those that are read here -> the module whose `run` does it, the options, and how many words: at least, at most
ACTS: dict[str, tuple[str, tuple[str, ...], int, int]] = {
    "clean": ("clean", ("--dry-run",), 0, 0),
    "list": ("probing.event_table", ("--json",), 0, 0),
    "functions": ("probing.function_table", ("-v",), 1, 1 << 30),
    "args": ("probing.arguments", (), 1, 1),
}
SWITCHES = {  # options without a value -> what of the request they set
    "-F": "force",
    "-H": "headers",
    "-s": "stacktrace",
    "-v": "view",
    "-h": "help",
    "--help": "help",
    "--version": "version",
    "--top-level": "top_level",
    "--follow": "follow",
    "--raw": "raw",
    "--dry-run": "dry_run",
    "--json": "json",
}
FOR_TRACES = frozenset(SWITCHES) - {"--dry-run", "--json"} | {"-d", "-p", "-L"}

USAGE = """\
USAGE: kprobe [-FhHsv] [-d secs] [-p PID] [-L TID] [--tracefs SPEC] definition [filter]
       kprobe clean [--dry-run] [--tracefs SPEC]
       kprobe list [--json] [--tracefs SPEC]
       kprobe functions NAME|PATTERN ... [-v] [--tracefs SPEC]
       kprobe args FUNCTION [--tracefs SPEC]
       kprobe check [--kernels LIST] [--format FORMAT] FILE|-|DEFINITION ...
       kprobe parse [--format FORMAT] [--schema PATH] ... [FILE ...]
       kprobe corpus list|check|export DIR [--kernels LIST] [--scenarios LIST]
       kprobe test-parser [--break] [OPTION ...] -- CMD [ARGUMENT ...]
"""

HELP = (
    USAGE
    + """\

Trace one kernel probe, print what the kernel records, and leave nothing behind.

  -F               force: no warnings before the kernel has decided
  -d secs          trace that long; events stay in the kernel and are printed at the end
  -p PID           only this process, with all its threads
  -L TID           only this thread
  -v               show the event's format (the fields for a filter); don't trace
  -H               print the column headings first
  -s               kernel stack traces
  -h, --help       this text
  --tracefs SPEC   where: local (the machine's own), local:DIR, sim:6.1 (simulated), vm:6.1 (a guest);
                   the default is $KPROBE_TRACEFS, else local
  --follow         with -p: also what the process forks
  --raw            read raw pages in place of text: exact, whatever strings hold; printed as kprobe parse prints
  --top-level      don't make an instance of its own below instances/
  --version        the version

  clean            remove what kprobes left that were killed (kill -9), as every kprobe does before it begins: events
                   and instances that are called after a process that is gone; nothing else
  --dry-run        with clean: only say what there is
  list             every dynamic event: whose it is, where it is enabled, its hits and what the kernel missed
  --json           with list: an object a line
  functions        which functions there are of these names (* ? [...]), if each can be probed, or why not, its address,
                   module and C prototype; -v: also what holds each parameter
  args             definitions that fetch a function's arguments and what it returns, as the kernel takes them
  check            what every simulated kernel makes of definitions, filters and triggers, and what all take instead:
                   kprobe check -h
  parse            what the text of a trace says, as text, JSON lines or CSV: kprobe parse -h
  corpus           traces of many kernels, each with what it says, to test readers with: kprobe corpus -h
  test-parser      hold any parser of trace text to these traces, or search what fools it: kprobe test-parser -h

definition: p:FUNCTION or r:FUNCTION [ARGUMENT ...], or with a name of your own p:NAME FUNCTION [ARGUMENT ...];
  also rN:, p:GROUP/NAME, MODULE:FUNCTION+OFFSET, an address. p: is at the entry, r: at the return.
filter: the kernel's event filter, such as 'file ~ "*stat"'

  kprobe p:do_sys_openat2                                               opens
  kprobe 'r:myopen do_sys_openat2 fd=$retval:s32'                       what they return, under a name of your own
  kprobe 'p:do_sys_openat2 file=+0(%si):string' 'file ~ "*stat"'        files whose name ends in "stat"
  kprobe -s p:tcp_retransmit_skb                                        with the kernel stack
  kprobe --tracefs sim:6.1 p:do_sys_openat2                             on a simulated kernel: no root, no risk

The kernel's lines go to stdout unchanged, everything else to stderr.
Exit status: 0 done, also after Ctrl-C; 1 the kernel refused; 2 a wrong command line or definition; 3 no tracefs, no
permission, no such backend; 4 something could not be undone, or removed; 128 and its number: ended by a signal (129
SIGHUP, 131 SIGQUIT, 143 SIGTERM; 130 SIGINT before tracing); 141 nobody reads the output any more.
"""
)


class UsageError(Exception):
    """The command line makes no sense; the text says why."""


class CommandLine:
    """What the command line asks for."""

    def __init__(self) -> None:
        self.verb = ""
        self.words: tuple[str, ...] = ()  # of the verb
        self.dry_run = False
        self.json = False
        self.definition = ""
        self.filter = ""
        self.duration: float | None = None
        self.duration_text = ""
        self.pid: int | None = None
        self.tid: int | None = None
        self.tracefs: str | None = None
        self.force = False
        self.headers = False
        self.stacktrace = False
        self.view = False
        self.top_level = False
        self.follow = False
        self.raw = False
        self.help = False
        self.version = False


def read_options(argv: list[str]) -> CommandLine:
    """Read the arguments of the command; raise `UsageError`."""
    request = CommandLine()
    options, words = _split(argv)
    if words and words[0] in VERBS:
        if VERBS[words[0]]:
            raise UsageError(f"{words[0]} comes first, before its options")
        request.verb, words = words[0], words[1:]
        more, words = _spread(words)
        options += more
    for option, value in options:
        _take(request, option, value)
    if request.help or request.version:
        return request
    if request.verb:
        _check_verb(request.verb, options, words)
        request.words = tuple(words)
        return request
    for option, _ in options:
        verbs = [verb for verb, act in ACTS.items() if option in act[1]]
        if verbs and option not in FOR_TRACES:
            raise UsageError(f"{option} goes with {' or '.join(verbs)}")
    request.definition, request.filter = _definition_and_filter(words)
    _check_trace(request)
    return request


def _take(request: CommandLine, option: str, value: str) -> None:
    if option in SWITCHES:
        setattr(request, SWITCHES[option], True)
    elif option == "-d":
        request.duration, request.duration_text = _seconds(value), value
    elif option == "-p":
        request.pid = _id(option, value)
    elif option == "-L":
        request.tid = _id(option, value)
    else:  # --tracefs
        request.tracefs = value


def _check_verb(verb: str, options: list[tuple[str, str]], words: list[str]) -> None:
    """Refuse what a verb doesn't take, and that it lacks what it needs."""
    _, own, least, most = ACTS[verb]
    for option, _ in options:
        if option not in (*WITH_VERBS, *own):
            others = [other for other, act in ACTS.items() if option in act[1]]
            where = "traces" if option in FOR_TRACES else " or ".join(others)
            raise UsageError(f"{option} is for {where}, not for {verb}")
    if len(words) > most:
        raise UsageError(f"{verb} takes no {words[most]!r}")
    if len(words) < least:
        raise UsageError(f"{verb} takes a function's name")


def _check_trace(request: CommandLine) -> None:
    """Refuse options of a trace that exclude or miss each other."""
    if request.pid is not None and request.tid is not None:
        raise UsageError("use at most one of -p and -L.")
    if request.duration is not None and request.view:
        raise UsageError("use either -d or -v.")
    if request.raw and (request.headers or request.view):
        raise UsageError(f"--raw has no text of the kernel: leave {'-H' if request.headers else '-v'} out")
    if request.follow and request.pid is None:
        raise UsageError("--follow needs -p.")


def _definition_and_filter(words: list[str]) -> tuple[str, str]:
    """Tell the two words apart from what a user may give in their place; raise `UsageError`."""
    if not words:
        raise UsageError("a definition is missing")
    definition, *rest = words
    if definition.isidentifier() and definition not in ("p", "r"):
        raise UsageError(
            f"{definition!r} is no definition: p:{definition} traces calls of such a function, r:{definition} its "
            f"returns; and no verb, which would be {' or '.join(VERBS)}"
        )
    for word in rest:
        if _is_option(word):
            raise UsageError(f"options come before the definition: {word}")
        if _is_definition(word):
            raise UsageError(f"{word!r} is a second definition, not a filter: one probe at a time")
    if len(rest) > 1:
        raise UsageError(f"too many arguments: quote the definition, and the filter{_quoted(words)}")
    if rest and _is_part_of_a_definition(rest[0]):
        raise UsageError(f"{rest[0]!r} is no filter; if it belongs to the definition, quote both{_quoted(words)}")
    return definition, "".join(rest)


def _is_option(word: str) -> bool:
    name = word.partition("=")[0]
    is_long = name[:2] == "--" and any(name[2:] == long.rstrip("=") for long in LONG)
    return is_long or (len(word) > 1 and word[0] == "-" and word[1] != ":" and word[1] in SHORT)


def _is_definition(word: str) -> bool:
    head, colon, _ = word.partition(":")
    return bool(colon) and head[:1] in ("p", "r") and (not head[1:] or head[1:].isdigit())


def _is_part_of_a_definition(text: str) -> bool:
    """True if it has no operator of a filter, and is a place or begins as a fetch argument does."""
    if any(operator in text.replace("->", "") for operator in ("==", "!=", "<", ">", "&", "|", "~")):
        return False
    first = (text.split() or ["0"])[0]
    value = first.partition("=")[2] or first
    is_place = first.replace(".", "_").replace("+", "_").replace(":", "_").isidentifier()
    return value[0] in "%$@+-\\" or (is_place and "=" not in text)


def _quoted(words: list[str]) -> str:
    text = " ".join(words)
    return "" if "'" in text else f": kprobe '{text}'"


def _split(argv: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split the arguments into options and the rest, as getopt(3) does: the first word that is none ends the options.

    Python's own getopt would cost more time than all of this package, by what it imports.
    """
    options: list[tuple[str, str]] = []
    rest = list(argv)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if name[2:] + "=" in LONG:
                options.append((name, value if equals else _value(name, rest)))
            elif name[2:] in LONG and not equals:
                options.append((name, ""))
            else:
                raise UsageError(f"unknown option {word}")
            continue
        letters = word[1:]
        while letters:
            name, letters = "-" + letters[0], letters[1:]
            if name[1] not in SHORT.replace(":", ""):
                raise UsageError(f"unknown option {name}")
            if name[1] + ":" in SHORT:
                options.append((name, letters or _value(name, rest)))
                break
            options.append((name, ""))
    return options, rest


def _spread(argv: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split the words after a verb into its options, wherever they stand, and the rest; `--` ends the options."""
    options: list[tuple[str, str]] = []
    words: list[str] = []
    end = argv.index("--") if "--" in argv else len(argv)
    rest, last = argv[:end], argv[end + 1 :]
    while rest:
        more, rest = _split(rest)
        options += more
        words += rest[:1]
        rest = rest[1:]
    return options, words + last


def _value(name: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"{name} takes a value")
    return rest.pop(0)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise UsageError(f"-d takes a number of seconds, not {text!r}")
    return seconds


def _id(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise UsageError(f"{option} takes a number, not {text!r}")
    return int(text)
