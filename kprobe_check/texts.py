"""A text that a script or a program composes: what is known of it, and what isn't."""

from __future__ import annotations

from typing import NamedTuple

from kprobe_check.statement import Position, Statement

_LONGEST = 4 << 20  # characters of a text
_SHOWN = 60  # characters of something unknown


class Text(NamedTuple):
    """A text, what in it isn't known, as it is written there, and where it begins.

    `because` says why it can't be known, where that isn't plain; `rows` is how many lines of the source it goes on for.
    """

    text: str
    unknowns: tuple[str, ...] = ()
    position: Position = Position()
    because: str = ""
    rows: int = 0


def unknown(written: str, position: Position | None = None, because: str = "") -> Text:
    """Return a text of which nothing is known but how it is written."""
    shown = " ".join(written.split())
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
    return Text(shown, (shown,), position or Position(), because)


def plus(one: Text, other: Text) -> Text:
    """Return two texts as one, which begins where the first does, or where the other one if that isn't known."""
    if not one.position.line:
        one = one._replace(position=other.position)
    if len(one.text) + len(other.text) > _LONGEST:
        return Text("…", ("…",), one.position)
    new = tuple(name for name in other.unknowns if name not in one.unknowns)
    return one._replace(text=one.text + other.text, unknowns=one.unknowns + new, because=one.because or other.because)


def unclear(statement: Statement, said: Text) -> Statement:
    """Return a statement that stands in a text with what keeps it from being asked, if anything does."""
    name = next((name for name in said.unknowns if name in statement.text), "")
    if not name or statement.unclear:
        return statement
    return statement._replace(unclear=said.because or f"what {name} is isn't known")
