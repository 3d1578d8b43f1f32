"""A report as tables and lines for people, and as Markdown tables."""

from __future__ import annotations

import json
from collections import Counter

from kprobe_corpus.parsers.adapter import CRASHED
from kprobe_corpus.parsers.comparison import INVENTED, KINDS, MISSING
from kprobe_corpus.parsers.running import HUNG
from kprobe_corpus.parsers.tally import defects_of, examples, kernel_of, misread, options_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kprobe_corpus.parsers.tally import Example, Tally
    from kprobe_corpus.parsers.testing import Result

LONGEST = 160  # characters of a value that are shown


def text(tally: Tally) -> str:
    """Return the report: options and defects by kernel, the records misread, and examples of each defect."""
    return "\n".join([grids(tally), *(shown(one) for one in examples(tally)), summary(tally)])


def grids(tally: Tally) -> str:
    """Return the tables of options and of defects."""
    return "\n".join([grid(tally, "options", options_of), grid(tally, "defect", defects_of)])


def summary(tally: Tally) -> str:
    """Say in a few lines how many records were read correctly, and what the parser never reports."""
    total = tally.counts().get("", Counter())
    counts = [f"{total[kind]} {kind}" for kind in KINDS if total.get(kind)]
    counts += [f"{total[kind]} times {kind}" for kind in (CRASHED, HUNG) if total.get(kind)]
    lines = [f"{_count(len(tally.results), 'text')} in {tally.seconds:.1f} s: {', '.join(counts) or 'no records'}"]
    if tally.silent:
        lines.append(f"not compared, as the parser never reports it: {', '.join(sorted(tally.silent))}")
    return "".join(line + "\n" for line in lines)


def grid(tally: Tally, title: str, key: Callable[[Result], Collection[str]], *, markdown: bool = False) -> str:
    """Return a table with a row for each name and a column for each kernel: the number of records misread.

    "." means none, "?" none but some marked, "-" no such text.
    """
    kernels = list(tally.counts(kernel_of))
    by_name = tally.counts(lambda result: [f"{name}\0{result.entry.kernel}" for name in key(result)])
    names = sorted({name.partition("\0")[0] for name in by_name}, key=lambda name: (name != "plain", name))
    rows = [[name, *(cell(by_name.get(f"{name}\0{kernel}")) for kernel in kernels)] for name in names]
    return table([[title, *kernels], *rows], markdown=markdown)


def cell(counts: Counter[str] | None) -> str:
    """Return a table's cell for some records."""
    if counts is None:
        return "-"
    return str(misread(counts)) if misread(counts) else "?" if counts["marked"] else "."


def table(rows: Sequence[Sequence[str]], *, markdown: bool = False, left: int = 1) -> str:
    """Return rows in columns, with headings in the first row; the first `left` columns hold words, others numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [one.ljust(width) for one, width in zip(row[:left], widths[:left], strict=True)]
        cells += [one.rjust(width) for one, width in zip(row[left:], widths[left:], strict=True)]
        lines.append("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells).rstrip())
    if markdown:
        lines.insert(1, "|---" * left + "|--:" * (len(rows[0]) - left) + "|")
    return "".join(line + "\n" for line in lines)


def shown(one: Example) -> str:
    """Return the example of a defect: the text, the line, the expected and the actual answer."""
    where = f"{one.kernel}/{one.name}" + (f", line {one.line}" if one.line else "")
    head = f"{', '.join(one.defects)}: " if one.defects else ""
    lines = [f"{head}{where} ({_count(one.lines, 'line')}), {one.kind}"]
    if one.text:
        lines.append(f"    {one.text}")
    if one.misread is not None:
        what = f"{one.misread.key} " if one.misread.key else ""
        kind, _, expected, answered = one.misread
        lines.append(f"  {what}expected  {'nothing' if kind == INVENTED else _value(expected)}")
        lines.append(f"  {what}said      {'nothing' if kind == MISSING else _value(answered)}")
    if one.words:
        lines.append(f"  {one.words}")
    return "".join(line + "\n" for line in lines)


def _value(value: object) -> str:
    text = value if isinstance(value, str) and " isn't a record: " in value else _json(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace").decode()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
