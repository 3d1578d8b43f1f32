"""The list of the documents' items: none is without what shows it, and none is missing."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.scenarios.replays.listing import documents, find, listings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(loaded: Callable[[Path], ModuleType]) -> ModuleType:
    return loaded(ROOT / "tools" / "document_listings.py")


def names_in(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.slow
def test_every_item_names_what_shows_it(tool: ModuleType) -> None:
    items = tool.items()
    assert [item["number"] for item in items] == list(range(1, len(items) + 1))
    wrong = []
    for item in items:
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


def test_every_listing_is_an_item(tool: ModuleType) -> None:
    named = {shown.removeprefix("replay:") for item in tool.items() for shown in item["shown"]}
    assert {one.path for document in documents() for one in listings(document)} <= named


def test_none_is_missing(tool: ModuleType) -> None:
    known = tool.documents()
    assert sorted(known) == documents()
    count = Counter(item["document"] for item in tool.items())
    assert {name: facts["items"] for name, facts in known.items()} == count
    assert count.total() == 172
    assert {name: facts["listings"] for name, facts in known.items()} == {
        name: len(listings(name)) for name in documents()
    }
    lines = {name: len(tool.expected_lines(name)) for name in documents()}
    assert {name: facts["trace_lines"] for name, facts in known.items()} == lines
    assert sum(lines.values()) == 207


def test_what_can_not_be_shown_yet(tool: ModuleType) -> None:
    """Nothing; and a replay that differs isn't what shows its item: the program of that time does, in a test."""
    assert [item for item in tool.items() if "missing" in item] == []
    differing = {f"replay:{one.path}" for name in documents() for one in listings(name) if one.differs}
    found = [(item["number"], item["shown"][0]) for item in tool.items() if differing & {*item["shown"]}]
    assert differing == {"replay:perf-tools-examples/17-usage"}
    assert found == [(162, "tests/kprobe_sim/expose/test_perf_tools.py::test_usage")]


@pytest.mark.requires("$KPROBE_DOCUMENTS")
def test_what_the_documents_have_is_there(tool: ModuleType) -> None:
    """By rule, from their texts: for who has them."""
    assert tool.main(Path(os.environ["KPROBE_DOCUMENTS"])) == 0


def test_commands_and_trace_lines_are_found_by_rule(tool: ModuleType) -> None:
    text = "See:\n# ./kprobe 'p:x y' \nroot@d610> cat a/b\n  echo 'p:x \\\n    y' >> z\n"
    text += "  sh-1  [000] d... 12.345678: x: (y+0x0/0x1)\n"
    assert tool.commands(text) == ["./kprobe 'p:x y'", "cat a/b", "echo 'p:x y' >> z"]
    assert tool.trace_lines(text) == ["sh-1 [000] d... 12.345678: x: (y+0x0/0x1)"]
    joined = (
        "See: # ./kprobe p:x Tracing kprobe x. sh-1 [000] d... 12.345678: x: (y) <...>-2 [001] 12.345679: x: (z) [...]"
    )
    assert tool.commands(joined) == ["./kprobe p:x"]
    assert tool.trace_lines(joined) == ["sh-1 [000] d... 12.345678: x: (y)", "<...>-2 [001] 12.345679: x: (z) [...]"]


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


def test_how_a_listing_stands_in_a_text(tool: ModuleType) -> None:
    text = "See:\n\n    p:x  y\n    r:x\na=1 \\\nb=2\n one  two three\n"
    assert tool.restored("a=1 b=2\n", text) == ("line",)
    assert tool.restored("p:x  y\nr:x\n", text) == ("indent",)
    assert tool.restored(" one  two three\n", text) == ()
    assert tool.restored("one two  three\n", text) == ("blanks",)
    assert tool.restored("one two <stack trace> three\n", text) == ("blanks", "tag")
    assert tool.restored("four\n", text) is None


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


def test_what_an_item_or_the_text_lacks_is_found(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    title, *others = ["a title", "", "echo one > two", "cat three", "and more"]
    item = {"number": 1, "document": "lwn-2009", "where": "lines 3-4", "fact": "cat four"}
    monkeypatch.setattr(tool, "items", lambda: [item])
    monkeypatch.setattr(tool, "documents", lambda: {"lwn-2009": {"nothing": [["1", "a title"]]}})
    assert list(tool.unaccounted("lwn-2009", "\n".join([title, *others]))) == [
        "lwn-2009: item 1: not in lines 3-4: cat four",
        "lwn-2009: listing 01-trace: not in the text",
        "lwn-2009: line 5: no item: and more",
    ]
