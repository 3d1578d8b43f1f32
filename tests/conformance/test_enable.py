"""The enable files of an event, of a group, and of everything."""

from __future__ import annotations

from errno import EINVAL, ERANGE
from typing import Any

import pytest

from .builds import EPROBES
from .text import define, refused

EVENT = "events/kprobes/a/enable"
GROUP = "events/kprobes/enable"
ALL = "events/enable"


@pytest.mark.parametrize(
    ("written", "read"),
    [("1", "1"), ("1\n", "1"), ("01", "1"), ("+1", "1"), ("1\0", "1"), ("0", "0"), ("0\n", "0"), ("00", "0")],
)
def test_taken(tracefs: Any, written: str, read: str) -> None:
    define(tracefs, "p:a do_sys_openat2")
    tracefs.write(EVENT, b"0" if read == "1" else b"1")
    tracefs.write(EVENT, written.encode())
    assert tracefs.read(EVENT).decode() == read + "\n"
    assert tracefs.read(GROUP).decode() == read + "\n"


@pytest.mark.parametrize(
    "written",
    [
        "2",
        "-1",
        "x",
        "",
        " 1",
        "1 ",
        "0x1",
        "1\n1",
        "1\n\n",
        "10",
        "y",
        "Y",
        "n",
        "on",
        "off",
        "\n",
        "1x",
        "0b1",
        "1" + " " * 40,
    ],
)
def test_refused(tracefs: Any, written: str) -> None:
    define(tracefs, "p:a do_sys_openat2")
    assert refused(tracefs, EVENT, written) == EINVAL
    assert tracefs.read(EVENT) == b"0\n"


def test_refused_as_out_of_range(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    assert refused(tracefs, EVENT, "1" * 60) == ERANGE


@pytest.mark.parametrize("written", ["2", "-1", "x", ""])
@pytest.mark.parametrize("path", [GROUP, ALL])
def test_refused_by_a_group(tracefs: Any, path: str, written: str) -> None:
    define(tracefs, "p:a do_sys_openat2")
    assert refused(tracefs, path, written) == EINVAL
    assert tracefs.read(EVENT) == b"0\n"


def test_states_of_a_group(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2", "p:b do_sys_openat2", "p:other/c do_sys_openat2")
    assert tracefs.read(GROUP) == b"0\n"
    assert tracefs.read(ALL) == b"0\n"
    tracefs.write(EVENT, b"1")
    assert tracefs.read(GROUP) == b"X\n"
    assert tracefs.read(ALL) == b"X\n"
    tracefs.write("events/kprobes/b/enable", b"1")
    assert tracefs.read(GROUP) == b"1\n"
    assert tracefs.read(ALL) == b"X\n"
    assert tracefs.read("events/other/enable") == b"0\n"
    tracefs.write(GROUP, b"0")
    assert tracefs.read(EVENT) == b"0\n"
    assert tracefs.read("events/kprobes/b/enable") == b"0\n"
    assert tracefs.read(ALL) == b"0\n"


def test_a_group_enables_its_events(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2", "p:b do_sys_openat2", "p:other/c do_sys_openat2")
    tracefs.write(GROUP, b"1")
    assert tracefs.read(EVENT) == b"1\n"
    assert tracefs.read("events/kprobes/b/enable") == b"1\n"
    assert tracefs.read("events/other/c/enable") == b"0\n"
    assert tracefs.read("set_event") == b"kprobes:b\nkprobes:a\n"


def test_a_new_event_is_off_in_an_enabled_group(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    tracefs.write(GROUP, b"1")
    define(tracefs, "p:b do_sys_openat2")
    assert tracefs.read("events/kprobes/b/enable") == b"0\n"
    assert tracefs.read(GROUP) == b"X\n"


def test_twice_is_once(tracefs: Any) -> None:
    define(tracefs, "p:a do_sys_openat2")
    tracefs.write(EVENT, b"1")
    tracefs.write(EVENT, b"1")
    tracefs.write(EVENT, b"0")
    assert tracefs.read(EVENT) == b"0\n"


def test_a_group_with_nothing_to_enable_says_so(tracefs: Any, choose: Any) -> None:
    """events/ftrace holds events that no file enables; on later kernels it has no enable file of its own either."""
    assert tracefs.exists("events/ftrace/enable") is choose({"": True, EPROBES: False})
    assert not tracefs.exists("events/ftrace/print/enable")
    assert tracefs.exists("events/ftrace/print/format")


@pytest.mark.parametrize("name", ["sched/sched_switch", "syscalls/sys_enter_openat"])
def test_static_events(tracefs: Any, name: str) -> None:
    path = f"events/{name}/enable"
    assert tracefs.read(path) == b"0\n"
    tracefs.write("tracing_on", b"0")
    tracefs.write(path, b"1")
    assert tracefs.read(path) == b"1\n"
    assert tracefs.read("events/" + name.partition("/")[0] + "/enable") == b"X\n"
    assert tracefs.read("set_event").decode() == name.replace("/", ":") + "\n"
    tracefs.write(path, b"0")
    assert tracefs.read(ALL) == b"0\n"
