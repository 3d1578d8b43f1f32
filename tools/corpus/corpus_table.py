"""Developers run `make corpus`, which ends with it: text readers held to the corpus; docs/evidence/corpus-table.md.

Usage: corpus_table.py [DIRECTORY]; the page is written there, by default into docs/evidence.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from corpus_compare import answer, compared

from kprobe_corpus.traces.corpora import entries
from kprobe_corpus.traces.entry import Entry

PAGE = "corpus-table.md"
DOCS = Path(__file__).resolve().parents[2] / "docs" / "evidence"
KINDS = ("right", "marked", "ambiguous", "wrong", "silent")
HEAD = """\
# The corpus, read

What `kprobe_text.text` makes of the packaged corpus, with the formats and definitions that each trace has, by
`tools/corpus/corpus_table.py`. *Right*, *marked* (the record says that it is a guess or not all understood),
*ambiguous* (no reader of that text can settle it), *wrong* and *silently incomplete* count values; *forgeable* are
records that a string could have written, as their text has no header with the number of its records (trace_pipe,
nocontext-info, 3.2, verbose), or is a part of one; *unread* are lines of option `bin`, and those of strings with a
newline under option `fields`, which no one can tell from records.

"""


class Row:
    """What is known of some entries together."""

    def __init__(self) -> None:
        self.texts = self.lines = 0
        self.made: Counter[str] = Counter()
        self.found: Counter[str] = Counter()

    def add(self, entry: Entry, found: Counter[str]) -> None:
        self.texts += 1
        self.lines += entry.about["lines"]
        self.made.update(entry.about["records"])
        self.found.update(found)

    def cells(self) -> list[str]:
        """Return the cells of the tables."""
        counts = [self.texts, self.lines, *(self.found[kind] for kind in (*KINDS, "forgeable", "unread"))]
        return [f"{count:,}" for count in counts]


def rows(chosen: Iterable[Entry]) -> tuple[dict[str, Row], dict[str, Row], Counter[str]]:
    """Return rows by kernel and source, by options and clock, and what is wrong or silently incomplete."""
    kernels: dict[str, Row] = {}
    shown: dict[str, Row] = {}
    bad: Counter[str] = Counter()
    for entry in chosen:
        read = answer(entry)
        found: Counter[str] = Counter(unread=sum(record["type"] == "unparsed" for record in read))
        for kind, what in compared(entry.truth(), read):
            found[kind] += 1
            if kind in ("wrong", "silent"):
                bad[f"{entry.kernel}/{entry.name}: {what}"] += 1
        kernels.setdefault(f"{entry.kernel} | {entry.about['source']}", Row()).add(entry, found)
        shown.setdefault(_shown(entry), Row()).add(entry, found)
    return kernels, shown, bad


def _shown(entry: Entry) -> str:
    options = ",".join(entry.about["options"]) or "(none)"
    return options if entry.about["clock"] == "local" else f"clock {entry.about['clock']}, {options}"


def ambiguous(chosen: Iterable[Entry]) -> Counter[str]:
    """Count the values that no reader of their text can settle, by name and value."""
    doubts: Counter[str] = Counter()
    for entry in chosen:
        for record in entry.truth() if b'"ambiguous"' in entry.truth_lines else ():
            for name in record.get("ambiguous", ()):
                value = record.get(name, record.get("fields", {}).get(name))
                doubts[f"`{name}` of `{record.get('name', record['type'])}`: `{json.dumps(value)}`"] += 1
    return doubts


def page(kernels: dict[str, Row], shown: dict[str, Row], doubts: Counter[str]) -> str:
    """Return the text of the page."""
    text = (
        HEAD + "## By kernel\n\nWhat the truth of their records was made of: the account of the tasks (activity), the "
    )
    text += "raw pages, or the text read apart.\n\n"
    text += _head("kernel | source | by activity | by raw pages | read apart")
    total = Row()
    for name, row in kernels.items():
        made = [f"{row.made[kind]:,}" for kind in ("activity", "raw pages", "read apart")]
        text += f"| {name} | {' | '.join([*made, *row.cells()])} |\n"
        for counter, other in ((total.made, row.made), (total.found, row.found)):
            counter.update(other)
        total.texts, total.lines = total.texts + row.texts, total.lines + row.lines
    made = [f"{total.made[kind]:,}" for kind in ("activity", "raw pages", "read apart")]
    text += f"| all | | {' | '.join([*made, *total.cells()])} |\n"
    text += (
        "\n## What is ambiguous\n\nBlanks that a name begins with are also those of its column, and a string can hold "
    )
    text += "what stands between it and the next.\n\n| value | times |\n|---|---|\n"
    for what, count in sorted(doubts.items()):
        text += f"| {what} | {count} |\n"
    text += "\n## By options and clock\n\n" + _head("options")
    for name in sorted(shown):
        text += f"| {name} | {' | '.join(shown[name].cells())} |\n"
    return text


def _head(first: str) -> str:
    kinds = "texts | lines | right | marked | ambiguous | wrong | silently incomplete | forgeable | unread"
    columns = f"{first} | {kinds}".split(" | ")
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"


def main(words: Sequence[str]) -> int:
    """Write the page; return 1 if a value is wrong or silently incomplete."""
    chosen = entries()
    kernels, shown, bad = rows(chosen)
    path = (Path(words[0]) if words else DOCS) / PAGE
    path.write_text(page(kernels, shown, ambiguous(chosen)), "utf-8")
    for what in bad:
        print(what[:500], file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
