"""Plain columns for a terminal, a pipe or a file."""

from __future__ import annotations

from collections.abc import Sequence

GAP = "  "


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as lines of columns, two blanks apart; the last column isn't padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(line + "\n" for line in lines)
