"""The question that settles a row of the gate tables: a few operations on a tracefs, and the meaning of their answer.

A step is a line, VERB and its words; text goes to the end of the line, and `@` at the start of a path is an instance
that only the questions use:

    write PATH TEXT     open, write and close       read PATH     names PATH     mkdir PATH     rmdir PATH
    first PATH TEXT     as `write`, with the first of the words of "{5|9}" with which the kernel takes it
    hold FLAGS PATH     open a file ("r", "w" or "rw", with "n" not to wait) for the steps that follow
    put TEXT            write(2) to it              take SIZE: read(2)   seek OFFSET: lseek(2)   release: close(2)
    wait SIZE           begin to read(2) it in a thread, and give that a moment to wait for what comes
    moment              give the reader a moment more                    waited: what it read
    open PATH           the workload opens a file   fork                 rename NAME

<int3>, <unsupported>, <module> and <shared> in a step are places that who asks has found: see `PLACES`; <open> is the
function that opens a file, do_sys_openat2 if nobody says.

A step that starts with "? " is looked at; without one it is the last.  What is seen of it is by `look`:

    errno               "ok", a number that the system call returned, or the errno's name
    log                 the same, and what error_log says since, as " TEXT @CARET" for each fault
    anything else       a regular expression: what its groups found in the text that was read, "match" if that is
                        nothing, or "none"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kprobe_sim.builds.profile import CALLED
from kprobe_sim.named_tuple import NamedTuple


class Absent:
    """The type of `ABSENT`."""


ABSENT = Absent()  # the kernel hasn't what the row is about: no value can be seen, and none is needed


OPEN = CALLED["open"][0]
PLACES = {
    "open": "the function that opens a file",
    "int3": "the place of an int3 that no table reserves",
    "unsupported": "the place of an instruction that can't be emulated",
    "module": "a loaded module",
    "shared": "a function that a loaded module and the kernel itself have, each once",
}


class Question(NamedTuple):
    """The question of one row; `values` has the row's value by the answer, and no other answer is known.

    `unless` is a row of the gates: a kernel of a version for which that is true isn't asked.
    """

    row: str
    steps: tuple[str, ...]
    look: str
    values: Mapping[str, Any]
    unless: str = ""


class Unasked(NamedTuple):
    """A row that the version has to tell, and why no question can."""

    row: str
    reason: str


def refused_variable(answer: str, value: Any) -> dict[str, Any]:
    """Return the value of answers in which `{}` is the refusal of a variable, in both spellings that there are."""
    return {answer.format(f"Invalid $-{word} specified"): value for word in ("variable", "valiable")}
