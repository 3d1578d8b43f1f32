"""Which recorded traces of 3.2, 3.13, 4.4 and 4.19 a test plays again, and why none does others: early/held.toml."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
SERIES = ("3.2", "3.13", "4.4", "4.19")


@pytest.fixture(scope="module")
def table() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads((FIXTURES / "early" / "held.toml").read_text())


def names(rows: list[dict[str, Any]], series: str) -> list[str]:
    return [name for row in rows for name in row.get(series, [])]


@pytest.mark.parametrize(
    ("series", "held", "unheld"), [("3.2", 47, 0), ("3.13", 76, 0), ("4.4", 80, 0), ("4.19", 85, 0)]
)
def test_each_recorded_trace_is_held_or_has_a_reason(
    table: dict[str, list[dict[str, Any]]], series: str, held: int, unheld: int
) -> None:
    ours, others = names(table["held"], series), names(table.get("unheld", []), series)
    assert (len(ours), len(others)) == (held, unheld)
    assert len({*ours, *others}) == held + unheld
    here = {path.stem for place in ("text", "early") for path in (FIXTURES / place / series).glob("*.trace")}
    assert here - {*ours, *others} == set()
    assert set(ours) - here == set()
    assert all(row["reason"] for row in table.get("unheld", []))


def test_the_tests_that_are_named_play_traces_of_these_series(table: dict[str, list[dict[str, Any]]]) -> None:
    for row in table["held"]:
        path, _, name = row["test"].partition("::")
        module = importlib.import_module(f".{Path(path).stem}", __package__)
        assert (ROOT / path).samefile(inspect.getfile(module))
        test = getattr(module, name)
        words = inspect.getsource(test) + repr([mark.args for mark in getattr(test, "pytestmark", [])]).replace(
            "'", '"'
        )
        assert [series for series in SERIES if series in row and f'"{series}"' not in words] == [], row["test"]
