"""All recorded traces: nothing is dropped, and only what can't be read stays unread."""

import re
from pathlib import Path
from typing import Any

import pytest

from kprobe_text.text import Bare, Coded, Event, Function, Marker, RawMarker, StackTrace, Unnamed, Unparsed, parse

TRACES = Path(__file__).parents[3] / "fixtures" / "text"
# and how many recordings there are of each
SERIES = {
    "3.2": 30, "3.13": 47, "3.13fp": 46, "4.4": 50, "4.19": 55, "5.10": 54, "6.1": 56, "6.12": 57, "7.2": 57
}  # fmt: skip
FILES = sorted(path.relative_to(TRACES).as_posix() for path in TRACES.glob("*/*.trace*"))
ENTRIES = (Event, Bare, Coded, Marker, RawMarker, StackTrace, Function, Unnamed)

# Traces that aren't text: option bin.
UNREAD = {
    **{f"{series}/03_opt_bin.trace": 9 for series in SERIES},
    "3.2/03_opt_bin.trace": 16,
    **{f"{series}/03_opt_bin.trace": 8 for series in ("6.1", "6.12", "7.2")},
}


def test_there_are_recordings_of_nine_kernels() -> None:
    assert {name.split("/")[0] for name in FILES} == set(SERIES)
    assert len(FILES) == 452


@pytest.mark.parametrize("series", SERIES)
def test_each_byte_is_in_one_record_and_few_lines_are_not_understood(every: Any, series: str) -> None:
    def check(name: str) -> None:
        data = (TRACES / name).read_bytes()
        records = list(parse(data))
        assert b"".join(record.raw for record in records) == data
        assert sum(isinstance(record, Unparsed) for record in records) == UNREAD.get(name, 0)

    every([(name, name) for name in FILES if name.split("/")[0] == series], check, of=SERIES[series])


@pytest.mark.parametrize("series", [series for series in SERIES if series != "3.2"])
@pytest.mark.parametrize("name", ["10_function", "12_missed", "16_uprobe2", "17_comm_newline"])
def test_as_many_records_as_the_kernel_counts(series: str, name: str) -> None:
    data = (TRACES / series / f"{name}.trace").read_bytes()
    counted = re.search(rb"entries-in-buffer/entries-written: (\d+)/", data)
    assert counted is not None
    assert sum(isinstance(record, ENTRIES) for record in parse(data)) == int(counted[1])


@pytest.mark.parametrize(
    ("series", "whole", "lengths"),
    [("3.2", False, 4084), ("3.13", False, 4089), ("5.10", False, 4094), ("6.1", False, 4095), ("6.12", True, 4110)],
)
def test_a_record_that_the_kernel_broke_off(series: str, whole: bool, lengths: int) -> None:
    """The kernel leaves out what its page doesn't hold, the newline too; 6.12 has two pages."""
    data = (TRACES / series / "02_comms.trace").read_bytes()
    events = [record for record in parse(data) if isinstance(record, Event)]
    (index,) = (i for i, event in enumerate(events) if b"LLLLLLLL" in event.raw)
    broken, following = events[index], events[index + 1]
    assert broken.fields["s"] == "/tmp/" + "L" * 3994
    assert ("flags" in broken.fields) is whole
    assert len(broken.raw) == lengths
    assert (following.name, following.fields["ret"]) == ("ret", -36)
