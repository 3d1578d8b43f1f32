"""Switches, wakeups, forks and execs between opens on 3.2, 3.13, 4.4 and 4.19: the whole trace, to the byte."""

from __future__ import annotations

import re

import pytest

from .recorded_on import recorded_on
from .test_early_records import Hit, hits, opened, probed
from .test_early_whole import OLD, recorded

PREEMPTED = {"3.2": 512, "3.13": 1024, "4.4": 2048, "4.19": 256}  # in prev_state, shown as +
STATES = {b"R": 0, b"S": 1, b"D": 2, b"x": 64}
STATES_4_19 = {b"Z": 32, b"I": 128}
FORMS = {
    "sched_switch": rb"prev_comm=(?P<prev_comm>.*) prev_pid=(?P<prev_pid>\d+) prev_prio=(?P<prev_prio>\d+) "
    rb"prev_state=(?P<prev_state>\w\+?) ==> "
    rb"next_comm=(?P<next_comm>.*) next_pid=(?P<next_pid>\d+) next_prio=(?P<next_prio>\d+)",
    "sched_wakeup": rb"comm=(?P<comm>.*) pid=(?P<pid>\d+) prio=(?P<prio>\d+)(?: success=(?P<success>\d))? "
    rb"target_cpu=(?P<target_cpu>\d{3})",
    "sched_process_fork": rb"comm=(?P<parent_comm>.*) pid=(?P<parent_pid>\d+) "
    rb"child_comm=(?P<child_comm>.*) child_pid=(?P<child_pid>\d+)",
    "sched_process_exec": rb"filename=(?P<filename>.*) pid=(?P<pid>\d+) old_pid=(?P<old_pid>\d+)",
}
COUNTS = {  # of each event, in the order of FORMS
    "3.2": [23, 13, 2, 0],
    "3.13": [27, 15, 2, 2],
    "4.4": [31, 16, 2, 2],
    "4.19": [19, 8, 2, 2],
}


def fields(hit: Hit, series: str) -> dict[str, int | bytes]:
    """Return the fields of a static event by its line."""
    found = re.fullmatch(FORMS[hit.event], hit.rest)
    assert found is not None, hit.rest
    said = {name: value for name, value in found.groupdict().items() if value is not None}
    values: dict[str, int | bytes] = {
        name: value if name.endswith(("comm", "filename")) else int(value)
        for name, value in said.items()
        if name != "prev_state"
    }
    if "prev_state" in said:
        letter, preempted = said["prev_state"][:1], said["prev_state"].endswith(b"+")
        states = STATES | STATES_4_19 if series == "4.19" else STATES
        values["prev_state"] = states[letter] | (PREEMPTED[series] if preempted else 0)
    return values


@pytest.mark.parametrize("series", OLD)
def test_the_scheduler_beside_opens(series: str) -> None:
    """Formats other than that of sched_switch are their source's; 3.2 has no event of execs."""
    text = recorded(series, "08_sched")
    kernel = recorded_on(series, cpus=2)
    probed(kernel, series)
    for event in FORMS:
        if kernel.tracefs.exists(f"events/sched/{event}"):
            kernel.tracefs.write(f"events/sched/{event}/enable", b"1")
    for hit in hits(text):
        if hit.event not in FORMS:
            opened(kernel, hit, hit.task)
            continue
        flags, count = hit.context or (None, None)
        values = fields(hit, series)
        kernel.emit(
            f"sched/{hit.event}", task=hit.task, fields=values, cpu=hit.cpu, at=hit.at, flags=flags, preempt_count=count
        )
    assert [text.count(f" {event}: ".encode()) for event in FORMS] == COUNTS[series]
    assert kernel.tracefs.read("trace") == text


@pytest.mark.parametrize("event", ["sched_wakeup", "sched_process_fork", "sched_process_exec"])
def test_formats_by_source_are_those_that_4_9_and_4_14_were_recorded_with(event: str) -> None:
    formats = {
        re.sub(rb"ID: \d+", b"", recorded_on(series).tracefs.read(f"events/sched/{event}/format"))
        for series in ("4.4", "4.9", "4.14", "4.19")
    }
    assert len(formats) == 1
