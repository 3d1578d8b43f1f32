"""Completions for a shell that asks for them, by argcomplete from our table.

The words before the cursor select the verb, or a trace; so argcomplete needs to know only its options, and not every
command line that begins with a verb or a definition.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import Any

from argcomplete.completers import DirectoriesCompleter, FilesCompleter, SuppressCompleter
from argcomplete.finders import CompletionFinder
from argcomplete.lexers import split_line

from kprobe.completion import sources, words
from kprobe.options.table import TRACE, TRACES, Option, options_of, verb_of, verbs
from kprobe_text.terminal.verb_words import VerbParser, apart


class Finder(CompletionFinder):
    """argcomplete's finder, made fast for tens of thousands of candidates."""

    def filter_completions(self, completions: list[str]) -> list[str]:
        """Return each candidate once."""
        return list(dict.fromkeys(completions))


def answer() -> None:
    """Write the completions for the shell's environment, and end the process."""
    given = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3][1:]
    takes = {name for option in options_of(TRACE) for name in option.names if option.metavar}
    _, before = apart(given, takes.__contains__)
    verb = before[0] if before and verb_of(before[0]) else TRACE
    Finder()(_parser(verb), always_complete_options=False, default_completer=SuppressCompleter())


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = VerbParser()
    if verb != TRACE:
        parser.add_argument("verb")
    own = options_of(verb)
    for option in own:
        _add(parser, option)
    if verb != TRACE and not any("--tracefs" in option.names for option in own):
        parser.add_argument("--tracefs", dest="tracefs", help=argparse.SUPPRESS)
        parser.add_argument("--version", action="store_true", help="the version")
    following: Any = parser.add_argument("words", nargs="*")
    following.completer = _Words(verb)
    return parser


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    help = option.help.partition(";")[0].replace("%", "%%")
    if not option.metavar:
        parser.add_argument(*option.names, dest=option.sets, action="store_true", help=help)
        return
    added: Any = parser.add_argument(
        *option.names, dest=option.sets, metavar=option.metavar, help=help, choices=option.choices or None
    )
    if option.kind == "file":
        added.completer = FilesCompleter()
    elif option.kind == "directory":
        added.completer = DirectoriesCompleter()
    elif option.kind == "spec":
        added.completer = lambda prefix, **_: sources.specs(prefix)
    elif option.kind == "kernels":
        added.completer = lambda prefix, **_: sources.kernels(prefix)
    elif option.kind == "pid":
        added.completer = lambda **_: sources.pids()


class _Words:
    """Completes the words after the options."""

    def __init__(self, verb: str) -> None:
        self._verb = verb

    def __call__(self, prefix: str, parsed_args: Any, **_: object) -> Iterable[str]:
        given: list[str] = list(parsed_args.words or ())
        source = sources.Offered(getattr(parsed_args, "tracefs", None))
        verb = verb_of(self._verb)
        if verb is None or self._verb in TRACES:
            found = words.after(given, prefix, source)
            is_latency = getattr(parsed_args, "latency", False)  # functions need no p: here
            if is_latency and prefix and not words.is_head(prefix) and all(map(_is_bare, given)):
                return source.functions(prefix)
            if not given and verb is None:
                return {**{one.name: one.help.partition(":")[0].partition(";")[0] for one in verbs()}, **found}
            return found
        if verb.kind == "function":
            if self._verb == "doctor" and words.is_head(prefix):
                return words.definition(prefix, source)
            return source.functions(prefix)
        if verb.kind == "file":
            return FilesCompleter()(prefix)
        return verb.kind.split() if " " in verb.kind else ()


def _is_bare(word: str) -> bool:
    """Say if a word is a definition, or a function's name that stands for one."""
    return words.is_head(word) or word.replace(".", "_").isidentifier()
