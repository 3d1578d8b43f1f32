"""The words after a verb, read by argparse: its options, wherever they stand, and its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kprobe_text.terminal import unknown_words
from kprobe_text.terminal.verb import UsageError

HELP_WORDS = ("-h", "--help")
WRONG = {"expected one argument": "takes a value", "ignored explicit argument": "takes no value"}  # argparse's, ours


class VerbParser(argparse.ArgumentParser):
    """Takes options wherever they stand; argparse itself wants all words of a list together."""

    def __init__(self) -> None:
        super().__init__("kprobe", add_help=False, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the options, then the other words, and last an option that lacks its value."""
        options, others = apart(list(args), self.takes_value)
        if options and self.takes_value(options[-1]):
            return super().parse_known_args(others + options, namespace)
        ends = ["--"] if any(word.startswith("-") for word in others) else []
        return super().parse_known_args(options + ends + others, namespace)

    def takes_value(self, name: str) -> bool:
        """Return whether an option of that name takes a value."""
        return any(name in action.option_strings and action.nargs != 0 for action in self._actions)

    def error(self, message: str) -> Any:
        """Raise `UsageError`: the caller says where to look."""
        names, _, what = message.removeprefix("argument ").partition(": ")
        ours = next((said for begins, said in WRONG.items() if what.startswith(begins)), "")
        raise UsageError(f"{names.partition('/')[0]} {ours}" if ours else message)


class _Given(argparse.Action):
    """Keeps each option as it was given, in the order of the command line."""

    def __call__(self, parser: object, namespace: Any, values: Any, name: str | None = None) -> None:
        namespace.given.append((name, values or ""))


def verb_options(
    argv: Sequence[str], switches: Collection[str], values: Mapping[str, Collection[str]], verb: str = ""
) -> tuple[list[tuple[str, str]], list[str]]:
    """Split the words of a verb into its options, each with its value, and the rest; `--` ends the options.

    `values` are the options that take a value, each with its possible values; an empty list allows any.  Words that
    begin with `-:`, as a deletion does, are not options.  Raise `UsageError`.
    """
    parser = VerbParser()
    for name in dict.fromkeys((*switches, *HELP_WORDS)):
        parser.add_argument(name, action=_Given, nargs=0)
    for name in values:
        parser.add_argument(name, action=_Given)
    options, others = apart(argv, parser.takes_value)
    found, strange = argparse.ArgumentParser.parse_known_args(parser, options, argparse.Namespace(given=[]))
    if strange:
        raise UsageError(unknown_words.option(strange[0], verb, (*switches, *HELP_WORDS, *values)))
    given: list[tuple[str, str]] = found.given
    for name, value in given:
        if values.get(name) and value not in values[name]:
            meant = unknown_words.near(value, values[name])
            raise UsageError(f"{name} is one of {', '.join(values[name])}, not {value!r}{meant}")
    return given, others


def apart(words: Iterable[str], takes: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    """Part words into options, each with its value, and the others; `--` ends the options and belongs to neither.

    An option that lacks its value comes last.
    """
    options: list[str] = []
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            others += rest
            break
        if not word.startswith("-") or word == "-" or word.startswith("-:"):
            others.append(word)
        elif not takes(word) or not rest:
            options.append(word)
        else:  # as one word, as argparse takes no value that begins with a minus
            options.append(f"{word}={rest.pop(0)}" if word.startswith("--") else word + rest.pop(0))
    return options, others


def usage_error(error: Exception, help_text: str) -> str:
    """Return the message for wrong words: what is wrong, and where it is explained."""
    return f"ERROR: {error}\n{' '.join(help_text.split()[1:3])} --help explains"
