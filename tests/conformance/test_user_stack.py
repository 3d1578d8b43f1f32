"""The option userstacktrace: where a task is in its program, after each event."""

from __future__ import annotations

import re
from typing import Any

from .text import define, show_only


def test_user_stack(tracefs: Any, workload: Any, build: Any) -> None:
    tracefs.write("options/userstacktrace", b"1")
    tracefs.write("options/stacktrace", b"1")
    define(tracefs, "p:a do_sys_openat2")
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null")
    event, kernel, user = re.split(r"^ +workload-\d+ .*?: ", tracefs.read("trace").decode(), flags=re.MULTILINE)[1:]
    assert event == f"a: ({build.openat2})\n"
    assert kernel.startswith("<stack trace>\n => do_sys_openat2\n")
    assert re.fullmatch(r"<user stack trace>\n =>  <0000000000[0-9a-f]{6}>\n+", user)


def test_no_user_stack_at_a_breakpoint(tracefs: Any, workload: Any) -> None:
    """That is like an NMI, where the program's memory can't be read."""
    tracefs.write("options/userstacktrace", b"1")
    define(tracefs, "p:a do_sys_openat2+5")
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null")
    text = tracefs.read("trace")
    assert b"Z" in re.findall(rb"\] (\S+) .*: a: ", text)[0]
    assert b"<user stack trace>" not in text


def test_the_type_of_a_user_stack(tracefs: Any, workload: Any) -> None:
    identity = tracefs.read("events/ftrace/user_stack/format").split(b"ID: ")[1].split(b"\n")[0]
    tracefs.write("options/userstacktrace", b"1")
    define(tracefs, "r:a do_sys_openat2")
    show_only(tracefs, "workload", "kprobes/a")
    workload.open("/dev/null")
    tracefs.write("options/raw", b"1")
    assert tracefs.read("trace").endswith(b" type: " + identity + b"\n")
