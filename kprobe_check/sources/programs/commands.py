"""A shell command in a string of a program -> its statements."""

from __future__ import annotations

import re
from itertools import islice

from kprobe_check.sources.shell.outputs import replaced
from kprobe_check.sources.shell.scripts import inside
from kprobe_check.sources.texts import Text
from kprobe_check.statement import Statement

_COMMAND = re.compile(r"\s*(?:(?:sudo|doas|echo|printf|cat|sh|bash|adb|ssh|cd|if|for|set|tee|dd|test)\b|[\[{(])")
_FILE = re.compile(r"(?:kprobe|uprobe|dynamic|synthetic)_events|/filter|/trigger")
_TEE, _OF = re.compile(r"\btee\b"), re.compile(r"\bof=")
_NEAR = 200  # characters before a file in which its writer is looked for
_FILES = 50  # characters of a command that are read


def is_command(text: str) -> bool:
    """Return whether a text is a shell command that writes to a file of a tracefs."""
    if not _COMMAND.match(text):
        return False
    each = islice(_FILE.finditer(text), _FILES)
    return any(_writes(text[max(0, one.start() - _NEAR) : one.start()]) for one in each)


def _writes(text: str) -> bool:
    """Return whether a text ends where the file it writes to follows: after ``>``, ``tee`` or ``of=``."""
    last = text[max(text.rfind("|"), text.rfind(";")) + 1 :]
    word = "" if last[-1:].isspace() else "".join(last.split()[-1:])
    before = last[: len(last) - len(word)].rstrip()
    is_named = ">" in word or before.endswith(">") or _OF.search(word) is not None
    return is_named or _TEE.search(last.rpartition("\n")[2]) is not None


def command(value: Text) -> list[Statement]:
    """Return the statements of a command; its unknown parts are variables to the shell."""
    script, names = value.text, dict[str, str]()
    for number, one in enumerate(value.unknowns):
        names[f"${{__{number}}}"] = one
        script = script.replace(one, f"${{__{number}}}")
    found = []
    for statement in inside(script, value.position):
        text, because = statement.text, statement.unclear
        if because in map(replaced, names):
            because = ""  # the program, not the shell, knows the value
        for name, one in names.items():
            text, because = text.replace(name, one), because.replace(name, one)
        found.append(statement._replace(text=text, unclear=because))
    return found
