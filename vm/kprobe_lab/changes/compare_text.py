"""A comparison of two kernels as text for people, as JSON, and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kprobe_lab.changes.contrast import Alike, Comparison, Contrast
from kprobe_lab.changes.reasons import RowChange
from kprobe_lab.changes.response import Response, changed_lines
from kprobe_lab.changes.shell_lines import as_shell

_MOST = 6  # names, or lines, of what came and went
_WIDE = 90  # characters of a cell
_LONG = 240  # characters of an operation
_OTHERS = 3  # operations that are named beside the first


# ---- text ----


def text(comparison: Comparison) -> Iterator[str]:
    """Return the lines of a text."""
    yield f"{comparison.before} -> {comparison.after}"
    yield _counts(comparison)
    for group in comparison.alike:
        first, *others = group.contrasts
        yield ""
        yield first.operation
        yield from (f"  {line}" for line in changed_lines(first.before, first.after))
        if others:
            yield f"  and {len(others)} more: {'   '.join(other.operation for other in others[:_OTHERS])}"
        if group.row:
            yield f"  {group.row.name}: {group.row.source}"
    if comparison.unseen:
        yield ""
        yield "shown only by the questions that are asked when a kernel is recorded:"
    for change in comparison.unseen:
        yield ""
        yield _question(change)
        yield from (f"  {sign} {answer}" for sign, answer in zip("-+", change.answers, strict=True))
        yield f"  {change.name}: {change.source}"


def _counts(comparison: Comparison) -> str:
    asked, differing, ways = comparison.asked, comparison.differing, len(comparison.alike)
    return f"{asked} operations asked, {differing} answered differently, in {ways} ways"


def _question(change: RowChange) -> str:
    """Return the steps as a shell line where a shell can express them."""
    return as_shell(change.steps) or "; ".join(change.steps)


# ---- JSON ----


def as_json(comparison: Comparison) -> str:
    """Return all of it as JSON."""
    differences = [_contrast(contrast, group) for group in comparison.alike for contrast in group.contrasts]
    unseen = [{**change._asdict(), "operation": as_shell(change.steps)} for change in comparison.unseen]
    heading = {"before": comparison.before, "after": comparison.after, "asked": comparison.asked}
    return json.dumps({**heading, "differences": differences, "rows": unseen}, indent=1)


def _contrast(contrast: Contrast, group: Alike) -> dict[str, Any]:
    return {
        "section": contrast.section,
        "operation": contrast.operation,
        "before": contrast.before.json(),
        "after": contrast.after.json(),
        "rows": list(contrast.rows),
        "source": group.row.source if group.row else "",
    }


# ---- Markdown ----


def markdown(comparison: Comparison) -> Iterator[str]:
    """Return the lines of a section: a table with a row for each kind of difference."""
    yield f"## {comparison.before} → {comparison.after}"
    yield ""
    yield f"{_counts(comparison)}."
    yield ""
    yield "| operation | before | after | row |"
    yield "|---|---|---|---|"
    for group in comparison.alike:
        first, *others = group.contrasts
        more = f", and {len(others)} more" * bool(others)
        before, after = _brief(first.before, first.after)
        yield f"| {_code(first.operation, _LONG)}{more} | {before} | {after} | {group.row.name if group.row else ''} |"
    for change in comparison.unseen:
        before, after = map(_code, change.answers)
        yield f"| {_code(_question(change), _LONG)} | {before} | {after} | {change.name} |"
    yield ""


def sources(comparisons: Iterable[Comparison]) -> Iterator[str]:
    """Return lines that give the sources of the rows that comparisons name."""
    rows: dict[str, str] = {}
    for comparison in comparisons:
        rows |= {group.row.name: group.row.source for group in comparison.alike if group.row}
        rows |= {change.name: change.source for change in comparison.unseen}
    yield from (f"- {name}: {rows[name]}" for name in sorted(rows))


def _brief(before: Response, after: Response) -> tuple[str, str]:
    """Return two cells that say what differs: the verdicts, or else the lines that only one side shows."""
    if before.verdict() != after.verdict():
        return _code(before.verdict()), _code(after.verdict())
    lines = [line for line in changed_lines(before, after) if line[0] in "+-"]
    return _some([line for line in lines if line[0] == "-"]), _some([line for line in lines if line[0] == "+"])


def _some(lines: list[str]) -> str:
    shown = ", ".join(_code(" ".join(line[1:].split())) for line in lines[:_MOST])
    return f"{shown}, and {len(lines) - _MOST} more" if len(lines) > _MOST else shown


def _code(words: str, most: int = _WIDE) -> str:
    if not words.strip():
        return ""
    short = words if len(words) <= most else words[: most - 1] + "…"
    mark = "``" if "`" in short else "`"
    return f"{mark}{short}{mark}".replace("|", "\\|")
