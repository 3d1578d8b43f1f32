"""What a killed kprobe leaves, and `kprobe clean`, everywhere.  No process has the pid 4194305, which is too high.

A session has its events in a group of its own (GROUP), unless the user named one: then its instance is called NAMED,
and what is enabled or has a filter there is the session's.
"""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from kprobe.cli import main
from kprobe.undo.owners import Owner, this_process

from .text import probes

GROUP = Owner(4194305, 7, this_process().namespace).session(0)
LEFT = f"instances/{GROUP}"
NAMED = f"{LEFT}_named"
ME = this_process().session(0)
MINE = f"instances/{ME}"
PROBE = "p:kprobes/myopen do_sys_openat2"
OWN = f"p:{GROUP}/myopen do_sys_openat2"


def leave(tracefs: Any, directory: str = NAMED, name: str = "myopen", group: str = "kprobes") -> None:
    """Do what a kprobe does before it is killed."""
    tracefs.mkdir(directory)
    tracefs.write("kprobe_events", f"p:{group}/{name} do_sys_openat2\n".encode())
    tracefs.write(f"{directory}/events/{group}/{name}/enable", b"1\n")


def clean(tracefs: Any, capfd: Any, *options: str) -> tuple[int, list[str]]:
    capfd.readouterr()
    status = main(["clean", *options], tracefs=tracefs)
    out, err = capfd.readouterr()
    assert err == ""
    return status, out.splitlines()


def nothing(tracefs: Any) -> bool:
    return (tracefs.listdir("instances"), probes(tracefs)) == ([], [])


@pytest.mark.parametrize("step", range(5))
def test_a_session_that_was_killed_at_any_step_is_removed(tracefs: Any, capfd: Any, step: int) -> None:
    enable = f"events/{GROUP}/myopen/enable"
    steps = [
        lambda: tracefs.mkdir(LEFT),
        lambda: tracefs.write("kprobe_events", OWN.encode() + b"\n"),
        lambda: tracefs.write(f"{LEFT}/events/{GROUP}/myopen/filter", b"common_pid == 1\n"),
        lambda: tracefs.write(f"{LEFT}/{enable}", b"1\n"),
        lambda: tracefs.write(enable, b"1\n"),
    ]
    for do in steps[: step + 1]:
        do()
    listed = [f"{LEFT} (process 4194305 is gone)", f"{GROUP}/myopen ({OWN})"][: step + 1]
    assert clean(tracefs, capfd, "--dry-run") == (0, [f"would remove {each}" for each in listed])
    assert tracefs.listdir("instances") == [GROUP]
    assert clean(tracefs, capfd) == (0, [f"removed {each}" for each in listed])
    assert nothing(tracefs)
    assert clean(tracefs, capfd) == (0, [])


def test_a_session_at_the_top_level_is_removed(tracefs: Any, capfd: Any) -> None:
    tracefs.write("kprobe_events", OWN.encode() + b"\n")
    tracefs.write(f"events/{GROUP}/myopen/enable", b"1\n")
    tracefs.write(f"events/{GROUP}/myopen/filter", b"common_pid == 1\n")
    assert clean(tracefs, capfd) == (0, [f"removed {GROUP}/myopen ({OWN})"])
    assert nothing(tracefs)


def test_an_event_of_the_dead_that_another_uses_stays(tracefs: Any, capfd: Any) -> None:
    leave(tracefs, LEFT, group=GROUP)
    tracefs.mkdir("instances/other")
    tracefs.write(f"instances/other/events/{GROUP}/myopen/enable", b"1\n")
    gone = f"{LEFT} (process 4194305 is gone)"
    assert clean(tracefs, capfd) == (4, [f"removed {gone}", f"kept {GROUP}/myopen: it is in use in instances/other"])
    assert probes(tracefs) == [OWN]
    tracefs.rmdir("instances/other")
    assert clean(tracefs, capfd)[0] == 0
    assert nothing(tracefs)


def test_the_instance_goes_before_its_event(tracefs: Any) -> None:
    leave(tracefs)
    with pytest.raises(OSError) as caught:
        tracefs.write("kprobe_events", b"-:kprobes/myopen\n")
    assert caught.value.errno == errno.EBUSY
    tracefs.rmdir(NAMED)
    tracefs.write("kprobe_events", b"-:kprobes/myopen\n")
    assert probes(tracefs) == []


def test_what_the_dead_left_is_removed(tracefs: Any, capfd: Any) -> None:
    leave(tracefs)
    listed = [f"{NAMED} (process 4194305 is gone)", f"kprobes/myopen ({PROBE})"]
    assert clean(tracefs, capfd, "--dry-run") == (0, [f"would remove {each}" for each in listed])
    assert (tracefs.listdir("instances"), probes(tracefs)) == ([f"{GROUP}_named"], [PROBE])
    assert clean(tracefs, capfd) == (0, [f"removed {each}" for each in listed])
    assert (tracefs.listdir("instances"), probes(tracefs)) == ([], [])
    assert clean(tracefs, capfd) == (0, [])


def test_an_event_with_a_filter_is_known_before_it_is_enabled(tracefs: Any, capfd: Any) -> None:
    tracefs.mkdir(NAMED)
    tracefs.write("kprobe_events", b"p:myopen do_sys_openat2\n")
    tracefs.write(f"{NAMED}/events/kprobes/myopen/filter", b"common_pid == 1\n")
    assert clean(tracefs, capfd)[0] == 0
    assert (tracefs.listdir("instances"), probes(tracefs)) == ([], [])


def test_what_the_living_use_stays(tracefs: Any, capfd: Any) -> None:
    leave(tracefs, MINE, group=ME)
    status, (line,) = clean(tracefs, capfd)
    assert status == 0
    assert line.startswith(f"kept {MINE}: process {os.getpid()} (")
    assert tracefs.read(f"{MINE}/events/{ME}/myopen/enable") == b"1\n"


def test_what_others_made_stays(tracefs: Any, capfd: Any) -> None:
    leave(tracefs)
    names = ["kprobe_4194305", "kprobe_4194305_7", "kprobe_04194305_7_0", "kprobe_x_7_0", "mykprobe_4194305_7_0"]
    for name in names:
        tracefs.mkdir(f"instances/{name}")
    tracefs.write("kprobe_events", b"p:theirs do_sys_openat2\n")
    tracefs.write("events/kprobes/theirs/enable", b"1\n")
    tracefs.write("kprobe_events", b"p:idle do_sys_openat2\n")
    tracefs.write(f"{NAMED}/events/sched/sched_switch/enable", b"1\n")
    assert clean(tracefs, capfd)[0] == 0
    assert sorted(tracefs.listdir("instances")) == sorted(names)
    assert probes(tracefs) == ["p:kprobes/theirs do_sys_openat2", "p:kprobes/idle do_sys_openat2"]
    assert tracefs.read("events/kprobes/theirs/enable") == b"1\n"


@pytest.mark.parametrize("place", ["", "instances/other/"])
def test_an_event_that_is_enabled_elsewhere_too_stays(tracefs: Any, capfd: Any, place: str) -> None:
    leave(tracefs)
    if place:
        tracefs.mkdir(place.rstrip("/"))
    tracefs.write(f"{place}events/kprobes/myopen/enable", b"1\n")
    expected = f"kept kprobes/myopen: it is in use in {place.rstrip('/') or 'the top level'}"
    assert clean(tracefs, capfd, "--dry-run")[1][1] == expected
    assert clean(tracefs, capfd) == (0, [f"removed {NAMED} (process 4194305 is gone)", expected])
    assert probes(tracefs) == [PROBE]


def test_an_event_that_has_another_probe_stays(tracefs: Any, capfd: Any) -> None:
    leave(tracefs)
    tracefs.write("kprobe_events", b"p:myopen vfs_read\n")
    assert (
        clean(tracefs, capfd)[1][1] == "kept kprobes/myopen: 2 probes are on it, and their owners can't be told apart"
    )
    assert len(probes(tracefs)) == 2


def test_two_dead_instances_of_one_event(tracefs: Any, capfd: Any) -> None:
    leave(tracefs)
    other = f"instances/{Owner(4194306, 8, this_process().namespace).session(3, is_named=True)}"
    tracefs.mkdir(other)
    tracefs.write(f"{other}/events/kprobes/myopen/enable", b"1\n")
    assert clean(tracefs, capfd)[0] == 0
    assert (tracefs.listdir("instances"), probes(tracefs)) == ([], [])


def test_an_instance_that_is_read_stays_with_its_event(tracefs: Any, capfd: Any) -> None:
    leave(tracefs)
    stream = tracefs.stream(f"{NAMED}/trace_pipe")
    expected = [f"kept {NAMED}: Device or resource busy (somebody reads there)"]
    assert clean(tracefs, capfd) == (4, expected)
    assert probes(tracefs) == [PROBE]
    stream.close()
    assert clean(tracefs, capfd)[0] == 0
    assert probes(tracefs) == []


def test_an_event_that_may_be_of_the_dead_is_named(tracefs: Any, capfd: Any) -> None:
    tracefs.mkdir(NAMED)
    tracefs.write("kprobe_events", b"p:myopen do_sys_openat2\n")
    assert main(["clean"], tracefs=tracefs) == 0
    assert capfd.readouterr().err == (
        f"NOTE: no event was enabled in {NAMED}. If one that nobody uses was added for it, remove it:\n"
        "  echo '-:kprobes/myopen' >> kprobe_events\n"
    )
    assert probes(tracefs) == [PROBE]


def test_the_next_trace_removes_what_the_dead_left(tracefs: Any, tracer: Any) -> None:
    leave(tracefs, LEFT, group=GROUP)
    tracefs.mkdir(f"instances/{ME}7")
    with tracer.trace("p:myopen do_sys_openat2") as trace:
        assert trace.notices == [
            f"of a kprobe that was killed: removed {LEFT} (process 4194305 is gone)",
            f"of a kprobe that was killed: removed {GROUP}/myopen ({OWN})",
        ]
    assert (tracefs.listdir("instances"), probes(tracefs)) == ([f"{ME}7"], [])


def test_two_traces_of_one_name_see_their_own_events(tracefs: Any, tracer: Any, workload: Any) -> None:
    with tracer.trace("p:same do_sys_openat2") as opens, tracer.trace("p:same vfs_read") as reads:
        assert [line.split(" ")[1] for line in probes(tracefs)] == ["do_sys_openat2", "vfs_read"]
        assert len(set(tracefs.listdir("instances"))) == 2
        workload.open("/etc/hosts")
        assert b" same: (do_sys_openat2" in opens.read(timeout=10.0)
        reads.stop()
        assert b"do_sys_openat2" not in b"".join(reads.chunks())
    assert nothing(tracefs)
