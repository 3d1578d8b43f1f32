"""Kernels before 5.10 replayed: every recorded write to a real 3.2 to 5.4 has the same answer here."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel

from .recorded_on import recorded_on

FIXTURES = Path(__file__).parents[2] / "fixtures"
COUNTS = {"3.2": 613, "3.13": 639, "4.4": 639, "4.9": 639, "4.14": 639, "4.19": 639, "4.19.108": 639, "5.4": 639}
# In "3.13" an instruction begins 76476 bytes after do_sys_open, in a function whose symbol isn't recorded.
DIFFERENT = {"3.13": {128}}
# In 4.19 t_next is five functions, and the one that the kernel finds first isn't the one that it can trace: the record
# doesn't say of each whether ftrace knows it.  The others are refused for the kprobe blacklist, silently: their profile
# takes all that can't be probed for what ftrace doesn't know.  4.19.108, a guest of another build, was asked for what
# ftrace knows, and answers all four.
LOG_DIFFERENT = {"4.19": {101, 103, 104, 120}}
# These messages have no newline: 3.2 ends the line when the next comes, 3.13 and 4.4 show it then.
UNENDED = range(535, 546)
FLAGS = {
    "append": os.O_WRONLY | os.O_APPEND,
    "trunc": os.O_WRONLY | os.O_TRUNC,
    "rdwr": os.O_RDWR,
    "plain": os.O_WRONLY,
}
HEAD = (
    "name: {name}\nID: {number}\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
    "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
)
HASHED = re.compile(r"0x0000000[0-9a-f]{9}")


def rows(kind: str, series: str) -> list[dict[str, Any]]:
    path = FIXTURES / kind / f"{series}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def runs(series: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Group rows so that each group starts with everything removed."""
    groups: list[list[dict[str, Any]]] = []
    for row in rows("definitions", series):
        if row["state"].startswith("clean"):
            groups.append([])
        groups[-1].append(row)
    return [(f"{group[0]['n']} {group[0]['input'][:40]!r}", group) for group in groups]


def check(kernel: SimulatedKernel, row: dict[str, Any], series: str) -> list[str]:
    """Compare the answer to a row, and return what the kernel's log got."""
    tracefs = kernel.tracefs
    kernel.probes.printed.clear()
    number = written = None
    try:
        with tracefs.open(row["target"], FLAGS[row["mode"]]) as file:
            written = file.write(row["input"].encode("latin-1"))
    except OSError as error:
        number = errno.errorcode[error.errno or 0]
    assert (number, written) == (row["errno"], None if row["errno"] else row["ret"])
    assert tracefs.read("kprobe_events").decode("latin-1") == row["readback"]
    if "uprobe_events" in row:
        assert tracefs.read("uprobe_events").decode("latin-1") == row["uprobe_events"]
    for name, text in row.get("format", {}).items():
        if text is None:  # a name that no directory can have
            assert not tracefs.exists(f"events/{name}/format")
            continue
        found = tracefs.read(f"events/{name}/format").decode("latin-1")
        head = HEAD.format(name=name.partition("/")[2], number=re.findall(r"^ID: (\d+)$", found, re.MULTILINE)[0])
        assert found == head + text
    printed = [HASHED.sub("0xHASHED", line) for line in kernel.probes.printed]
    if logged(series) and row["n"] not in (*LOG_DIFFERENT.get(series, ()), *UNENDED):
        assert printed == row.get("log", [])
    return printed


def logged(series: str) -> bool:
    """True where the refusals' lines in the log are simulated; 5.4 has its error_log instead."""
    return series != "5.4"


@pytest.mark.slow
@pytest.mark.parametrize("series", COUNTS)
def test_recorded_definitions(every: Any, series: str) -> None:
    assert len(rows("definitions", series)) == COUNTS[series]

    unended: list[str] = []

    def check_run(run: list[dict[str, Any]]) -> None:
        kernel = recorded_on(series)
        for row in run:
            printed = check(kernel, row, series)
            if row["n"] in UNENDED:
                unended.extend(printed)

    different = [name for name, run in runs(series) if any(row["n"] in DIFFERENT.get(series, ()) for row in run)]
    assert len(different) == len(DIFFERENT.get(series, ()))  # of 639 rows at most one: 99.8 %
    every(runs(series), check_run, of=len(runs(series)), known=different)
    if logged(series):
        long = [row for row in rows("definitions", series) if row["n"] in UNENDED]
        assert unended == [line for row in long for line in row.get("log", ()) if line]


@pytest.mark.parametrize(
    ("series", "count"), [("4.4", 72), ("4.9", 88), ("4.14", 88), ("4.19", 88), ("4.19.108", 88), ("5.4", 88)]
)
def test_recorded_triggers(every: Any, series: str, count: int) -> None:
    """Who wrote and read the file opened it, and so hit the probed function."""
    kernel = recorded_on(series)
    tracefs = kernel.tracefs
    (definition, *_) = (FIXTURES / "filters" / f"{series}.format").read_text().splitlines()
    assert definition == "name: flt"
    fields = "dfd=%di:s32 flags=%dx u64f=%dx:u64 f8=%dx:u8 bf=%dx:b1@15/32 ptr=%si s=+0(%si):string end=%di"
    tracefs.write("kprobe_events", f"p:flt do_sys_open {fields}".encode())
    tracefs.write("kprobe_events", b"p:flt2 do_sys_open")
    path = "events/kprobes/flt/trigger"

    def check(row: dict[str, Any]) -> None:
        number, written = None, -1
        kernel.call("do_sys_open", args=(-100, "trigger", 1, 0))
        try:
            with tracefs.open(path, os.O_WRONLY) as file:
                written = file.write(row["input"].encode("latin-1"))
        except OSError as error:
            number = errno.errorcode[error.errno or 0]
        kernel.call("do_sys_open", args=(-100, "trigger", 0, 0))
        found = tracefs.read(path).decode("latin-1")
        assert (number, written, found) == (row["errno"], row["ret"], row["readback"])

    every(
        [(f"{at} {row['input']!r}", row) for at, row in zip(itertools.count(1), rows("triggers", series))],
        check,
        of=count,
    )


def test_the_page_has_these_counts() -> None:
    page = (FIXTURES.parent / "docs" / "guides" / "old-kernels.md").read_text()
    told = {series: (int(alike), int(of)) for series, alike, of in re.findall(r"\| ([\d.]+) \| (\d+) of (\d+)", page)}
    assert told == {series: (count - len(DIFFERENT.get(series, ())), count) for series, count in COUNTS.items()}


@pytest.mark.parametrize(("series", "shown"), [("5.4", [b"96\n", b"1\n"]), ("5.10", [b"99\n", b"7\n"])])
def test_what_a_resized_buffer_is_said_to_hold(series: str, shown: list[bytes]) -> None:
    kernel = recorded_on(series)
    for number, text in zip((b"96", b"1"), shown, strict=True):
        kernel.tracefs.write("buffer_size_kb", number)
        assert kernel.tracefs.read("buffer_size_kb") == kernel.tracefs.read("per_cpu/cpu0/buffer_size_kb") == text


def test_the_size_to_which_5_4_expands_a_buffer() -> None:
    kernel = SimulatedKernel("5.4")
    assert kernel.tracefs.read("buffer_size_kb") == b"7 (expanded: 1408)\n"
    kernel.tracefs.write("events/sched/sched_switch/enable", b"1")
    assert kernel.tracefs.read("buffer_size_kb") == b"1408\n"
