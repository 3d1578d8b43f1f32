"""The list of the documents' items: none is without what shows it, and none is missing."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.scenarios.replays.listing import documents, find, listings

ROOT = Path(__file__).parents[2]
SEEDS = ROOT / "fixtures" / "seeds"
TRACE_LINE = re.compile(r"(?:(?<=\s)|^)\S+-\d+\s+\[\d{3}\]\s+(?:[a-zA-Z.0-9]{4}\s+)?\d+\.\d{6}: ")
ITEMS: list[dict[str, Any]] = tomllib.loads((SEEDS / "items.toml").read_text("utf-8"))["item"]


def trace_lines(document: str) -> int:
    """Return how many trace lines the replays of a document are to show."""
    texts = (listing.expected for listing in listings(document))
    return sum(bool(TRACE_LINE.search(line)) for text in texts for line in text.splitlines())


def names_in(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.slow
def test_every_item_names_what_shows_it() -> None:
    assert [item["number"] for item in ITEMS] == list(range(1, len(ITEMS) + 1))
    wrong = []
    for item in ITEMS:
        assert item["says"]
        assert item["shown"] or item["missing"]
        for shown in item["shown"]:
            kind, _, listing = shown.partition("replay:")
            if not kind:
                find(*listing.split("/"))
                continue
            path, _, name = shown.partition("::")
            if not (ROOT / path).is_file() or (name and name not in names_in(ROOT / path)):
                wrong.append((item["number"], shown))
    assert wrong == []


def test_every_listing_is_an_item() -> None:
    named = {shown.removeprefix("replay:") for item in ITEMS for shown in item["shown"]}
    assert {one.path for document in documents() for one in listings(document)} <= named


def test_none_is_missing() -> None:
    known = tomllib.loads((SEEDS / "documents.toml").read_text("utf-8"))
    assert sorted(known) == documents()
    count = Counter(item["document"] for item in ITEMS)
    assert {name: facts["items"] for name, facts in known.items()} == count
    assert count.total() == 172
    assert {name: facts["listings"] for name, facts in known.items()} == {
        name: len(listings(name)) for name in documents()
    }
    lines = {name: trace_lines(name) for name in documents()}
    assert {name: facts["trace_lines"] for name, facts in known.items()} == lines
    assert sum(lines.values()) == 207


def test_what_can_not_be_shown_yet() -> None:
    """Nothing; and a replay that differs isn't what shows its item: the program of that time does, in a test."""
    assert [item for item in ITEMS if "missing" in item] == []
    differing = {f"replay:{one.path}" for name in documents() for one in listings(name) if one.differs}
    found = [(item["number"], item["shown"][0]) for item in ITEMS if differing & {*item["shown"]}]
    assert differing == {"replay:perf-tools-examples/17-usage"}
    assert found == [(162, "tests/kprobe_sim/expose/test_perf_tools.py::test_usage")]


def test_the_examples_of_wind_river_are_taken() -> None:
    """On the kernel of the document, which has their functions."""
    kernel = SimulatedKernel("4.4-wind-river")
    lines = [
        "p:myprobe do_sys_open dfd=%ax filename=%dx flags=%cx mode=+4($stack)",
        "r:myretprobe do_sys_open $retval",
        "r:fork_retprobe _do_fork $retval",
        "r:do_dentry_openprobe do_dentry_open $retval",
    ]
    kernel.tracefs.write("kprobe_events", f"{lines[0]}\n".encode(), truncate=True)
    for line in lines[1:]:
        kernel.tracefs.write("kprobe_events", f"{line}\n".encode())
    assert kernel.tracefs.read("kprobe_events").decode().splitlines() == [
        "p:kprobes/myprobe do_sys_open dfd=%ax filename=%dx flags=%cx mode=+4($stack)",
        "r:kprobes/myretprobe do_sys_open arg1=$retval",
        "r:kprobes/fork_retprobe _do_fork arg1=$retval",
        "r:kprobes/do_dentry_openprobe do_dentry_open arg1=$retval",
    ]


def test_the_page_counts_what_was_restored() -> None:
    rows = re.findall(
        r"^\| `([\w-]+)` \| (\d+) \| (\d+) \| (.*)\|$", (ROOT / "docs/evidence/replays.md").read_text(), re.MULTILINE
    )
    told = {
        name: (int(count), int(exact), dict(re.findall(r"`(\w+)` (\d+)", words))) for name, count, exact, words in rows
    }
    known = {}
    for name in documents():
        each = listings(name)
        count = Counter(word for one in each for word in one.restored)
        exact = sum(not one.restored for one in each)
        known[name] = (len(each), exact, {word: str(number) for word, number in count.items()})
    assert told == known
    assert sum(exact for _, exact, _ in known.values()) == 11
