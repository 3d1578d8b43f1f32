"""The screen of `kprobe top`, drawn by rich."""

from __future__ import annotations

from rich.bar import Bar
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kprobe.figures.rates import TABLES, Look, Row, summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

AROUND = 8  # lines of the screen that aren't rows
COLOURS = ("cyan", "green", "magenta")
NAMES = (None, 23, 4)  # columns that a name has: a task's 15, and its number


def shown(title: str, looks: Iterable[Look]) -> Look | None:
    """Show each look in place of the last, on a screen of its own that is left as it was; return the last."""
    last = None
    with Live(auto_refresh=False, screen=True, console=Console()) as live:
        for last in looks:
            live.update(Picture(title, last), refresh=True)
    return last


class Picture:
    """Draws one look as wide and high as the terminal is: events above, tasks and CPUs below, side by side."""

    def __init__(self, title: str, look: Look) -> None:
        self._title = title
        self._look = look

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give what rich draws."""
        events, tasks, cpus = self._look.tables
        height = max(options.height or console.size.height, AROUND + 4)
        upper = min(len(events), max(1, (height - AROUND) // 2))
        lower = max(1, height - AROUND - upper)
        below = Table.grid(expand=True, padding=(0, 2))
        below.add_column(ratio=3)
        below.add_column(ratio=2)
        below.add_row(self._table(1, tasks, lower), self._table(2, cpus, lower))
        yield Group(
            Text(f"kprobe top  {self._title}", style="bold", no_wrap=True, overflow="ellipsis"),
            Text(summary(self._look), style="red" if self._look.lost or self._look.gaps else ""),
            Text(),
            self._table(0, events, upper),
            Text(),
            below,
            Text("Ctrl-C ends", style="dim"),
        )

    def _table(self, which: int, rows: Sequence[Row], most: int) -> Table:
        table = Table(box=None, expand=True, padding=(0, 2, 0, 0), header_style="bold underline")
        table.add_column("PER SECOND", justify="right", width=12)
        table.add_column("IN ALL", justify="right", width=10)
        width = NAMES[which]
        table.add_column(TABLES[which], width=width, ratio=None if width else 2, no_wrap=True, overflow="ellipsis")
        table.add_column("", ratio=3, no_wrap=True)
        top = max((row.rate for row in rows), default=0.0)
        for row in rows[:most]:
            style = "" if row.rate else "dim"
            cells = (f"{row.rate:,.1f}", f"{row.total:,}", row.name)
            drawn = Bar(top or 1.0, 0, row.rate, color=COLOURS[which])
            table.add_row(*(Text(cell, style=style) for cell in cells), drawn)
        return table
