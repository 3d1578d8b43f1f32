"""Statements in a list: a line is a definition, `filter: TEXT`, `trigger: TEXT` or a trigger.

The last three are about the definition before them, or the event that stands in front: `sched/sched_switch filter: …`.
Empty lines, lines that begin with `#`, and those that remove something (`-:NAME`, `!TRIGGER`) count for nothing.
"""

from __future__ import annotations

import re

from kprobe_check.statement import (
    FILES,
    FILTER,
    TRIGGER,
    Position,
    Statement,
    definition,
    is_trigger,
    looks_like_definition,
)

_ABOUT_EVENT = re.compile(r"\s*(?:([\w-]+)[/:](\w+)\s+)?(filter|trigger):(.*)", re.S)
_EVENT_TRIGGER = re.compile(r"\s*([\w-]+)[/:](\w+)\s+(.*)", re.S)
_NAMED = re.compile(r"[${(]+\w*?((?:kprobe|uprobe|dynamic|synthetic)_events)(?:_file|_path)?[})]*", re.I)
_BEGINS = re.compile(r"\s*(?:[prefts]\d*:|[pr]\s+[a-zA-Z_])")


def statement(line: str, position: Position) -> Statement | None:
    """Return the statement of a line of a list, None if it has none."""
    text = line.strip()
    if not text or text[0] == "#" or text[0] in "-!":
        return None
    column = position.column + len(line) - len(line.lstrip())
    position = position._replace(column=column)
    about = _ABOUT_EVENT.fullmatch(text)
    if about:
        kind, words = about[3], about[4].strip()
        return Statement(kind, words, event_file(about[1], about[2], kind), position)
    if is_trigger(text):
        return Statement(TRIGGER, text, TRIGGER, position)
    event = _EVENT_TRIGGER.fullmatch(text)
    if event and is_trigger(event[3]) and not looks_like_definition(text):
        return Statement(TRIGGER, event[3], event_file(event[1], event[2], TRIGGER), position)
    return definition(text, position, is_short=True)


def event_file(group: str | None, event: str | None, kind: str) -> str:
    """Return the file of an event, or just its name if the event isn't named."""
    return f"events/{group}/{event}/{kind}" if event else kind


def begins_statement(text: str) -> bool:
    """Return whether a word of a command line begins as a statement does, and so isn't a file."""
    about = _ABOUT_EVENT.fullmatch(text) or is_trigger(text)
    event = _EVENT_TRIGGER.fullmatch(text)
    return bool(_BEGINS.match(text) or about or (event and is_trigger(event[3])))


def is_line(line: str) -> bool:
    """Return whether a line may be in a list: empty, a comment, a statement, or a removal."""
    text = line.strip()
    return not text or text[0] in "#-!" or begins_statement(text)


def statements_in(text: str, source: str) -> list[Statement]:
    """Return the statements of a list."""
    each = (statement(line, Position(source, number)) for number, line in enumerate(text.split("\n"), 1))
    return [one for one in each if one is not None]


def written(path: str, text: str, position: Position, *, is_on_one_line: bool = False) -> list[Statement]:
    """Return the statements in a write of `text` to a file of a tracefs; none for other files and for removals.

    The path may begin anywhere, even with unknown text; only its last parts count.  The lines of the text are lines of
    the source from `position` on, or, with `is_on_one_line`, all in one line.
    """
    parts = path.split("/")
    file = definitions_file(path)
    if file:
        return [
            definition(line.strip(), there, file=_own_file(file, line))
            for line, there in placed(text, position, is_on_one_line=is_on_one_line)
            if line.strip()[0] not in "-!#"
        ]
    kind, words = parts[-1], text.strip()
    if kind not in (FILTER, TRIGGER) or not words or words == "0" or words[0] == "!":
        return []
    group, event = parts[-3:-1] if parts[-4:-3] == ["events"] else ("", "")
    if re.fullmatch(r"[\w-]+", group) and re.fullmatch(r"\w+", event):
        return [Statement(kind, words, event_file(group, event, kind), position)]
    is_unknown = group or len(parts) == 1 or parts[0].startswith("$")  # and so of the event before, rather than a file
    return [Statement(kind, words, kind, position)] if is_unknown else []


def is_file(path: str) -> bool:
    """Return whether a path may be that of a file of a tracefs that takes definitions, filters or triggers."""
    return path.rpartition("/")[2] in (FILTER, TRIGGER) or is_definitions(path)


def is_definitions(path: str) -> bool:
    """Return whether a path may be that of a file that takes definitions; a variable may be named after one."""
    return definitions_file(path) != ""


def definitions_file(path: str) -> str:
    """Return the file of definitions that a path names, "" if none: by its last part, perhaps a variable's name."""
    name = path.rpartition("/")[2]
    if name in FILES:
        return name
    statements_in = _NAMED.fullmatch(name)
    return statements_in[1].lower() if statements_in else ""


def placed(text: str, position: Position, *, is_on_one_line: bool) -> list[tuple[str, Position]]:
    """Return the lines of a text that aren't empty, each with its position in the source."""
    places = []
    for number, line in enumerate(text.split("\n")):
        there = position
        if number and not is_on_one_line:
            there = position._replace(line=position.line + number, column=1 + len(line) - len(line.lstrip()))
        if line.strip():
            places.append((line, there))
    return places


def _own_file(file: str, line: str) -> str:
    """Return the file to ask for a line: its kind's own, as dynamic_events reports less."""
    return file if file != "dynamic_events" else definition(line, Position()).file
