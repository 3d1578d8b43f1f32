"""The parser of the command line: it explains wrong words, and splits off a command for the guest."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import NoReturn


class Words(argparse.ArgumentParser):
    """Explains a wrong word in one line, suggests the right one, and says where to look."""

    @property
    def verbs(self) -> dict[str, Words]:
        """The parsers of the verbs, by name."""
        return dict(next(one.choices for one in self._actions if isinstance(one, argparse._SubParsersAction)))

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words of the command; a wrong one ends the process, as argparse does."""
        verb = next((word for word in words if not word.startswith("-")), "")
        if verb and verb not in self.verbs:
            self.error(f"no verb {verb!r}{_near(verb, self.verbs) or ': ' + ', '.join(self.verbs)}")
        parsed, strange = self.parse_known_args(words)
        if strange:
            asked = self.verbs[parsed.verb]
            options = [name for action in asked._actions for name in action.option_strings]
            is_option = strange[0].startswith("-")
            meant = _near(strange[0].partition("=")[0], options) if is_option else ""
            asked.error(f"{'unknown option' if is_option else 'one word too many:'} {strange[0]}{meant}")
        return parsed

    def error(self, message: str) -> NoReturn:
        """End the process with status 2."""
        self.exit(2, f"{self.prog}: {message}\n{self.prog} --help explains\n")


def _near(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def divided(words: Sequence[str], verb: str, parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """Split the words of a command line into its own and those of a command for the guest.

    That command follows `--`; after the verb `verb` it also begins with the second word that isn't an option (the first
    is the kernel), and what follows belongs to it, `--` too.
    """
    end = list(words).index("--") if "--" in words else len(words)
    begun, taken, is_value = False, 0, False
    for index, word in enumerate(words[:end]):
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = begun and "=" not in word and _takes_value(word, parser)
        elif not begun:
            if word != verb:
                break
            begun = True
        elif taken:
            return list(words[:index]), list(words[index:])
        else:
            taken += 1
    return list(words[:end]), list(words[end + 1 :])


def _takes_value(word: str, parser: argparse.ArgumentParser) -> bool:
    """Return whether a word is an option, abbreviated perhaps, whose value is the next word."""
    actions = [(name, action) for action in parser._actions for name in action.option_strings]
    named = [action for name, action in actions if name == word]
    named = named or [action for name, action in actions if word[:2] == "--" and name.startswith(word)]
    return bool(named) and named[0].nargs != 0
