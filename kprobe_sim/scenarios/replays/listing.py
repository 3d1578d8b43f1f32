"""A listing of a document: the commands as typed, what the machine did meanwhile, and the text as printed.

It is in kprobe_sim/scenarios/replays/seeds/DOCUMENT/LISTING: `listing.toml`, `activity.toml`
(docs/reference/activities.md) and `expected.txt`.  Where the latter isn't the document's text byte for byte, `restored`
says what was changed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kprobe_sim.kernel.activity import Activity, parse
from kprobe_sim.named_tuple import NamedTuple

SEEDS = Path(__file__).parent / "seeds"
CUT = "[...]\n"  # how a document shows that the output continues
_KEYS = {
    "title", "where", "kernel", "cpus", "commands", "run", "plays", "ends", "early", "unseen", "skip", "facts",
    "answers", "made", "differs", "functions", "restored",
}  # fmt: skip
# the possible changes to a document's text: expected.txt has what the kernel printed
RESTORED = {
    "indent": "the page's indent is removed",
    "blanks": "the page had replaced runs of blanks and line ends by one blank",
    "line": "a line that the document breaks with a backslash is joined",
    "tag": "<stack trace>, which the page took for a tag, is inserted again",
}


class Listing(NamedTuple):
    """One listing.

    `run` are the shell lines to run: `commands`, or the operations of the typed program if that is a script.  The
    activity is played after the line with the number `plays`, by default while the program reads.  `early` calls come
    before anything is read, `unseen` lines follow the listing's end, `skip` lines precede its beginning.

    `facts` and `answers` are where the author's kernel differs from the recorded one, `made` is when files were made,
    by name.  `differs` says why the replay differs from the document, "" if it doesn't.  `restored` names the changes
    to the document's text, from `RESTORED`; it is empty if the document has `expected` byte for byte.
    """

    document: str
    name: str
    title: str
    where: str  # in the document
    kernel: str
    cpus: int
    commands: tuple[str, ...]
    run: tuple[str, ...]
    plays: int | None
    ends: str  # "^C", "cut", or "" for a program that ends by itself
    early: int
    unseen: int
    skip: int
    facts: Mapping[str, Any]
    answers: Mapping[str, Any]
    made: Mapping[str, str]
    differs: str
    restored: tuple[str, ...]
    activity: Activity
    expected: str

    @property
    def path(self) -> str:
        """The name DOCUMENT/LISTING."""
        return f"{self.document}/{self.name}"


def documents() -> list[str]:
    """Return the names of the documents."""
    return sorted(path.name for path in SEEDS.iterdir() if path.is_dir())


def listings(document: str) -> list[Listing]:
    """Return a document's listings in order.  Raises ValueError, with the known names, for an unknown document."""
    if document not in documents():
        raise ValueError(f"no document {document!r}; there are: {', '.join(documents())}")
    return [_read(path) for path in sorted((SEEDS / document).iterdir()) if path.is_dir()]


def find(document: str, name: str) -> Listing:
    """Return a listing by its name, or by the number at its beginning.  Raises ValueError if there is none."""
    known = listings(document)
    for listing in known:
        number = listing.name.partition("-")[0]
        if name in (listing.name, number, number.lstrip("0")):
            return listing
    raise ValueError(f"no listing {name!r} in {document}; there are: {', '.join(listing.name for listing in known)}")


def _read(path: Path) -> Listing:
    table = tomllib.loads((path / "listing.toml").read_text("utf-8"))
    if unknown := sorted(set(table) - _KEYS):
        raise ValueError(f"{path}: unknown key {unknown[0]!r}")
    if unknown := sorted(set(table.get("restored", ())) - RESTORED.keys()):
        raise ValueError(f"{path}: unknown word in restored: {unknown[0]!r}")
    activity = path / "activity.toml"
    commands = tuple(table["commands"])
    functions = tuple([(name, size, "") for name, size in table.get("functions", {}).items()])
    return Listing(
        path.parent.name,
        path.name,
        table["title"],
        table["where"],
        table["kernel"],
        table.get("cpus", 1),
        commands,
        tuple(table.get("run", commands)),
        table.get("plays"),
        table["ends"],
        table.get("early", 0),
        table.get("unseen", 0),
        table.get("skip", 0),
        table.get("facts", {}),
        table.get("answers", {}),
        table.get("made", {}),
        table.get("differs", ""),
        tuple(table.get("restored", ())),
        parse(activity.read_text("utf-8"), str(activity)) if activity.exists() else Activity(functions, (), False),
        (path / "expected.txt").read_text("utf-8"),
    )


def folded(text: str) -> str:
    """Return a text with each run of blanks and line breaks as one blank, as pages show it."""
    return re.sub(r"\s+", " ", text).strip()
