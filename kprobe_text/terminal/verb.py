"""The verbs that packages add to `kprobe`, and their options, from which usage, help and man page are made.

A package adds one by an entry point of the group `kprobe.verbs`, which has the verb's name and leads to its `Verb`.
"""

from __future__ import annotations

from kprobe_text.entry_points import entries

TRACE = ""  # the verb of a command line without one: a trace
ANY = 1 << 30  # no limit on the number of words
GROUP = "kprobe.verbs"


class UsageError(Exception):
    """The command line makes no sense; the text says why, and `verb` is the verb concerned, "" for a trace."""

    verb = ""


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

    `module`, whole: its `run(tracefs, output, signals, request)` does it or, if the verb `reads` its words
    itself, `main(words, output, signals)`.  `words` are what follows it, for the usage; `kind` what they are, for their
    completion: function, spec, file, or the words that there are, with blanks between; `least` and `most` say how many.
    `examples` end its help.  `options` are those of a verb that reads its words itself.
    """

    __slots__ = ("examples", "help", "kind", "least", "module", "most", "name", "options", "reads", "usage", "words")

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
        options: tuple[Option, ...] = (),
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
        self.options = options


def added_verbs() -> tuple[Verb, ...]:
    """Return the verbs that packages add, by name."""
    found: list[Verb] = [point.load() for point in entries(GROUP)]
    return tuple(sorted(found, key=lambda verb: verb.name))


def added_verb(word: str) -> Verb | None:
    """Return the verb of that name that a package adds."""
    if not (word[:1].isalpha() and word.replace("-", "").isalpha()):  # a definition, mostly
        return None
    point = next((point for point in entries(GROUP) if point.name == word), None)
    verb: Verb | None = point.load() if point else None
    return verb
