"""The corpus that is handed out: it is whole and made of what lies here, and kprobe_text.text reads it as it is."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kprobe_corpus.traces import Entry, corpora, entries

ROOT = Path(__file__).parents[3]
Loaded = Callable[[Path], ModuleType]


@pytest.fixture(scope="module")
def packaged() -> list[Entry]:
    return entries()


@pytest.fixture
def tool(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return what loads a tool that imports others."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "corpus"))
    before = set(sys.modules)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(name: str) -> ModuleType:
        module = loaded(ROOT / "tools" / "corpus" / f"{name}.py")
        for new in set(sys.modules) - before:
            if new.startswith("corpus_"):
                monkeypatch.delitem(sys.modules, new)
        return module

    return load


def test_it_is_the_distribution_of_this_checkout() -> None:
    ours = [corpus for corpus in corpora() if corpus.name == "kprobe-corpus"]
    assert [(corpus.directory, corpus.version) for corpus in ours] == [
        (str(ROOT / "distributions" / "kprobe-corpus" / "src" / "kprobe_corpus_data"), "0.1.0")
    ]


@pytest.mark.slow
def test_every_recording_is_in_it(packaged: list[Entry], tool: Callable[[str], ModuleType]) -> None:
    """With the truth that its account gives: it is made anew here."""
    made = {(entry.kernel, entry.name): entry.files for entry in tool("corpus_recorded").recorded()}
    assert len(made) == 452
    assert made == files(packaged, "recorded")


def test_every_line_of_the_documents_is_in_it(packaged: list[Entry], tool: Callable[[str], ModuleType]) -> None:
    made = {(entry.kernel, entry.name): entry.files for entry in tool("corpus_documents").documented()}
    assert made == files(packaged, "document")
    records = [record for entry in packaged if entry.kernel == "documents" for record in entry.truth()]
    assert len(records) == 207


def files(packaged: list[Entry], source: str) -> dict[tuple[str, str], dict[str, bytes]]:
    return {(entry.kernel, entry.name): dict(entry.files) for entry in packaged if entry.about["source"] == source}


def test_the_truth_of_recordings_says_what_it_is_made_of(packaged: list[Entry]) -> None:
    recorded = [entry.about for entry in packaged if entry.about["source"] == "recorded"]
    assert Counter(about["truth"] for about in recorded) == {"activity": 287, "read apart": 165}
    records = {name: sum(about["records"][name] for about in recorded) for name in ("activity", "read apart")}
    assert records == {"activity": 2266, "read apart": 2415}


def test_what_the_account_says_is_the_truth(packaged: list[Entry]) -> None:
    (entry,) = (entry for entry in packaged if (entry.kernel, entry.name) == ("6.1", "02_comms"))
    said = [record["fields"] for record in entry.truth() if record.get("task") == "plain" and record["name"] == "ent"]
    paths = [
        "/tmp/f0",
        "/tmp/nonexistent",
        "/tmp/with space",
        '/tmp/q"uote\\',
        "/tmp/new\nline",
        "/tmp/\u00e4\udcff\x01",
    ]
    assert [fields["s"] for fields in said][:7] == [*paths, None]
    tasks = list(dict.fromkeys(record["task"] for record in entry.truth()))
    assert tasks[2:10] == ["plain", "my app", "a-b-1", "x:y", "(z)", "a=b", "<...>", "[kw/0:1]"]
    (leading,) = {tuple(record["ambiguous"]) for record in entry.truth() if record["task"] == " lead"}
    assert leading == ("task",)  # blanks before a name are those of the column, or its own


def test_texts_of_guests_are_in_it(packaged: list[Entry]) -> None:
    """Of all cloud kernels of the lock, with four CPUs; what the tasks did settles most of their records."""
    guests = [entry for entry in packaged if entry.about["source"] == "guest"]
    series = ["5.10", "6.1", "6.12", "6.16", "6.17", "6.18", "6.19", "7.0", "7.1", "7.2", "7.3"]
    assert list(dict.fromkeys(entry.kernel for entry in guests)) == series
    names = Counter(entry.name for entry in guests)
    everywhere = {name for name, count in names.items() if count == len(series)}
    assert {
        "opens", "opens.latency-format", "types.sym-offset,sym-addr", "types.raw", "clock.mono", "stacks",
        "user-stacks", "nameless", "markers", "static", "function", "lost", "lost.trace_pipe",
    } <= everywhere  # fmt: skip
    opens = [entry for entry in guests if entry.name == "opens"]
    assert all(entry.about["truth"] == "activity" for entry in opens)
    assert all({record.get("cpu") for record in entry.truth()} == {0, 1, 2, 3} for entry in opens)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a few seconds of a CPU that has nothing else to do
def test_the_parser_reads_it_as_the_table_says(packaged: list[Entry], tool: Callable[[str], ModuleType]) -> None:
    """No value is wrong and none is missing without a word; those that may be others are counted."""
    table: Any = tool("corpus_table")
    kernels, shown, bad = table.rows(packaged)
    assert list(bad) == []
    assert table.page(kernels, shown, table.ambiguous(packaged)) == (
        ROOT / "docs" / "evidence" / "corpus-table.md"
    ).read_text("utf-8"), "make corpus"
    recorded = [row.found for name, row in kernels.items() if name.endswith("recorded")]
    total = sum(recorded, Counter[str]())
    assert [total[kind] for kind in ("right", "marked", "ambiguous")] == [42244, 447, 36]
    assert kernels["documents | document"].found["right"] == 1758
