"""Look in the five documents for what the list of items and the replays leave out.

    tools/old_kernels/document_listings.py DIRECTORY    the documents' texts, *.txt

By rule: a command is what follows a prompt or begins a line with echo, cat, ls or mount; a trace line is what has a
task, a CPU and a time.  Each command must be an item's or a listing's, each trace line one of a listing's expected
text, in the same number; each listing's whole text must be in the document, byte for byte or as its `restored` says,
each item's fact in the lines that the item names; and each line must be some item's, but for those of which there is
nothing to show.  Which text is which document is known by its checksum, and which lines these are:
fixtures/seeds/documents.toml.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kprobe_sim.scenarios.replays.listing import folded, listings

SEEDS = Path(__file__).parents[2] / "fixtures" / "seeds"
_STAMP = re.compile(r"(?:(?<=\s)|^)\S+-\d+\s+\[\d{3}\]\s+(?:[a-zA-Z.0-9]{4}\s+)?\d+\.\d{6}: ")
_OF_A_LINE = re.compile(r"^(?:root@d610>)?[ #]*((?:\./kprobe|echo|cat|ls|mount) .*)$", re.MULTILINE)
_WITHIN = re.compile(r"# (\./kprobe .*?) (?:Tracing kprobe|name: |USAGE|You can)")
_SPAN = re.compile(r"lines? (\d+)(?:-(\d+))?")
_GOES_ON = re.compile(r"\\\n\s*")
_WRAPPED = re.compile(r"\\\n")
LOST = " <stack trace>"  # what the page of one document took for a tag


def documents() -> dict[str, dict[str, Any]]:
    """Return what is known of each document, by its name."""
    return tomllib.loads((SEEDS / "documents.toml").read_text("utf-8"))


def items() -> list[dict[str, Any]]:
    """Return the list of items."""
    found: list[dict[str, Any]] = tomllib.loads((SEEDS / "items.toml").read_text("utf-8"))["item"]
    return found


def commands(text: str) -> list[str]:
    """Return the commands in a text, blanks folded."""
    text = _GOES_ON.sub(" ", text)
    found = (_WITHIN if "\n" not in text.strip() else _OF_A_LINE).findall(text)
    return [folded(command) for command in found]


def trace_lines(text: str) -> list[str]:
    """Return the trace lines in a text, blanks folded, each with what follows it up to the next."""
    places = [match.start() for match in _STAMP.finditer(text)]
    return [folded(text[start:end]) for start, end in zip(places, [*places[1:], len(text)], strict=True)]


def expected_lines(document: str) -> list[str]:
    """Return the trace lines that the replays of a document are to show, blanks folded."""
    return [
        folded(line.replace(LOST, ""))
        for listing in listings(document)
        for line in listing.expected.splitlines()
        if _STAMP.search(line)
    ]


def left_out(name: str, text: str) -> Iterator[str]:
    """Say what of a document's text neither an item nor a listing has."""
    known = {folded(item["fact"]) for item in items() if item["document"] == name and "fact" in item}
    known |= {folded(command) for listing in listings(name) for command in (*listing.commands, *listing.run)}
    for command in commands(text):
        if not any(command == one or (len(one) > 12 and one in command) for one in known):
            yield f"{name}: command: {command}"
    shown, there = expected_lines(name), trace_lines(text)
    if len(shown) != len(there):
        yield f"{name}: {len(there)} trace lines, {len(shown)} in listings"
    for line, expected in zip(there, shown, strict=False):
        if not line.startswith(expected):
            yield f"{name}: trace line: {line[:100]}"


def span(where: str) -> range:
    """Return the numbers of the lines that "line 3" or "lines 3-5" names; none for another place."""
    found = _SPAN.fullmatch(where)
    return range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)


def restored(expected: str, text: str) -> tuple[str, ...] | None:
    """Return what was done to a document's text to have a listing of it, as little as can be; None for another text."""
    indents = re.findall(r"^[ \t]+(?=\S)", text, re.MULTILINE)
    if f"\n{expected}" in f"\n{text}\n":
        return ()
    if f"\n{expected}" in f"\n{_WRAPPED.sub('', text)}\n":
        return ("line",)
    for indent in sorted(set(indents)):
        if "".join(f"\n{indent}{line}" for line in expected.splitlines()) in text:
            return ("indent",)
    if folded(expected) in folded(text):
        return ("blanks",)
    return ("blanks", "tag") if folded(expected.replace(LOST, "")) in folded(text) else None


def unaccounted(name: str, text: str) -> Iterator[str]:
    """Say which lines of a document no item has, and which facts and listings aren't in its text."""
    lines = text.split("\n")
    ours = [item for item in items() if item["document"] == name]
    for item in ours:
        rows = span(item["where"])
        place = "\n".join(lines[row - 1] for row in rows) if rows else text
        if "fact" in item and folded(item["fact"]) not in folded(_GOES_ON.sub(" ", place)):
            yield f"{name}: item {item['number']}: not in {item['where']}: {item['fact']}"
    for listing in listings(name):
        found = restored(listing.expected, text)
        if found is None:
            yield f"{name}: listing {listing.name}: not in the text"
        elif found != listing.restored:
            yield f"{name}: listing {listing.name}: restored is {list(listing.restored)}, and should be {list(found)}"
    if len(lines) < 3:  # all in one: items name the command that they come after
        return
    known = {row for item in ours for row in span(item["where"])}
    known |= {row for rows, _ in documents()[name].get("nothing", []) for row in span(f"lines {rows}")}
    for row, line in enumerate(lines, 1):
        if line.strip() and row not in known:
            yield f"{name}: line {row}: no item: {line.strip()[:80]}"


def main(directory: Path) -> int:
    """Look at all texts in a directory; return 1 if something is left out or a document isn't there."""
    texts = {hashlib.sha256(path.read_bytes()).hexdigest(): path.read_text("utf-8") for path in directory.glob("*.txt")}
    wrong = []
    for name, facts in documents().items():
        text = texts.get(facts["sha256"])
        wrong += [f"{name}: not in {directory}"] if text is None else [*left_out(name, text), *unaccounted(name, text)]
        if text is not None:
            print(f"{name}: {len(commands(text))} commands, {len(trace_lines(text))} trace lines")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
