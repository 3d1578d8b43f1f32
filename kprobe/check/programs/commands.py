"""A shell's command that stands in a program as a string."""

from __future__ import annotations

import re
from itertools import islice

from kprobe.check.shell.scripts import inside
from kprobe.check.statements import Statement
from kprobe.check.texts import Text

_COMMAND = re.compile(r"\s*(?:(?:sudo|doas|echo|printf|cat|sh|bash|adb|ssh|cd|if|for|set|tee|dd|test)\b|[\[{(])")
_FILE = re.compile(r"(?:kprobe|uprobe|dynamic|synthetic)_events|/filter|/trigger")
_BEFORE_FILE = re.compile(r"(?:>\s*|\btee\b[^|;\n]*|\bof=)[^\s|;]*\Z")
_NEAR = 200  # characters before a file in which what writes to it stands
_FILES = 50  # of a command that are looked at


def is_command(text: str) -> bool:
    """Return whether a text is a shell's command that writes to a file of a tracefs."""
    if not _COMMAND.match(text):
        return False
    each = islice(_FILE.finditer(text), _FILES)
    return any(_BEFORE_FILE.search(text[max(0, one.start() - _NEAR) : one.start()]) for one in each)


def command(said: Text) -> list[Statement]:
    """Return the statements of a command; for the shell, what isn't known of it is a variable."""
    script, names = said.text, dict[str, str]()
    for number, one in enumerate(said.unknowns):
        names[f"${{__{number}}}"] = one
        script = script.replace(one, f"${{__{number}}}")
    found = []
    for statement in inside(script, said.position):
        text, because = statement.text, statement.unclear
        if any(because.endswith(f" {name}") for name in names):
            because = ""  # it isn't the shell that doesn't know it
        for name, one in names.items():
            text, because = text.replace(name, one), because.replace(name, one)
        found.append(statement._replace(text=text, unclear=because))
    return found
