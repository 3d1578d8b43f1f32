"""Developers run it when a gate changes: well-known probes on every kernel; writes docs/evidence/check-table.md.

    python tools/docs/check_table.py                        write it; this needs the simulators of all its kernels
    python tools/docs/check_table.py --sample 60 --seed 15  draw 60 of its cells, and compare them with guests

The command lines are in fixtures/check/.  A cell of the sample is a statement and a kernel.  The comparison covers all
that the kernel says (errno, message, caret, the event, its fields, how it prints them) and what that means there.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kprobe import open_tracefs
from kprobe.tracefs.kernels import chosen
from kprobe_check import Answer, Report, Statement, check, statements
from kprobe_check.asking.asked_kernel import AskedKernel
from kprobe_check.asking.meanings import remarks
from kprobe_check.output.formats import markdown

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "check-table.md"
SOURCES = ROOT / "fixtures" / "check"
KERNELS = "5.10,6.1,6.12,6.16,6.17,6.18,6.19,7.0,7.1,7.2,7.3"

INTRODUCTION = """\
# Well-known probes, and what every kernel makes of them

Written by `tools/docs/check_table.py`, from `kprobe check` on the command lines in `fixtures/check/`.
`docs/guides/check.md` explains it. ✓ is taken; an errno is a refusal; ≠ is taken, but means something else than on
other kernels, or than it says; – is not asked, as the definition before it isn't taken. What stands under *instead*
all these kernels take alike.

Of its cells 60 were drawn (`--sample 60 --seed 15`) and put to guests of all eleven kernels: none was wrong.
"""


class Source(NamedTuple):
    """Where command lines are from, and what they state, each once."""

    title: str
    link: str
    statements: tuple[Statement, ...]


def sources() -> Iterator[Source]:
    """Yield the sources in the order of their files."""
    for path in sorted(SOURCES.glob("*.sh")):
        data = path.read_bytes()
        head = [line.removeprefix("# ") for line in data.decode().splitlines()[:2]]
        asked = [one for one in statements(data, path.name) if not one.instead]  # how files are opened isn't asked
        each = {(one.kind, one.file, one.text, one.needs): one for one in asked}
        yield Source(head[0], head[1] if head[1].startswith("https:") else "", tuple(each.values()))


def reports(kernels: str = KERNELS, *, suggest: bool = True) -> Iterator[tuple[Source, Report]]:
    """Yield what kernels make of each source."""
    for source in sources():
        yield source, check(source.statements, kernels, suggest=suggest)


def page() -> str:
    """Return the page as it should be."""
    parts = [INTRODUCTION]
    states: list[str] = []
    for source, report in reports():
        link = f"<{source.link}>\n\n" if source.link else ""
        parts.append(f"## {source.title}\n\n{link}{markdown(report)}")
        states += [finding.state for finding in report.findings]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("taken", "differs", "refused", "unasked"))
    parts.append(f"{len(states)} statements on {len(KERNELS.split(','))} kernels, by their gravest answer: {counts}.\n")
    return "\n".join(parts)


# --------------------------------------------------------------------------------------------------------- the sample


class Cell(NamedTuple):
    """A statement and a kernel."""

    kernel: str
    statement: Statement


def drawn(count: int, seed: int, kernels: Sequence[str]) -> list[Cell]:
    """Return cells of the table, drawn at random, by kernel."""
    every = [Cell(kernel, statement) for source in sources() for statement in source.statements for kernel in kernels]
    cells = random.Random(seed).sample(every, min(count, len(every)))
    return sorted(cells, key=lambda cell: kernels.index(cell.kernel))


def said(spec: str, each: Sequence[Statement]) -> list[tuple[Answer, tuple[str, ...]]]:
    """Return what one kernel answers to statements, and what they mean there."""
    tracefs = open_tracefs(spec)
    try:
        asked = AskedKernel(tracefs, os.getpid())
        answers = [asked.ask(one) for one in each]
        found = [
            (answer, remarks(one, asked) if answer.is_taken else ()) for one, answer in zip(each, answers, strict=True)
        ]
        asked.close()
        return found
    finally:
        getattr(tracefs, "close", lambda: None)()


def compared(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a line for each cell: right or WRONG, and of one that is wrong what simulator and guest say."""
    for kernel in dict.fromkeys(cell.kernel for cell in cells):
        each = [cell.statement for cell in cells if cell.kernel == kernel]
        pairs = zip(each, said(f"sim:{kernel}", each), said(f"vm:{kernel}", each), strict=True)
        for statement, simulated, real in pairs:
            is_same = simulated == real
            more = "" if is_same else f"\n    simulator: {simulated}\n    guest:     {real}"
            yield f"{'right' if is_same else 'WRONG'} {kernel:<5} {statement.text}{more}"


def main() -> int:
    parser = argparse.ArgumentParser(description="What every kernel makes of well-known probes.")
    parser.add_argument("--sample", type=int, metavar="COUNT", help="ask guests for that many cells of the table")
    parser.add_argument("--seed", type=int, default=15, help="by which they are drawn (default: 15)")
    parser.add_argument("--kernels", default=KERNELS, help="of which they are drawn (default: all of the table)")
    options = parser.parse_args()
    kernels = [kernel.name for kernel in chosen(options.kernels)]
    if options.sample is None:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    lines = []
    for line in compared(drawn(options.sample, options.seed, kernels)):
        print(line, flush=True)
        lines.append(line)
    wrong = sum(line.startswith("WRONG") for line in lines)
    print(f"seed {options.seed}: {len(lines)} verdicts on {len(kernels)} kernels, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
