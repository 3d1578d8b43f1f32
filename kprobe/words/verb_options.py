"""The words after a verb: its options, wherever they stand, and its arguments."""

from __future__ import annotations

from kprobe.words.options import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

HELP_WORDS = ("-h", "--help")


def verb_options(
    argv: Sequence[str], switches: Collection[str], values: Mapping[str, Collection[str]]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Split the words of a verb into its options, each with its value, and the rest; `--` ends the options.

    `values` are the options that take a value, each with those that it can have; none stands for any.  Words that begin
    with `-:`, as a deletion does, are none of the options.  Raise `UsageError`.
    """
    options: list[tuple[str, str]] = []
    others: list[str] = []
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            others += words
            break
        if word == "-" or word.startswith("-:") or not word.startswith("-"):
            others.append(word)
        elif word in switches or word in HELP_WORDS:
            options.append((word, ""))
        else:
            name, equals, value = word.partition("=")
            if name not in values:
                raise UsageError(f"unknown option {word}")
            if not equals and not words:
                raise UsageError(f"{name} takes a value")
            value = value if equals else words.pop(0)
            if values[name] and value not in values[name]:
                raise UsageError(f"{name} is one of {', '.join(values[name])}, not {value!r}")
            options.append((name, value))
    return options, others


def usage_error(error: Exception, help_text: str) -> str:
    """Return what to say of wrong words: what is wrong, the first line of the verb's help, and where the rest is."""
    usage = help_text.partition("\n")[0]
    return f"ERROR: {error}\n{usage}\n{' '.join(usage.split()[1:3])} -h explains"
