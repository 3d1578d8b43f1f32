"""The Python of the playground's page: what it answers, by the kernel's own numbers."""

from __future__ import annotations

import ast
import errno
import json
import os
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FORMAT = """\
name: opened
ID: 1392
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long __probe_func;\toffset:8;\tsize:8;\tsigned:0;
\tfield:unsigned long __probe_ret_ip;\toffset:16;\tsize:8;\tsigned:0;
\tfield:s32 fd;\toffset:24;\tsize:4;\tsigned:1;

print fmt: "(%lx <- %lx) fd=%d", REC->__probe_func, REC->__probe_ret_ip, REC->fd
"""


def test_errors_are_the_kernels(answers: ModuleType) -> None:
    for name, (number, text) in answers.KERNEL_ERRORS.items():
        assert (number, text) == (getattr(errno, name), os.strerror(getattr(errno, name)))


@pytest.mark.slow
def test_all_errors_of_the_simulator_are_there(answers: ModuleType) -> None:
    used = {
        node.attr
        for path in (ROOT / "kprobe_sim").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "errno"
    }
    assert {name for name in used if name[0] == "E"} - set(answers.KERNEL_ERRORS) == set()


def test_numbers_of_another_platform(answers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where EINVAL is 28 and ENOENT 44, the answer has 22 and 2."""
    facts = answers.KERNEL_ERRORS
    monkeypatch.setattr(answers, "_HERE", {28: ("EINVAL", *facts["EINVAL"]), 44: ("ENOENT", *facts["ENOENT"])})
    assert answers._kernels_error(OSError(28, "")) == {"name": "EINVAL", "number": 22, "text": "Invalid argument"}
    assert answers._kernels_error(OSError(44, ""))["number"] == 2


def test_recorded_numbers_of_another_platform(
    answers: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(answers.errno, "E2BIG", 1)
    monkeypatch.setattr(answers.errno, "EINVAL", 28)
    facts = {"version": "7", "answers": {"a_errno": 7, "pid_errno": 22, "taken_errno": 0, "size": 22, "texts": None}}
    (tmp_path / "profile.json").write_text(json.dumps(facts))
    answers.settle(str(tmp_path))
    assert json.loads((tmp_path / "profile.json").read_text()) == {
        "version": "7",
        "answers": {"a_errno": 1, "pid_errno": 28, "taken_errno": 0, "size": 22, "texts": None},
    }


def test_refused(answers: ModuleType) -> None:
    answer = answers.answer("5.10", "p:myopen do_sys_openat2 flags=how->flags", "flags > 1")
    (command,) = answer["commands"]
    assert command["error"] == {"name": "EINVAL", "number": 22, "text": "Invalid argument"}
    assert command["log"] == (
        "[   10.000000] trace_kprobe: error: Invalid fetch argument\n"
        "  Command: p:myopen do_sys_openat2 flags=how->flags\n"
        "                                         ^\n"
    )
    assert (answer["events"], answer["calls"], answer["trace"]) == ([], [], "")


def test_taken(answers: ModuleType) -> None:
    answer = answers.answer("6.1", "r:opened do_sys_openat2 fd=$retval:s32", "fd < 0")
    assert answer["commands"][0]["listing"] == ["r10:kprobes/opened do_sys_openat2 fd=$retval:s32"]
    (event,) = answer["events"]
    assert event["format"] == FORMAT
    assert event["filter"] == {"error": None, "log": "", "text": "fd < 0\n"}
    (line,) = [line for line in answer["trace"].splitlines() if line[0] != "#"]
    assert line.endswith(
        "cron-611     [000] .....    10.000000: opened: (__x64_sys_openat+0x6a/0xa0 <- do_sys_openat2) fd=-2"
    )
    assert answer["calls"][-1] == 'cron-611: do_sys_openat2(dfd=-100, filename="/etc/crontab", how) = -2'


@pytest.mark.parametrize("kernel", ["4.9", "4.14", "4.19", "5.4"])
def test_kernels_before_5_10(answers: ModuleType, kernel: str) -> None:
    answer = answers.answer(kernel, "p:myopen do_sys_open filename=+0(%si):string", 'filename ~ "*host*"')
    assert [command["error"] for command in answer["commands"]] == [None]
    assert answer["commands"][0]["listing"] == ["p:kprobes/myopen do_sys_open filename=+0(%si):string"]
    (event,) = answer["events"]
    assert event["filter"] == {"error": None, "log": "", "text": 'filename ~ "*host*"\n'}
    (line,) = [line for line in answer["trace"].splitlines() if line[0] != "#"]
    assert line.startswith("             cat-2841 ")
    assert line.endswith(') filename="/etc/hostname"')
    assert answer["calls"][-1] == 'cron-611: do_sys_open(dfd=-100, filename="/etc/crontab", flags, mode) = -2'
    assert answers.answer(kernel, "p:x vfs_read a=nosuch", "")["commands"][0]["error"]["name"] == "EINVAL"


def test_refused_filter(answers: ModuleType) -> None:
    (event,) = answers.answer("6.1", "p:x do_sys_openat2 a=%ax", "b == 1")["events"]
    assert event["filter"]["error"]["number"] == 22
    assert event["filter"]["text"] == "b == 1\n  ^\nparse_error: Field not found\n\n"
    assert event["filter"]["log"].endswith("  Command: b == 1\n             ^\n")


@pytest.mark.parametrize(
    ("kernel", "definition", "file", "hit"),
    [
        ("6.1", "p do_filp_open name=+0(+0(%si)):string", "kprobe_events", 'name="/etc/hostname"'),
        ("7.2", "f:read vfs_read%return got=$retval", "dynamic_events", " <- vfs_read) got=3"),
        ("7.2", "e:op syscalls/sys_enter_openat name=+0($filename):ustring", "dynamic_events", 'name="/etc/hostname"'),
        ("7.2", "e:op sched.sched_switch pid=$prev_pid", "dynamic_events", "op: (sched.sched_switch) pid=0"),
        ("7.2", "t sched_switch", "dynamic_events", "sched_switch: (__probestub_sched_switch"),
    ],
)
def test_kinds(answers: ModuleType, kernel: str, definition: str, file: str, hit: str) -> None:
    answer = answers.answer(kernel, definition, "")
    assert (answer["commands"][0]["error"], answer["commands"][0]["file"]) == (None, file)
    lines = [line for line in answer["trace"].splitlines() if line[0] != "#"]
    assert len(lines) == 3
    assert hit in lines[0]


@pytest.mark.parametrize(
    ("definition", "file", "said"),
    [
        ("p /bin/bash:0x1000", "uprobe_events", "probes in them are never hit"),
        ("p nfs:foo", "kprobe_events", "no symbol for the function 'foo'"),
        ("s:made int a", "dynamic_events", "the action of a histogram"),
    ],
)
def test_what_is_never_hit_says_why(answers: ModuleType, definition: str, file: str, said: str) -> None:
    answer = answers.answer("7.2", definition, "")
    assert (answer["commands"][0]["error"], answer["commands"][0]["file"]) == (None, file)
    assert len(answer["calls"]) == 1
    assert said in answer["calls"][0]


def test_an_event_without_a_directory(answers: ModuleType) -> None:
    """The name is taken by the file of the system's directory."""
    (event,) = answers.answer("6.1", "p:g/filter vfs_read", "common_pid == 1")["events"]
    assert (event["format"], event["enable"]["error"]["name"]) == ("", "ENOTDIR")


def test_several_definitions(answers: ModuleType) -> None:
    answer = answers.answer("7.2", "# two probes\np:a vfs_read\n\np:b vfs_nothing\nr:c vfs_read", "")
    assert [command["error"] and command["error"]["name"] for command in answer["commands"]] == [None, "EINVAL", None]
    assert [event["event"] for event in answer["events"]] == ["kprobes/a", "kprobes/c"]
    lines = [line for line in answer["trace"].splitlines() if line[0] != "#"]
    assert [line.split(": ")[1] for line in lines] == ["a", "c"] * 3
