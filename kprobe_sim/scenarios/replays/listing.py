"""A listing of a document: the commands as typed, what the machine did meanwhile, and the text as printed.

It lies in kprobe_sim/scenarios/replays/seeds/DOCUMENT/LISTING: `listing.toml`, `activity.toml`
(docs/reference/activities.md) and `expected.txt`.
Where that isn't the document's text byte for byte, `restored` says what was done to it.
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
CUT = "[...]\n"  # how a document says that it goes on
_KEYS = {
    "title", "where", "kernel", "cpus", "commands", "run", "plays", "ends", "early", "unseen", "skip", "facts",
    "answers", "made", "differs", "functions", "restored",
}  # fmt: skip
# what may have been done to a document's text: expected.txt has what the kernel printed
RESTORED = {
    "indent": "the page's indent is taken off",
    "blanks": "the page had made one blank of several and of line ends",
    "line": "a line that the document breaks with a backslash is whole",
    "tag": "<stack trace>, which the page took for a tag, is put in again",
}


class Listing(NamedTuple):
    """One listing.

    `run` are the shell lines that are run: `commands`, unless the typed program is a script whose own operations they
    are.  The activity is played after `plays` of them, by default while the program reads.  `early` of its calls come
    before anything is read, `unseen` lines come after the listing's end, `skip` lines before its beginning.

    `facts` and `answers` are what the author's kernel had otherwise than the recorded one, `made` is when files came,
    by name.  `differs` says why the replay isn't yet what the document shows, "" where it is.  `restored` is what was
    done to the document's text, words of `RESTORED`; nothing where `expected` is in the document byte for byte.
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
        """What names it: DOCUMENT/LISTING."""
        return f"{self.document}/{self.name}"


def documents() -> list[str]:
    """Return the names of the documents."""
    return sorted(path.name for path in SEEDS.iterdir() if path.is_dir())


def listings(document: str) -> list[Listing]:
    """Return the listings of a document in its order.  Raises ValueError, saying which there are, for none."""
    if document not in documents():
        raise ValueError(f"no document {document!r}; there are: {', '.join(documents())}")
    return [_read(path) for path in sorted((SEEDS / document).iterdir()) if path.is_dir()]


def find(document: str, name: str) -> Listing:
    """Return a listing by its name, or by the number that it begins with.  Raises ValueError if there is none."""
    known = listings(document)
    for one in known:
        if name in (one.name, one.name.partition("-")[0], one.name.partition("-")[0].lstrip("0")):
            return one
    raise ValueError(f"no listing {name!r} in {document}; there are: {', '.join(one.name for one in known)}")


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
    """Return a text with each run of blanks and line breaks as one blank: what a page made of it."""
    return re.sub(r"\s+", " ", text).strip()
