"""The question that settles a gate on a live kernel: a few operations on a tracefs, and the meaning of their answer.

A step is a line, VERB and its words; text goes to the end of the line, and `@` at the start of a path is an instance
that only the questions use:

    write PATH TEXT     open, write and close       read PATH     names PATH     mkdir PATH     rmdir PATH
    first PATH TEXT     as `write`, with the first of the words of "{5|9}" with which the kernel takes it
    hold FLAGS PATH     open a file ("r", "w" or "rw", with "n" not to wait) for the steps that follow
    put TEXT            write(2) to it              take SIZE: read(2)   seek OFFSET: lseek(2)   release: close(2)
    wait SIZE           begin to read(2) it in a thread, and give that a moment to start waiting
    moment              give the reader a moment more                    waited: what it read
    open PATH           the workload opens a file   fork                 rename NAME

<int3>, <unsupported>, <module> and <shared> in a step are names of `ask.PLACES`, which the caller fills in; <open> is
the function that opens a file, do_sys_openat2 unless the caller names another.

The answer is that of the steps that start with "? ", or else of the last one.  `reading` says what counts as an answer:

    errno               "ok", a number that the system call returned, or the errno's name
    log                 the same, and what error_log gained, as " TEXT @CARET" for each fault
    anything else       a regular expression: what its groups match in the text that was read, "match" if that is
                        nothing, or "none"
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from kprobe_sim.named_tuple import NamedTuple


class Absent:
    """The type of `ABSENT`."""


ABSENT = Absent()  # the kernel lacks the feature that the gate is about: it shows no value, and needs none


class Question(NamedTuple):
    """The question of one gate; `values` has the gate's value by the answer, and no other answer is known.

    `unless` is a gate: a kernel isn't asked if that is true of its version.
    """

    steps: tuple[str, ...]
    reading: str
    values: Mapping[str, Any]
    unless: str = ""


class Unasked(NamedTuple):
    """Why no question can settle a gate: its version decides."""

    reason: str


TOO_OLD = Unasked(
    "there is no package of a kernel before 5.10: fixtures/definitions and fixtures/filters say what 3.2 to 5.4 did"
)

LETTERS = r"workload-\d+ +\[\d+\] (\S)\S(\S+) "  # without the second: a need to reschedule comes by chance
OPEN = "open /etc/hostname"
ENABLE = "write @/events/zz/enable 1"
TRACE = ("write @/tracing_on 0", "read @/trace")  # while tracing is on, reading it adds to it


def definition(line: str, reading: str, values: Mapping[str, Any]) -> Question:
    """Ask how a kernel takes a definition."""
    return Question((f"write kprobe_events {line}",), reading, values)


def refusal(line: str, *names: str) -> Question:
    """Ask for the errno of a refused definition."""
    return definition(line, "errno", {name: getattr(errno, name) for name in names})


def taken(line: str) -> Question:
    """Ask whether a definition is taken or refused with EINVAL."""
    return definition(line, "errno", {"ok": True, "EINVAL": False})


def refused_variable(answer: str, value: Any) -> dict[str, Any]:
    """Return a value by its answer, in which `{}` stands for the refusal of a variable as kernels spell it."""
    return {answer.format(f"Invalid $-{word} specified"): value for word in ("variable", "valiable")}
