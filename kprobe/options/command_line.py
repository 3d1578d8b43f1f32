"""The command line of `kprobe`: perf-tools' options and a few long ones, read with the table of options."""

from __future__ import annotations

from kprobe.options.trace_words import definitions_and_filter, with_functions
from kprobe_text.terminal.verb import UsageError

from .table import TRACE, VERBS, options_of, places_of, verb_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .table import Option, Verb

NUMBER = frozenset("0123456789.eE+-")  # float() takes more: 1_0, blanks, digits of other scripts

__all__ = ["CommandLine", "UsageError", "read_options"]


class CommandLine:
    """A parsed command line; the table names each option's attribute."""

    def __init__(self) -> None:
        self.verb = ""
        self.words: tuple[str, ...] = ()  # of the verb
        self.dry_run = False
        self.json = False
        self.definitions: tuple[str, ...] = ()
        self.filter = ""
        self.duration: float | None = None
        self.pid: int | None = None
        self.tid: int | None = None
        self.tracefs: str | None = None
        self.force = False
        self.headers = False
        self.stacktrace = False
        self.view = False
        self.top_level = False
        self.follow = False
        self.try_for: float | None = None
        self.raw = False
        self.max_probes: int | None = None
        self.csv = False
        self.latency = False
        self.stacks = False
        self.hist = ""
        self.count = ""
        self.max_events: int | None = None
        self.timeout: float | None = None
        self.buffer_size: int | None = None
        self.cpus: tuple[int, ...] | None = None
        self.into = ""
        self.help = False
        self.version = False
        self.texts: dict[str, str] = {}  # attribute -> its value as it was written

    @property
    def wants_records(self) -> bool:
        """True if records are needed, not only the kernel's text."""
        return bool(self.json or self.csv or self.latency or self.stacks or self.hist or self.count)


def read_options(argv: list[str]) -> CommandLine:
    """Read the arguments of the command; raise `UsageError`, which has the verb."""
    request = CommandLine()
    try:
        _read(argv, request)
    except UsageError as error:
        error.verb = request.verb
        raise
    return request


def _read(argv: list[str], request: CommandLine) -> None:
    options, words = _split(argv)
    verb = verb_of(words[0]) if words else None
    if verb is not None:
        request.verb = verb.name
        if verb.reads:
            raise UsageError(f"{verb.name} comes first, before its options")
        more, words = _of_verb(verb, words[1:])
        options += more
    for option, value in options:
        _take(request, option, value)
    if request.help or request.version:
        return
    for name, _ in options:
        _check(name, request.verb)
    if verb is not None:
        if len(words) > verb.most:
            raise UsageError(f"{verb.name} takes no {words[verb.most]!r}")
        if len(words) < verb.least:
            what = "definition" if verb.kind == "definition" else "function's name"
            raise UsageError(f"{verb.name} takes a {what}")
        request.words = tuple(words)
        return
    if request.latency:
        words = with_functions(words)
    request.definitions, request.filter = definitions_and_filter(words, _names())
    _check_trace(request)


def _of_verb(verb: Verb, words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split the words after a verb into its options, wherever they stand, and other words."""
    from kprobe_text.terminal.verb_words import (
        verb_options,  # and so argparse, which takes as long to import as all of this
    )

    own = [option for option in options_of(verb.name) for _ in option.names]
    names = [name for option in options_of(verb.name) for name in option.names]
    switches = [name for name, option in zip(names, own, strict=True) if not option.metavar]
    values = {name: option.choices for name, option in zip(names, own, strict=True) if option.metavar}
    return verb_options(words, switches, values, verb.name)


def _names() -> frozenset[str]:
    return frozenset(name for option in options_of(TRACE) for name in option.names)


def _take(request: CommandLine, name: str, value: str) -> None:
    option = _option(name)
    found: object = True
    if option.metavar:
        found = _value(name, option, value)
        request.texts[option.sets] = value
    setattr(request, option.sets, found)


def _value(name: str, option: Option, text: str) -> object:
    """Return an option's value, read by its kind; raise `UsageError`."""
    if option.choices and text not in option.choices:
        raise UsageError(f"{name} is one of {', '.join(option.choices)}, not {text!r}")
    if option.kind == "seconds":
        try:
            seconds = float(text) if NUMBER.issuperset(text) else -1.0
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < 1e9:
            raise UsageError(f"{name} takes a number of seconds, not {text!r}")
        return seconds
    if option.kind in ("number", "pid"):
        if not (text.isascii() and text.isdigit()) or len(text) > 9:
            raise UsageError(f"{name} takes a number, not {text!r}")
        return int(text)
    if not text:  # an unset shell variable: trace and write only what was asked for
        raise UsageError(f"{name} takes a value, and this one is empty")
    return _cpus(name, text) if option.kind == "cpus" else text


def _cpus(name: str, text: str) -> tuple[int, ...]:
    """Read a list of CPUs in the kernel's format: 0,2-3."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        last = last if "-" in part else first
        if not all(one.isascii() and one.isdigit() and len(one) < 5 for one in (first, last)) or int(last) < int(first):
            raise UsageError(f"{name} takes CPUs such as 0,2-3, not {text!r}")
        found += range(int(first), int(last) + 1)
    return tuple(found)


def _option(name: str) -> Option:
    """Return the option of a trace, or else of a verb that is read here, that has this name."""
    own = [verb.name for verb in VERBS if not verb.reads]
    for verb in (TRACE, *own):
        for option in options_of(verb):
            if name in option.names:
                return option
    from kprobe_text.terminal import unknown_words

    raise UsageError(unknown_words.option(name, "", _names()))


def _check(name: str, verb: str) -> None:
    """Refuse an option that this verb, or a trace, doesn't have."""
    if any(name in option.names for option in options_of(verb)):
        return
    from kprobe_text.terminal import unknown_words

    raise UsageError(unknown_words.elsewhere(name, verb, places_of(name)))


def _check_trace(request: CommandLine) -> None:
    """Refuse options of a trace that exclude or lack each other."""
    if request.pid is not None and request.tid is not None:
        raise UsageError("use at most one of -p and -L.")
    if request.duration is not None and request.view:
        raise UsageError("use either -d or -v.")
    figures = [f"--{name}" for name in ("latency", "stacks", "hist", "count") if getattr(request, name)]
    forms = [f"--{name}" for name in ("json", "csv", "raw") if getattr(request, name)]
    if len(figures) > 1 or len(forms) > 1:
        raise UsageError(f"{' and '.join(figures if len(figures) > 1 else forms)} exclude each other")
    if figures and forms and forms != ["--json"]:
        raise UsageError(f"{figures[0]} and {forms[0]} exclude each other")
    if (forms or figures) and (request.headers or request.view):
        what = [*figures, *forms][0]
        raise UsageError(f"{what} has no text of the kernel: leave {'-H' if request.headers else '-v'} out")
    if request.timeout is not None and (request.duration is not None or request.view):
        raise UsageError(f"use either --timeout or {'-v' if request.view else '-d'}.")
    counts = {
        "--max-events": request.max_events,
        "--buffer-size": request.buffer_size,
        "--max-probes": request.max_probes,
    }
    for name, number in counts.items():
        if number == 0:
            raise UsageError(f"{name} takes a number from 1 on")
    if request.follow and request.pid is None:
        raise UsageError("--follow needs -p.")


def _split(argv: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split the arguments into options and the rest, as getopt(3) does: the first word that is none ends the options.

    Importing Python's getopt would take longer than importing this package.
    """
    options: list[tuple[str, str]] = []
    rest = list(argv)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            takes = bool(_option(name).metavar)
            if equals and not takes:
                raise UsageError(f"{name} takes no value")
            options.append((name, value if equals else _next(name, rest) if takes else ""))
            continue
        if len(word) > 2 and "-" + word.partition("=")[0] in _names():  # of several letters, with one minus
            from kprobe_text.terminal import unknown_words

            raise UsageError(unknown_words.option(word, "", _names()))
        letters = word[1:]
        while letters:
            name, letters = "-" + letters[0], letters[1:]
            if _option(name).metavar:
                options.append((name, letters or _next(name, rest)))
                break
            options.append((name, ""))
    return options, rest


def _next(name: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"{name} takes a value")
    return rest.pop(0)
