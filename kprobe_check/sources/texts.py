"""A text that a script or a program composes: its known and its unknown parts."""

from __future__ import annotations

from typing import NamedTuple

from kprobe_check.statement import Position, Statement

_LONGEST = 4 << 20  # characters of a text
_SHOWN = 60  # characters of something unknown


class Text(NamedTuple):
    """A text, its unknown parts as written in the source, and where it begins.

    `because` says why it can't be known, unless that is obvious; `rows` is its number of lines in the source.
    """

    text: str
    unknowns: tuple[str, ...] = ()
    position: Position = Position()
    because: str = ""
    rows: int = 0


def unknown(written: str, position: Position | None = None, because: str = "") -> Text:
    """Return an unknown text, with its code in the source."""
    shown = " ".join(written.split())
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
    return Text(shown, (shown,), position or Position(), because)


def plus(first: Text, second: Text) -> Text:
    """Return two texts as one, which begins where the first does or, if unknown, the second."""
    if not first.position.line:
        first = first._replace(position=second.position)
    if len(first.text) + len(second.text) > _LONGEST:
        return Text("…", ("…",), first.position)
    new = tuple(name for name in second.unknowns if name not in first.unknowns)
    return first._replace(
        text=first.text + second.text, unknowns=first.unknowns + new, because=first.because or second.because
    )


def unclear(statement: Statement, value: Text) -> Statement:
    """Return a statement in a text with the reason why it can't be asked, if any."""
    name = next((name for name in value.unknowns if name in statement.text), "")
    if not name or statement.unclear:
        return statement
    return statement._replace(unclear=value.because or f"what {name} is isn't known")
