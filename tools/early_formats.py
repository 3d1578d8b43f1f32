"""Formats of static events of kernels before 5.10 that weren't recorded, of events whose lines were.

The fields are those of include/trace/events/sched.h, the same in 3.x, 4.4, 4.9, 4.14 and 4.19; the recorded formats of
4.9 and 4.14 have them so.  The text of the lines is that of the recorded ones, as is whether there is `success`; ids
count along available_events, from the recorded one of sched_switch.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Field(NamedTuple):
    """A field of an event: its C declaration, and its size in bytes."""

    declaration: str
    size: int


_COMM, _PID = 16, 4
_EVENTS: dict[str, tuple[tuple[Field, ...], str, str]] = {
    "sched_wakeup": (
        (
            Field("char comm[16]", _COMM),
            Field("pid_t pid", _PID),
            Field("int prio", 4),
            Field("int success", 4),
            Field("int target_cpu", 4),
        ),
        "comm=%s pid=%d prio=%d{success} target_cpu=%03d",
        "REC->comm, REC->pid, REC->prio{success}, REC->target_cpu",
    ),
    "sched_process_fork": (
        (
            Field("char parent_comm[16]", _COMM),
            Field("pid_t parent_pid", _PID),
            Field("char child_comm[16]", _COMM),
            Field("pid_t child_pid", _PID),
        ),
        "comm=%s pid=%d child_comm=%s child_pid=%d",
        "REC->parent_comm, REC->parent_pid, REC->child_comm, REC->child_pid",
    ),
    "sched_process_exec": (
        (Field("__data_loc char[] filename", 4), Field("pid_t pid", _PID), Field("pid_t old_pid", _PID)),
        "filename=%s pid=%d old_pid=%d",
        "__get_str(filename), REC->pid, REC->old_pid",
    ),
}


def by_source(recorded: Path, switch: str) -> dict[str, str]:
    """Return the formats by the events' names; `switch` is the recorded one of sched_switch."""
    lines = (recorded / "traces/08_sched.trace").read_text("latin-1")
    available = (recorded / "files/available_events.txt").read_text().split()
    common = re.search(r"^format:\n(?:\t.*\n)+\n", switch, re.MULTILINE)[0]  # type: ignore[index]
    begin = sum(int(size) for size in re.findall(r"size:(\d+);", common))
    identity = int(re.search(r"^ID: (\d+)$", switch, re.MULTILINE)[1])  # type: ignore[index]
    newest_first = available.index("sched:sched_kthread_stop") < available.index("sched:sched_switch")
    shown = " success=" in lines
    formats = {}
    for name, (fields, text, arguments) in _EVENTS.items():
        if f" {name}: " not in lines:
            continue
        steps = available.index(f"sched:{name}") - available.index("sched:sched_switch")
        told = "".join(_lines(fields, begin))
        formats[name] = (
            f"name: {name}\nID: {identity + (-steps if newest_first else steps)}\n{common}{told}\n"
            f'print fmt: "{text.format(success=" success=%d" if shown else "")}", '
            f"{arguments.format(success=', REC->success' if shown else '')}\n"
        )
    return formats


def _lines(fields: tuple[Field, ...], offset: int) -> list[str]:
    lines = []
    for field in fields:
        lines.append(f"\tfield:{field.declaration};\toffset:{offset};\tsize:{field.size};\tsigned:1;\n")
        offset += field.size
    return lines
