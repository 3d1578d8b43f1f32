"""Every recorded trace of nine kernels, whole: none left out, nothing unread but what isn't text, and values are true.

fixtures/text/whole.tar.xz has what the guests' files held, uncut: all of `trace` and `trace_pipe`, also of one CPU and
of an instance, and the account of the program that opened files.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprobe_text.text import (
    FAULT,
    Bare,
    Coded,
    Event,
    Function,
    Marker,
    RawMarker,
    StackTrace,
    Unnamed,
    Unparsed,
    parse,
)

ARCHIVE = Path(__file__).parents[3] / "fixtures" / "text" / "whole.tar.xz"
COUNTS = {
    "3.2": 52, "3.13": 81, "3.13fp": 81, "4.4": 85, "4.19": 90, "5.10": 92, "6.1": 96, "6.12": 97, "7.2": 97
}  # fmt: skip
ENTRIES = (Event, Bare, Coded, Marker, RawMarker, StackTrace, Function, Unnamed)
# option bin: bytes, no text; how many lines one takes them for
BINARY = {
    "3.2": 235, "3.13": 233, "3.13fp": 236, "4.4": 237, "4.19": 234, "5.10": 237, "6.1": 236, "6.12": 242, "7.2": 236
}  # fmt: skip
# where the header doesn't count the file's records: those of one CPU of two; what isn't text; and before 5.10 a count
# below zero, printed without its sign, once a pipe was read
UNCOUNTED = re.compile(r"02_comms\.cpu\d\.trace|03_opt_bin\.trace|05_lost\.cpu\d\.trace")
BELOW_ZERO = {"05_live_after.trace": 7, "05_lost.trace": 250, "05_lost_after_pipe.trace": 0}
COUNTED = re.compile(rb"entries-in-buffer/entries-written: (\d+)/")

ACCOUNTS = {
    "02_comms.trace": 149,
    "03_opt_latency-format,verbose.trace": 112,
    "03_opt_norecord-cmd.trace": 112,
    "03_opt_stacktrace,nosym-offset.trace": 112,
    "03_opt_stacktrace,sym-addr.trace": 112,
    "03_opt_stacktrace,sym-offset.trace": 112,
    "03_opt_stacktrace.trace": 112,
    "03_opt_verbose.trace": 112,
    "06_pipe.trace_pipe": 112,
}
# paths that the kernel didn't read: what it shows in their place
UNREAD: dict[str, dict[object, int]] = {
    "3.2": {FAULT: 1, "": 9},
    "3.13": {FAULT: 1, "": 9},
    "3.13fp": {FAULT: 1, "": 9},
    "4.4": {FAULT: 2},
    "4.19": {FAULT: 2},
    "5.10": {FAULT: 3},
    "6.1": {FAULT: 3},
    "6.12": {FAULT: 3},
    "7.2": {FAULT: 2},
}
# tasks by the name that they had before: a call or three came before the kernel kept the new one
FORMER = {"6.1": 3, "7.2": 3}


@pytest.fixture(scope="module")
def files() -> dict[str, dict[str, bytes]]:
    """All files, by series and name."""
    found: dict[str, dict[str, bytes]] = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            data = archive.extractfile(member)
            assert data is not None
            series, _, name = member.name.removeprefix("./").split("/")
            found.setdefault(series, {})[name] = data.read()
    return found


def traces(files: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    return ((name, data) for name, data in sorted(files.items()) if not name.endswith(".jsonl"))


def test_there_are_all(files: dict[str, dict[str, bytes]]) -> None:
    assert {series: len(list(traces(some))) for series, some in files.items()} == COUNTS
    assert sum(COUNTS.values()) == 771


@pytest.mark.slow
@pytest.mark.parametrize("series", COUNTS)
def test_nothing_is_unread(files: dict[str, dict[str, bytes]], series: str) -> None:
    unread = {}
    for name, data in traces(files[series]):
        records = list(parse(data))
        assert b"".join(record.raw for record in records) == data, name
        if count := sum(isinstance(record, Unparsed) for record in records):
            unread[name] = count
        counted = COUNTED.search(data)
        if counted is not None and UNCOUNTED.fullmatch(name) is None:
            entries, told = sum(isinstance(record, ENTRIES) for record in records), int(counted[1])
            assert entries == (BELOW_ZERO[name] if told >> 63 else told), name
    assert unread == {"03_opt_bin.trace": BINARY[series]}


@pytest.mark.parametrize("series", ["4.9", "4.14", "5.4"])
def test_nothing_is_unread_of_kernels_that_were_recorded_later(series: str) -> None:
    paths = sorted((ARCHIVE.parents[1] / "early" / series).glob("*.trace"))
    assert len(paths) >= 30
    unread = set()
    for path in paths:
        data = path.read_bytes()
        records = list(parse(data))
        assert b"".join(record.raw for record in records) == data, path
        unread |= {path.name for record in records if isinstance(record, Unparsed)}
    assert unread == {"03_opt_bin.trace"}


@pytest.mark.parametrize("series", COUNTS)
def test_values_are_those_of_the_account(files: dict[str, dict[str, bytes]], series: str) -> None:
    """Task, CPU, path and result of each open, as the program wrote them down."""
    unread: Counter[object] = Counter()
    former = 0
    for name, count in ACCOUNTS.items():
        account = [json.loads(line) for line in files[series][f"{name.partition('.')[0]}.activity.jsonl"].splitlines()]
        calls = [entry for entry in account if entry["call"].startswith("open")]
        assert len(calls) == count
        events = [record for record in parse(files[series][name]) if isinstance(record, Event)]
        for pid in dict.fromkeys(call["pid"] for call in calls):
            ours = [call for call in calls if call["pid"] == pid]
            entered = [event for event in events if event.pid == pid and event.name == "ent"]
            left = [event for event in events if event.pid == pid and event.name == "ret"]
            assert len(entered) >= len(ours) <= len(left)
            for call, entry, leave in zip(ours, entered, left, strict=False):
                assert (entry.cpu, leave.cpu) == (call["cpu"], call["cpu"])
                assert leave.fields["ret"] == (-call["errno"] if call["errno"] else call["ret"])
                if entry.task == "rec":
                    former += 1
                elif entry.task != "<...>":
                    assert entry.task == latin(call["comm"])[:15].lstrip(" ")
                if entry.fields["s"] != latin(call["path"] or ""):
                    unread[entry.fields["s"]] += 1
    assert unread == UNREAD[series]
    assert former == FORMER.get(series, 0)


def latin(text: str) -> str:
    """Give the bytes that the account has as latin-1 the way a record has them."""
    return text.encode("latin-1").decode("utf-8", "surrogateescape")
