"""Deleting probes, busy events, several lines in a write, O_TRUNC and appending."""

from __future__ import annotations

import os
from errno import EBUSY, EINVAL, ENOENT
from typing import Any

import pytest

from .builds import AUTO, EPROBES, SHORT_DELETES
from .text import Record, define, errors, probes, refused, show_only, switch, traced

THREE = ("p:g1/a do_sys_openat2", "p:g1/b do_sys_openat2", "p:g2/a do_sys_openat2")


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("-:a", ["p:g1/b do_sys_openat2"]),
        ("-:g1/a", ["p:g1/b do_sys_openat2", "p:g2/a do_sys_openat2"]),
        ("-:g1/a do_sys_openat2", ["p:g1/b do_sys_openat2", "p:g2/a do_sys_openat2"]),
        ("-:b\n", ["p:g1/a do_sys_openat2", "p:g2/a do_sys_openat2"]),
    ],
)
def test_deleted(tracefs: Any, line: str, left: list[str]) -> None:
    define(tracefs, *THREE)
    tracefs.write("kprobe_events", line.encode())
    assert probes(tracefs) == left


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("-:c", ENOENT),
        ("-:g2/b", ENOENT),
        ("-:g1/a vfs_fsync", ENOENT),
        ("-:g1/a do_sys_openat2 %di", ENOENT),
        ("-p:g1/a", EINVAL),
        ("-g1/a", EINVAL),
        ("!p:g1/a", EINVAL),
    ],
)
def test_not_deleted(tracefs: Any, line: str, number: int) -> None:
    define(tracefs, *THREE)
    assert refused(tracefs, "kprobe_events", line) == number
    assert probes(tracefs) == list(THREE)


def test_a_group_at_once(tracefs: Any, choose: Any) -> None:
    define(tracefs, *THREE)
    if choose({"": False, AUTO: True}):
        define(tracefs, "-:g1/")
        assert probes(tracefs) == ["p:g2/a do_sys_openat2"]
        assert refused(tracefs, "kprobe_events", "-:g3/") == ENOENT
    else:
        assert refused(tracefs, "kprobe_events", "-:g1/") == EINVAL
        assert refused(tracefs, "kprobe_events", "-:g3/") == EINVAL
        assert probes(tracefs) == list(THREE)


def test_blanks_before_a_delete(tracefs: Any, choose: Any) -> None:
    """Since 5.12 a delete begins with its first byte."""
    define(tracefs, *THREE)
    if choose({"": False, AUTO: True}):
        assert refused(tracefs, "kprobe_events", " -:g1/a") == EINVAL
        assert refused(tracefs, "kprobe_events", " -:nosuch") == EINVAL
        assert probes(tracefs) == list(THREE)
    else:
        define(tracefs, " -:g1/a")
        assert refused(tracefs, "kprobe_events", " -:nosuch") == ENOENT
        assert probes(tracefs) == [THREE[1], THREE[2]]
    assert errors(tracefs) == []


def test_one_probe_of_an_event(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2 %di", "p:a do_sys_openat2 %si", "p:a vfs_read %di", "p:a vfs_write %di")
    define(tracefs, "-:a vfs_read")
    assert probes(tracefs) == [
        "p:kprobes/a do_sys_openat2 arg1=%di",
        "p:kprobes/a do_sys_openat2 arg1=%si",
        "p:kprobes/a vfs_write arg1=%di",
    ]
    define(tracefs, "-:a do_sys_openat2 arg1=%si")
    assert probes(tracefs) == ["p:kprobes/a do_sys_openat2 arg1=%di", "p:kprobes/a vfs_write arg1=%di"]
    assert refused(tracefs, "kprobe_events", "-:a do_sys_openat2 %di") == ENOENT
    define(tracefs, "-:kprobes/a")
    assert probes(tracefs) == []
    assert errors(tracefs) == []


def test_a_long_argument(tracefs: Any, choose: Any) -> None:
    """5.10, and 6.16 to 7.0, compare with the first 63 characters of an argument: these match, its own text doesn't."""
    long = "aaaaaaaaaabbbbbbbbbbcccccccccc12=+0(+0(+0(+0(+0(+0(+0(+0(%di)))))))):u64"
    define(tracefs, f"p:a vfs_read {long}", f"p:a vfs_write {long}")
    matching, other = choose({"": (long, long[:63]), SHORT_DELETES: (long[:63], long)})
    assert refused(tracefs, "kprobe_events", f"-:a vfs_read {other}") == ENOENT
    define(tracefs, f"-:a vfs_read {matching}")
    assert probes(tracefs) == [f"p:kprobes/a vfs_write {long}"]


def test_the_place_is_compared_as_it_is_shown(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2+0x5")
    assert refused(tracefs, "kprobe_events", "-:a do_sys_openat2+0x5") == ENOENT
    define(tracefs, "-:a do_sys_openat2+5")
    assert probes(tracefs) == []


def test_a_group_goes_with_its_last_event(tracefs: Any) -> None:
    define(tracefs, *THREE)
    define(tracefs, "-:g1/a")
    assert sorted(tracefs.listdir("events/g1")) == ["b", "enable", "filter"]
    define(tracefs, "-:g1/b")
    assert not tracefs.exists("events/g1")
    assert tracefs.exists("events/g2")


def test_an_enabled_event_is_busy(tracefs: Any, choose: Any) -> None:
    define(tracefs, "p:a do_sys_openat2", "p:b do_sys_openat2")
    switch(tracefs, 1, "kprobes/a")
    assert refused(tracefs, "kprobe_events", "-:a") == EBUSY
    assert refused(tracefs, "kprobe_events", "-:kprobes/") == choose({"": EINVAL, AUTO: EBUSY})
    define(tracefs, "-:b")
    assert probes(tracefs) == ["p:kprobes/a do_sys_openat2"]
    switch(tracefs, 0, "kprobes/a")
    define(tracefs, "-:a")
    assert probes(tracefs) == []


def test_a_sibling_of_an_enabled_event_is_not(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    switch(tracefs, 1, "kprobes/a")
    define(tracefs, "p:a vfs_read")
    define(tracefs, "-:a vfs_read")
    assert refused(tracefs, "kprobe_events", "-:a do_sys_openat2") == EBUSY
    assert probes(tracefs) == ["p:kprobes/a do_sys_openat2"]


def test_a_filter_does_not_hold_an_event(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2 f=%di")
    tracefs.write("events/kprobes/a/filter", b"f == 1")
    define(tracefs, "-:a")
    assert probes(tracefs) == []


def test_deleting_a_used_event_empties_the_buffer(tracefs: Any, workload: Any) -> None:
    define(tracefs, "p:used do_sys_openat2", "p:unused do_sys_openat2", "p:other do_sys_openat2")
    show_only(tracefs, "workload", "kprobes/used", "kprobes/other")
    workload.open("/dev/null")
    switch(tracefs, 0, "kprobes/used")
    define(tracefs, "-:unused")
    assert len(traced(tracefs)) == 2
    define(tracefs, "-:used")
    assert traced(tracefs) == []
    workload.open("/dev/null")
    assert len(traced(tracefs)) == 1


def test_an_event_that_came_again_is_new(tracefs: Any, workload: Any, build: Any) -> None:
    define(tracefs, "p:a do_sys_openat2 f=%di:s32")
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null")
    switch(tracefs, 0, "kprobes/a")
    define(tracefs, "-:a", "p:a do_sys_openat2 g=+0(%si):string")
    assert tracefs.read("events/kprobes/a/filter") == b"none\n"
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null")
    assert traced(tracefs) == [f'a: ({build.openat2}) g="/dev/null"']


def test_several_lines(tracefs: Any) -> None:
    tracefs.write("kprobe_events", b"# first\np:a do_sys_openat2 # x\n\n#\n  \np:b do_sys_openat2")
    assert probes(tracefs) == ["p:kprobes/a do_sys_openat2", "p:kprobes/b do_sys_openat2"]


def test_lines_before_a_refused_one_stay(tracefs: Any) -> None:
    text = "p:a do_sys_openat2\np:b do_sys_openat2 %zz\np:c do_sys_openat2\n"
    assert refused(tracefs, "kprobe_events", text) == EINVAL
    assert probes(tracefs) == ["p:kprobes/a do_sys_openat2"]
    assert errors(tracefs) == [Record("trace_kprobe: error: Invalid register name", "p:b do_sys_openat2 ^%zz")]


def test_deletes_before_a_busy_one_stay(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2", "p:b do_sys_openat2", "p:c do_sys_openat2")
    switch(tracefs, 1, "kprobes/b")
    assert refused(tracefs, "kprobe_events", "-:a\n-:b\n-:c\n") == EBUSY
    assert probes(tracefs) == ["p:kprobes/b do_sys_openat2", "p:kprobes/c do_sys_openat2"]


def test_many_lines(tracefs: Any) -> None:
    """More than one window of 4096 bytes."""
    text = "".join(f"p:e{number} do_sys_openat2\n" for number in range(300))
    assert len(text) > 4096
    tracefs.write("kprobe_events", text.encode())
    assert probes(tracefs) == [f"p:kprobes/e{number} do_sys_openat2" for number in range(300)]


@pytest.mark.parametrize("length", [4095, 4096])
@pytest.mark.parametrize("newline", ["", "\n"])
def test_the_longest_line(tracefs: Any, length: int, newline: str) -> None:
    """A line and its newline may have 4095 bytes together."""
    line = "p:a do_sys_openat2".ljust(length - len(newline)) + newline
    if length == 4095:
        tracefs.write("kprobe_events", line.encode())
        assert probes(tracefs) == ["p:kprobes/a do_sys_openat2"]
    else:
        assert refused(tracefs, "kprobe_events", line) == EINVAL
        assert errors(tracefs) == []


def test_a_line_is_not_joined_over_two_writes(tracefs: Any) -> None:
    assert refused(tracefs, "kprobe_events", "p:a do_sys_ope") in (ENOENT, EINVAL)
    assert refused(tracefs, "kprobe_events", "nat2\n") == EINVAL
    assert probes(tracefs) == []


def test_a_write_appends(tracefs: Any) -> None:
    """Whether or not O_APPEND is given."""
    for name, flags in (("a", os.O_WRONLY), ("b", os.O_WRONLY | os.O_APPEND), ("c", os.O_RDWR)):
        with tracefs.open("kprobe_events", flags) as file:
            line = f"p:{name} do_sys_openat2\n".encode()
            assert file.write(line) == len(line)
    assert len(probes(tracefs)) == 3


def test_truncating_replaces(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2", "p:b do_sys_openat2")
    tracefs.write("kprobe_events", b"p:n do_sys_openat2\n", truncate=True)
    assert probes(tracefs) == ["p:kprobes/n do_sys_openat2"]


def test_truncating_acts_at_open(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    file = tracefs.open("kprobe_events", os.O_WRONLY | os.O_TRUNC)
    assert tracefs.read("kprobe_events") == b""
    file.close()


def test_truncating_while_an_event_is_enabled(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2", "p:b do_sys_openat2")
    switch(tracefs, 1, "kprobes/b")
    with pytest.raises(OSError) as refusal:
        tracefs.write("kprobe_events", b"p:c do_sys_openat2\n", truncate=True)
    assert refusal.value.errno == EBUSY
    assert probes(tracefs) == ["p:kprobes/a do_sys_openat2", "p:kprobes/b do_sys_openat2"]


def test_adding_while_an_event_is_enabled(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    switch(tracefs, 1, "kprobes/a")
    define(tracefs, "p:c do_sys_openat2")
    assert probes(tracefs) == ["p:kprobes/a do_sys_openat2", "p:kprobes/c do_sys_openat2"]


def test_dynamic_events(tracefs: Any, choose: Any) -> None:
    shown = choose({"": "r1:g/b do_sys_openat2", EPROBES: "r10:g/b do_sys_openat2"})
    tracefs.write("dynamic_events", b"p:a do_sys_openat2\nr:g/b do_sys_openat2\n")
    assert probes(tracefs) == ["p:kprobes/a do_sys_openat2", shown]
    assert tracefs.read("dynamic_events") == tracefs.read("kprobe_events")
    tracefs.write("dynamic_events", b"!p:kprobes/a")
    assert probes(tracefs) == [shown]
    assert refused(tracefs, "dynamic_events", "-p:g/b") == EINVAL
    assert refused(tracefs, "dynamic_events", "-:nosuch") == ENOENT
    tracefs.write("dynamic_events", b"-:b")
    assert tracefs.read("dynamic_events") == b""


def test_dynamic_events_truncated(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    tracefs.write("dynamic_events", b"p:n do_sys_openat2\n", truncate=True)
    assert probes(tracefs) == ["p:kprobes/n do_sys_openat2"]
    switch(tracefs, 1, "kprobes/n")
    with pytest.raises(OSError) as refusal:
        tracefs.write("dynamic_events", b"", truncate=True)
    assert refusal.value.errno == EBUSY


@pytest.mark.parametrize("text", ["foo bar", "q:foo do_sys_openat2"])
def test_dynamic_events_of_no_kind(tracefs: Any, text: str) -> None:
    assert refused(tracefs, "dynamic_events", text) == EINVAL
