"""A trace.dat is read page by page with numba, and record by record without: the rows are the same."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim.scenarios.rendering import render
from kprobe_sim.scenarios.shipped import load, names
from kprobe_text.columns.dat import tables_of
from kprobe_text.pages.dat.file import MAGIC, TraceDat

RECORDED = sorted((Path(__file__).parents[3] / "fixtures" / "dat").glob("*/*.dat*"))
TYPED = ("raw_syscalls", "symbols")  # without numba their numbers have the types that the values need, not the format's


def rows(data: bytes, *, compiled: bool) -> Counter[tuple[str, str]]:
    """Return the rows of each table, without where they begin, and without what is null."""
    found: Counter[tuple[str, str]] = Counter()
    for tables in tables_of(TraceDat(data), compiled=compiled):
        for name, table in tables.items():
            for row in table.drop_columns(["offset"]).to_pylist():
                found[name, repr({key: value for key, value in sorted(row.items()) if value is not None})] += 1
    return found


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_of_recorded_files(path: Path) -> None:
    """Every file that trace-cmd wrote: the rows of what fills a page behind a stack are there, too."""
    data = path.read_bytes()
    data = data if data.startswith(MAGIC) else gzip.decompress(data)
    assert rows(data, compiled=True) == rows(data, compiled=False)


def test_what_fills_a_page_has_a_row() -> None:
    """none7.dat of 6.1 ends with a stack on each of its pages."""
    data = next(path for path in RECORDED if path.parent.name == "6.1" and path.name == "none7.dat").read_bytes()
    others: list[dict[str, Any]] = [
        row for tables in tables_of(TraceDat(data)) if "_others" in tables for row in tables["_others"].to_pylist()
    ]
    assert {row["type"] for row in others} == {"header"}


@pytest.mark.slow
@pytest.mark.parametrize("option", ["", "stacktrace", "userstacktrace"])
def test_of_every_scenario(option: str) -> None:
    differ, count = [], 0
    for name in names():
        data = render(load(name), "6.1", (option,) if option else (), dat=True).dat
        if data and name not in TYPED:
            count += 1
            if rows(data, compiled=True) != rows(data, compiled=False):
                differ.append(name)
    assert differ == []
    assert count > 50


@pytest.mark.parametrize("compiled", [True, False])
def test_a_field_whose_name_is_no_utf_8(compiled: bool) -> None:
    path = next(path for path in RECORDED if path.parent.name == "6.1" and path.name.startswith("plain6"))
    data = path.read_bytes()
    data = data if data.startswith(MAGIC) else gzip.decompress(data)
    columns: set[str] = set()
    for tables in tables_of(TraceDat(re.sub(rb"\bdfd\b", b"df\xff", data)), compiled=compiled):
        columns.update(*(table.column_names for table in tables.values()))
    assert [name for name in columns if name.startswith("arg_") and name.endswith("df\\xff")]
