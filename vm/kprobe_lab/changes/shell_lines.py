"""The questions that are asked when a kernel is recorded, as lines for a shell.

The language of their steps is that of kprobe_sim/builds/gates.  The shell takes the place of the tests' task.  It
can't express several threads, a seek, or probe points that have to be searched for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from kprobe_lab.changes.language import shell
from kprobe_lab.operations.operation import List, Make, Read, Remove, Write

_INSTANCE = "instances/a"
_CHOICE = re.compile(r"\{([^{}|]*)\|[^{}]*\}")
_PLACE = re.compile(r"<(int3|unsupported|module|shared)>")
_REDIRECTED = {"r": "<", "rn": "<", "w": ">>", "rw": "<>"}


def as_shell(question: tuple[str, ...]) -> str:
    """Return the steps of a question as a line for a shell in the tracefs, "" if a shell can't express them."""
    lines = [f"mkdir {_INSTANCE}"] if any(" @" in step for step in question) else []
    for step in question:
        verb, _, words = step.removeprefix("? ").partition(" ")
        made = _MADE.get(verb)
        if made is None or not words or _PLACE.search(words):
            return ""
        lines.append(made(words.replace("@", _INSTANCE, 1) if re.match(r"(?:[rwn]+ )?@", words) else words))
    return "; ".join(lines)


def _written(arguments: str) -> str:
    path, _, text = _CHOICE.sub(r"\1", arguments).partition(" ")
    return shell((Write(path, text.encode("latin-1"), os.O_WRONLY | os.O_APPEND),))


def _held(arguments: str) -> str:
    flags, _, path = arguments.partition(" ")
    return f"exec 3{_REDIRECTED[flags]} {path}"


_MADE: Mapping[str, Callable[[str], str]] = {
    "write": _written,
    "first": _written,
    "read": lambda path: shell((Read(path),)),
    "names": lambda path: shell((List(path),)),
    "mkdir": lambda path: shell((Make(path),)),
    "rmdir": lambda path: shell((Remove(path),)),
    "open": lambda path: f"cat {path} > /dev/null",
    "hold": _held,
    "put": lambda text: shell((Write("&3", text.encode("latin-1")),)).replace("> &3", ">&3"),
    "take": lambda size: f"dd bs={size} count=1 <&3",
}
