"""The pages of docs/kernel are held to the checkout: what they name exists, what cites them finds its place."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from kprobe_sim.builds.gates import GATES

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "kernel").glob("*.md"))
RULES = [page for page in PAGES if page.name != "README.md"]
SOURCES = [
    path
    for directory in ("kprobe", "kprobe_text", "kprobe_corpus", "kprobe_check", "kprobe_sim", "vm", "tests", "tools")
    for path in sorted((ROOT / directory).rglob("*.py"))
    if path != Path(__file__)
]
LINES = 250
HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
EVIDENCE = re.compile(r"`((?:tests|fixtures)/[^`\s]+)`")
CITATION = re.compile(r"docs/kernel/([a-z_]+\.md)(?:#([a-z0-9_-]+))?")
LINK = re.compile(r"\]\(([a-z_]+\.md)?(?:#([a-z0-9_-]+))?\)")


def anchor(heading: str) -> str:
    """Return the anchor that a heading gets where Markdown is shown."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def headings(page: Path) -> list[tuple[int, str, str]]:
    """Return the level, the text and what follows up to the next heading; headings in code blocks are none."""
    text = re.sub(r"^```.*?^```$", lambda block: re.sub(r"^#", " ", block[0], flags=re.MULTILINE),
                  page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)  # fmt: skip
    parts = HEADING.split(text)
    return [(len(parts[at]), parts[at + 1].strip(), parts[at + 2]) for at in range(1, len(parts), 3)]


@cache
def anchors(page: str) -> list[str]:
    return [anchor(text) for _, text, _ in headings(ROOT / "docs" / "kernel" / page)]


@cache
def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def lacks(reference: str) -> bool:
    """True if there is no such test or recording."""
    path, _, name = reference.partition("::")
    if not (ROOT / path).exists():
        return True
    return bool(name) and name not in functions(ROOT / path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_named_exists(page: Path) -> None:
    assert [name for name in EVIDENCE.findall(page.read_text("utf-8")) if lacks(name)] == []


@pytest.mark.parametrize("page", RULES, ids=lambda page: page.name)
def test_each_rule_has_kernels_and_evidence(page: Path) -> None:
    rules = [(text, body) for level, text, body in headings(page) if level == 3]
    assert rules
    assert [text for text, body in rules if not re.search(r"^> Kernels: \S", body, re.MULTILINE)] == []
    assert [text for text, body in rules if not EVIDENCE.search(body.partition("\n> Kernels: ")[2])] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_short_and_anchors_are_their_own(page: Path) -> None:
    assert len(page.read_text("utf-8").splitlines()) <= LINES
    assert len(set(anchors(page.name))) == len(anchors(page.name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target, place in LINK.findall(page.read_text("utf-8")):
        name = target or page.name
        if not (page.parent / name).exists() or (place and place not in anchors(name)):
            broken.append(f"{name}#{place}")
    assert broken == []


def test_each_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "kernel" / "README.md").read_text("utf-8")
    assert [page.name for page in RULES if f"]({page.name})" not in index] == []


def test_citations_lead_somewhere() -> None:
    broken = []
    for path in (*SOURCES, *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for page, place in CITATION.findall(path.read_text("utf-8")):
            if not (ROOT / "docs" / "kernel" / page).exists() or (place and place not in anchors(page)):
                broken.append(f"{path.relative_to(ROOT)}: {page}#{place}")
    assert broken == []


def test_recordings_that_are_cited_exist() -> None:
    broken = []
    for path in SOURCES:
        for name in re.findall(r"\bfixtures/[\w./-]*\w", path.read_text("utf-8")):
            if not (ROOT / name).exists() and not re.search("/[A-Z]+", name):  # fixtures/SUBJECT/SERIES.jsonl
                broken.append(f"{path.relative_to(ROOT)}: {name}")
    assert broken == []


def test_no_source_is_out_of_reach() -> None:
    assert [str(path.relative_to(ROOT)) for path in SOURCES if "kernel reference" in path.read_text("utf-8")] == []


def test_each_gate_is_explained() -> None:
    """A gate is a rule that differs between kernels: its page says how, and names it."""
    named = {name for page in RULES for name in re.findall(r"`([a-z0-9_]+)`", page.read_text("utf-8"))}
    assert GATES.keys() - named == set()
