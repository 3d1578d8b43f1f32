"""The screen of `kprobe top`, drawn by rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.bar import Bar
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kprobe_text.figures.rates import TABLES, Row, Sample, summary

AROUND = 8  # lines of the screen that aren't rows
COLOURS = ("cyan", "green", "magenta")
NAMES = (None, 23, 4)  # columns of a name: 15 for a task's name, then its number
BESIDE = 78  # the least columns for tasks and CPUs side by side
BARS = 60  # the least columns for bars


def shown(title: str, samples: Iterable[Sample], ends: str = "Ctrl-C ends") -> Sample | None:
    """Show each sample in place of the last, on an alternate screen; return the last."""
    last = None
    with Live(auto_refresh=False, screen=True, console=Console()) as live:
        for last in samples:
            live.update(Picture(title, last, ends), refresh=True)
    return last


class Picture:
    """Draws one sample in the size of the terminal: events above, tasks and CPUs below.

    These are side by side where that fits, else one below the other.
    """

    def __init__(self, title: str, sample: Sample, ends: str) -> None:
        self._title = title
        self._sample = sample
        self._ends = ends

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what rich draws."""
        events, tasks, cpus = self._sample.tables
        width = options.max_width
        is_beside = width >= BESIDE
        room = (options.height or console.size.height) - AROUND - (0 if is_beside else 2)
        upper = min(len(events), max(1, room // 2))
        lower = max(1 if is_beside else 2, room - upper)
        if is_beside:
            below = Table.grid(expand=True, padding=(0, 2))
            below.add_column(ratio=3)
            below.add_column(ratio=2)
            below.add_row(self._table(1, tasks, lower, width), self._table(2, cpus, lower, width))
            rest: list[Table | Text] = [below]
        else:
            last = min(len(cpus), max(1, lower // 2))
            rest = [self._table(1, tasks, lower - last, width), Text(), self._table(2, cpus, last, width)]
        yield Group(
            Text(f"kprobe top  {self._title}", style="bold", no_wrap=True, overflow="ellipsis"),
            Text(summary(self._sample), style="red" if self._sample.lost or self._sample.gaps else "", no_wrap=True),
            Text(),
            self._table(0, events, upper, width),
            Text(),
            *rest,
            Text(self._ends, style="dim"),
        )

    def _table(self, which: int, rows: Sequence[Row], most: int, width: int) -> Table:
        has_bars = width >= BARS
        table = Table(box=None, expand=True, padding=(0, 2, 0, 0), header_style="bold underline")
        table.add_column("PER SECOND", justify="right", width=12 if has_bars else 10)
        table.add_column("IN ALL", justify="right", width=10 if has_bars else 8)
        name = NAMES[which] if has_bars else None
        table.add_column(TABLES[which], width=name, ratio=None if name else 2, no_wrap=True, overflow="ellipsis")
        if has_bars:
            table.add_column("", ratio=3, no_wrap=True)
        top = max((row.rate for row in rows), default=0.0)
        for row in rows[:most]:
            style = "" if row.rate else "dim"
            cells = [Text(cell, style=style) for cell in (f"{row.rate:,.1f}", f"{row.total:,}", row.name)]
            table.add_row(*cells, *([Bar(top or 1.0, 0, row.rate, color=COLOURS[which])] if has_bars else []))
        return table
