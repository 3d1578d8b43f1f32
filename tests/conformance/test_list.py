"""`kprobe list` everywhere.  No process has the pid 4194305, which is too high."""

from __future__ import annotations

import json
import os
from typing import Any

from kprobe.cli import main
from kprobe.undo.owners import Owner, this_process

from .text import define, switch

GONE = Owner(4194305, 7, this_process().namespace).session(0)
ME = this_process().session(0)


def listed(tracefs: Any, capfd: Any, *options: str) -> str:
    capfd.readouterr()
    assert main(["list", *options], tracefs=tracefs) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return str(out)


def objects(tracefs: Any, capfd: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in listed(tracefs, capfd, "--json").splitlines()]


def test_no_event(tracefs: Any, capfd: Any) -> None:
    assert listed(tracefs, capfd) == "EVENT  OWNER  ENABLED  HITS  MISSED  DEFINITION\n"
    assert listed(tracefs, capfd, "--json") == ""


def test_owners_and_places(tracefs: Any, capfd: Any) -> None:
    define(tracefs, "p:theirs do_sys_openat2", f"p:{GONE}/myopen do_sys_openat2", f"p:{ME}/myopen do_sys_openat2")
    for name in ("b", "a"):
        tracefs.mkdir(f"instances/{name}")
        tracefs.write(f"instances/{name}/events/{ME}/myopen/enable", b"1\n")
    found = {each["event"]: each for each in objects(tracefs, capfd)}
    places = ("owner", "pid", "process", "enabled")
    assert {event: [each[key] for key in places] for event, each in found.items()} == {
        "kprobes/theirs": ["other", None, None, []],
        f"{GONE}/myopen": ["dead", 4194305, None, []],
        f"{ME}/myopen": ["alive", os.getpid(), found[f"{ME}/myopen"]["process"], ["instances/a", "instances/b"]],
    }
    assert found[f"{ME}/myopen"]["process"].startswith(f"process {os.getpid()} (")
    assert list(found) == ["kprobes/theirs", f"{GONE}/myopen", f"{ME}/myopen"]
    switch(tracefs, 1, "kprobes/theirs")
    for name in ("a", "b"):
        tracefs.rmdir(f"instances/{name}")
    assert [each["enabled"] for each in objects(tracefs, capfd)] == [["top level"], [], []]


def test_events_of_one_name_have_their_own_hits(tracefs: Any, capfd: Any, workload: Any) -> None:
    define(tracefs, "p:first/same do_sys_openat2", "p:second/same do_sys_openat2")
    switch(tracefs, 1, "second/same")
    for _ in range(3):
        workload.open("/etc/hostname")
    switch(tracefs, 0, "second/same")
    (_, idle, idly), (_, hits, missed) = (row.split() for row in tracefs.read("kprobe_profile").decode().splitlines())
    assert (idle, idly, missed) == ("0", "0", "0")
    assert int(hits) >= 3
    lines = listed(tracefs, capfd).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["first/same", "not", "kprobe's", "-", "0", "0", "p:first/same", "do_sys_openat2"],
        ["second/same", "not", "kprobe's", "-", hits, "0", "p:second/same", "do_sys_openat2"],
    ]


def test_kinds(tracefs: Any, capfd: Any) -> None:
    define(tracefs, "r:mine do_sys_openat2 $retval")
    tracefs.write("uprobe_events", b"p:there /bin/busybox:0x1000\n")
    expected = [["kprobes/mine", 0, 0], ["uprobes/there", 0, None]]
    if tracefs.exists("synthetic_events"):
        tracefs.write("synthetic_events", b"wake u64 lat; pid_t pid\n")
        expected.append(["synthetic/wake", None, None])
    keys = ("event", "hits", "missed")
    assert [[each[key] for key in keys] for each in objects(tracefs, capfd)] == expected
