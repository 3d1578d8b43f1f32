"""The page of well-known probes says what the kernels that are here say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGED = ("5.10", "6.1", "6.12", "7.2", "7.3")


@pytest.fixture(scope="module")
def tool(loaded: Callable[[Path], ModuleType]) -> ModuleType:
    return loaded(ROOT / "tools" / "check_table.py")


def rows(text: str) -> list[list[str]]:
    """Return the cells of all tables, their heads too."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def mark(cell: str) -> str:
    """Return a mark, ≠ as ✓: what is usual depends on the kernels that are asked."""
    return "✓" if cell == "≠" else cell


def test_the_page(tool: Any) -> None:
    page = rows((ROOT / "docs" / "check-table.md").read_text(encoding="utf-8"))
    columns = [page[0].index(kernel) for kernel in PACKAGED]
    shown = [[row[0], *(mark(row[column]) for column in columns)] for row in page]
    fresh = []
    for _, report in tool.reports(",".join(PACKAGED), suggest=False):
        fresh += [[mark(cell) for cell in row[:-1]] for row in rows(tool.markdown(report))]
    assert shown == fresh
    assert len(shown) > 50
    titles = [source.title for source in tool.sources()]
    assert titles == re.findall(r"^## (.*)$", (ROOT / "docs" / "check-table.md").read_text(encoding="utf-8"), re.M)


def test_a_sample_is_the_same_for_the_same_seed(tool: Any) -> None:
    first, again = tool.drawn(60, 15, PACKAGED), tool.drawn(60, 15, PACKAGED)
    assert first == again
    assert len(first) == len(set(first)) == 60
    assert {cell.kernel for cell in first} == set(PACKAGED)
    assert tool.drawn(60, 16, PACKAGED) != first
