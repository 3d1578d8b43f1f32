"""Reading what the kernel says, for assertions: trace lines, error_log records, refused writes."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

import pytest

LINE = re.compile(
    rb" *(?P<comm>.{0,15})-(?P<pid>\d+) +\[(?P<cpu>\d{3})\] (?P<flags>.{4,5}) +(?P<time>\d+\.\d{6}): (?P<body>.*)"
)

HEADER = """\
# tracer: nop
#
# entries-in-buffer/entries-written: {entries}   #P:{cpus}
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
"""

# before 5.15
FOUR_LETTERS_HEADER = """\
# tracer: nop
#
# entries-in-buffer/entries-written: {entries}   #P:{cpus}
#
#                                _-----=> irqs-off
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| /     delay
#           TASK-PID     CPU#  ||||   TIMESTAMP  FUNCTION
#              | |         |   ||||      |         |
"""


# seconds for which a reader is seen to wait; what it then gets shows that it did
A_MOMENT = 0.002


class Record(NamedTuple):
    """One record of error_log: where (with what), the command, and the same command with a ^ at the fault."""

    message: str
    command: str


def define(tracefs: Any, *lines: str) -> None:
    """Add probes, as one write."""
    tracefs.write("kprobe_events", "".join(line + "\n" for line in lines).encode())


def probes(tracefs: Any) -> list[str]:
    """Return the lines of kprobe_events."""
    return tracefs.read("kprobe_events").decode().splitlines()


def show_only(tracefs: Any, comm: str, *events: str) -> None:
    """Let events record only what a task of that name does, and enable them."""
    for event in events:
        tracefs.write(f"events/{event}/filter", f'comm == "{comm}"'.encode())
        tracefs.write(f"events/{event}/enable", b"1")


def switch(tracefs: Any, value: int, *events: str) -> None:
    """Enable or disable events."""
    for event in events:
        tracefs.write(f"events/{event}/enable", b"%d" % value)


def bodies(text: bytes) -> list[str]:
    """Return what follows the timestamp of each record; lines that continue a record stay with it."""
    found: list[str] = []
    for line in text.split(b"\n"):
        if line.startswith(b"#") or not line:
            continue
        match = LINE.fullmatch(line)
        if match:
            found.append(match["body"].decode("latin-1"))
        else:
            found[-1] += "\n" + line.decode("latin-1")
    return found


def traced(tracefs: Any) -> list[str]:
    """Return the bodies of the records in `trace`."""
    return bodies(tracefs.read("trace"))


def errors(tracefs: Any) -> list[Record]:
    """Return the records of error_log, oldest first; every line must be of the form the kernel gives it."""
    lines = tracefs.read("error_log").decode("latin-1").split("\n")
    assert lines.pop() == ""
    found = []
    while lines:
        head, command, caret, *lines = lines
        match = re.fullmatch(r"\[ *\d+\.\d{6}\] (.*)", head)
        assert match, head
        assert command.startswith("  Command: "), command
        command = command.removeprefix("  Command: ")
        assert caret.endswith("^"), caret
        assert caret[:-1] == " " * (len(caret) - 1), caret
        column = len(caret) - 1 - 11
        assert column >= 0, caret
        padded = command.ljust(column)
        found.append(Record(match[1], padded[:column] + "^" + padded[column:]))
    return found


def refused(tracefs: Any, path: str, data: str | bytes) -> int:
    """Write, and return the errno of the refusal; the error must carry the path."""
    with pytest.raises(OSError) as refusal:
        tracefs.write(path, data if isinstance(data, bytes) else data.encode("latin-1"))
    assert refusal.value.filename is not None
    assert os.fspath(refusal.value.filename).endswith(path)
    return int(refusal.value.errno or 0)
