"""A statement to check (a definition, filter or trigger, or how a file of definitions is opened), and where it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

DEFINITION, FILTER, TRIGGER = "definition", "filter", "trigger"
TRUNCATING, APPENDING = "truncating", "appending"  # openings of a file of definitions
FILES = ("kprobe_events", "uprobe_events", "dynamic_events", "synthetic_events")  # that definitions are written to
TRIGGERS = (
    *("hist", "stacktrace", "snapshot", "traceon", "traceoff"),
    *("enable_event", "disable_event", "enable_hist", "disable_hist"),
)
_KINDS_APART = ("e", "f", "t", "s")  # kinds of definitions that only dynamic_events takes
_HEAD = re.compile(r"\s*([prefts])(\d*):(?:([\w-]+)[/.])?(\w*)")
_SHORT = re.compile(r"\s*[pr]\d*:(?![\w-]+/\s)\S+(?:\s+(?:[%$@+\\-]|\S*=)|\s*$)")
_LOOKS = re.compile(r"\s*[preft]\d*:[\w-]+(?:[/.]\w*)?[ \t]+[\w./:*@-][^\s=(]*([ \t]+\S.*)?")
_TRIGGER = re.compile(rf"\s*(?:{'|'.join(TRIGGERS)})(?::\S.*|\s+if\s.*)?\s*", re.S)


class Position(NamedTuple):
    """A position in a source, line and column counted from 1; line 0 is for a text given by itself."""

    source: str = ""
    line: int = 0
    column: int = 1

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


class Statement(NamedTuple):
    """One thing to ask of each kernel.

    `file` is what a definition is written to, below the tracefs; for a filter or trigger it is the event's file
    (`events/GROUP/EVENT/filter`), or just `filter` or `trigger` where the event is that of the last of `needs`, the
    definitions that must exist first.  `unclear` says why it can't be asked; "" if it can.  For an opening, `text` is
    the source's code, and `instead` code without its effect.
    """

    kind: str
    text: str
    file: str
    position: Position = Position()
    needs: tuple[Statement, ...] = ()
    unclear: str = ""
    instead: str = ""

    @property
    def name(self) -> str:
        """Return the event's name in a definition, without its group; "" if the kernel makes one."""
        if self.file == "synthetic_events":
            return (self.text.split() or [""])[0]
        head = _HEAD.match(self.text)
        return head[4] if head else ""


def definition(text: str, position: Position, *, file: str = "", is_short: bool = False) -> Statement:
    """Return the statement of a definition, by default for the file that takes its kind.

    With `is_short`, `p:vfs_read`, which only the command `kprobe` takes, becomes what that writes.
    """
    if is_short and not file and _SHORT.match(text):
        from kprobe.definitions.definition import parse
        from kprobe.errors import DefinitionError

        with suppress(DefinitionError):
            text = str(parse(text))
    return Statement(DEFINITION, text, file or _file(text), position)


def _file(text: str) -> str:
    if text.lstrip()[:1] in _KINDS_APART:
        return "dynamic_events"
    words = text.split()
    return "uprobe_events" if len(words) > 1 and "/" in words[1] else "kprobe_events"


def looks_like_definition(text: str, unknowns: Iterable[str] = ()) -> bool:
    """Return whether any text is a definition: a kind, a colon, a name, blanks, a probe point, arguments.

    `unknowns` are its unknown parts, which may be any word.
    """
    for one in unknowns:
        text = text.replace(one, "x")
    return _LOOKS.fullmatch(text) is not None


def without_doubles(certainty: Mapping[Statement, bool]) -> list[Statement]:
    """Return the statements, without the uncertain ones that repeat a certain one.

    `certainty` says for each whether the program certainly writes it.  One repeats another if it is at the same
    position, or on the same line with the same text.
    """
    certain = [one for one, is_certain in certainty.items() if is_certain]
    known = {one.position for one in certain} | {(one.position.line, one.text) for one in certain}
    return [
        one
        for one, is_certain in certainty.items()
        if is_certain or (one.position not in known and (one.position.line, one.text) not in known)
    ]


def is_trigger(text: str) -> bool:
    """Return whether a text is a trigger and nothing else."""
    return _TRIGGER.fullmatch(text) is not None


def linked(statements: list[Statement]) -> list[Statement]:
    """Return the statements, each with its needs: definitions before it whose events it is about.

    These are, for `filter` or `trigger` alone, the last definition before it; for one with an event, the definition
    of that name, if there is one; for triggers and event probes those that they name after a slash, dot, colon or (.
    """
    collected: list[Statement] = []
    named: dict[str, Statement] = {}
    last: Statement | None = None
    for one in statements:
        linked_one = _linked(one, named, last)
        collected.append(linked_one)
        if one.kind == DEFINITION:
            last = linked_one
            if one.name:
                named[one.name] = linked_one
    return collected


def _linked(one: Statement, named: dict[str, Statement], last: Statement | None) -> Statement:
    if one.kind in (TRUNCATING, APPENDING) or (one.kind == DEFINITION and one.text.lstrip()[:1] != "e"):
        return one
    words = set(re.findall(r"[/.:(](\w+)", one.text))
    needs = [named[word] for word in named if word in words and word != one.name]
    if one.kind == DEFINITION:
        return one._replace(needs=_flat(needs))
    event = one.file.split("/")
    own = named.get(event[2]) if len(event) == 4 else last
    if len(event) == 1 and own is None:
        return one._replace(unclear=f"no definition stands before this {one.kind}, and it names no event")
    if own is None:
        return one._replace(needs=_flat(needs))
    return one._replace(needs=_flat([*[need for need in needs if need is not own], own]), file=one.kind)


def _flat(needs: list[Statement]) -> tuple[Statement, ...]:
    """Return statements after their needs, each once."""
    collected: dict[Statement, None] = {}
    for need in needs:
        for inner in (*need.needs, need):
            collected[inner._replace(needs=())] = None
    return tuple(collected)
