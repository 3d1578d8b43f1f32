"""Colours for our own messages on a terminal, by the kind of line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MARKS = {"ERROR": "1;31", "STOPS": "1;31", "WARNING": "1;33", "NOTE": "1;36", "hint": "36"}  # as SGR of ECMA-48
HEADING = "1"


def has_colours(environ: Mapping[str, str]) -> bool:
    """Say whether the terminal has colours and its user wants them: NO_COLOR is empty or unset (no-color.org)."""
    return not environ.get("NO_COLOR") and environ.get("TERM", "dumb") not in ("", "dumb")


def marked(text: str) -> str:
    """Colour the word and colon that begin a line, where the word is one of ours."""
    return "\n".join(map(_marked, text.split("\n")))


def headed(text: str) -> str:
    """Colour such words, and the headings of a table, which are in capitals."""
    first, newline, rest = text.partition("\n")
    if first.replace(" ", "").isalpha() and first.isupper():
        return f"\x1b[{HEADING}m{first}\x1b[0m{newline}{marked(rest)}"
    return marked(text)


def _marked(line: str) -> str:
    word, colon, rest = line.partition(":")
    return f"\x1b[{MARKS[word]}m{word}\x1b[0m:{rest}" if colon and word in MARKS else line
