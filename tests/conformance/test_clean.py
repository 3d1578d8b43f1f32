"""What a killed kprobe leaves, and `kprobe clean`, everywhere.  No process has the pid 4194305, which is too high."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from kprobe.cli import main

from .text import probes

LEFT = "instances/kprobe_4194305_0"
MINE = f"instances/kprobe_{os.getpid()}_0"
PROBE = "p:kprobes/myopen do_sys_openat2"


def leave(tracefs: Any, directory: str = LEFT, name: str = "myopen") -> None:
    """Do what a kprobe does before it is killed."""
    tracefs.mkdir(directory)
    tracefs.write("kprobe_events", f"p:{name} do_sys_openat2\n".encode())
    tracefs.write(f"{directory}/events/kprobes/{name}/enable", b"1\n")


def clean(tracefs: Any, capfd: Any, *options: str) -> tuple[int, list[str]]:
    capfd.readouterr()
    status = main(["clean", *options], tracefs=tracefs)
    out, err = capfd.readouterr()
    assert err == ""
    return status, out.splitlines()


def test_the_instance_goes_before_its_event(tracefs: Any) -> None:
    leave(tracefs)
    with pytest.raises(OSError) as caught:
        tracefs.write("kprobe_events", b"-:kprobes/myopen\n")
    assert caught.value.errno == errno.EBUSY
    tracefs.rmdir(LEFT)
    tracefs.write("kprobe_events", b"-:kprobes/myopen\n")
    assert probes(tracefs) == []


def test_what_the_dead_left_is_removed(tracefs: Any, capfd: Any) -> None:
    leave(tracefs)
    listed = [f"{LEFT} (process 4194305 is gone)", f"kprobes/myopen ({PROBE})"]
    assert clean(tracefs, capfd, "--dry-run") == (0, [f"would remove {each}" for each in listed])
    assert (tracefs.listdir("instances"), probes(tracefs)) == (["kprobe_4194305_0"], [PROBE])
    assert clean(tracefs, capfd) == (0, [f"removed {each}" for each in listed])
    assert (tracefs.listdir("instances"), probes(tracefs)) == ([], [])
    assert clean(tracefs, capfd) == (0, [])


def test_an_event_with_a_filter_is_known_before_it_is_enabled(tracefs: Any, capfd: Any) -> None:
    tracefs.mkdir(LEFT)
    tracefs.write("kprobe_events", b"p:myopen do_sys_openat2\n")
    tracefs.write(f"{LEFT}/events/kprobes/myopen/filter", b"common_pid == 1\n")
    assert clean(tracefs, capfd)[0] == 0
    assert (tracefs.listdir("instances"), probes(tracefs)) == ([], [])


def test_what_the_living_use_stays(tracefs: Any, capfd: Any) -> None:
    leave(tracefs, MINE)
    status, (line,) = clean(tracefs, capfd)
    assert status == 0
    assert line.startswith(f"kept {MINE}: process {os.getpid()} (")
    assert tracefs.read(f"{MINE}/events/kprobes/myopen/enable") == b"1\n"


def test_what_others_made_stays(tracefs: Any, capfd: Any) -> None:
    leave(tracefs)
    names = ["kprobe_4194305", "kprobe_4194305_0_1", "kprobe_04194305_0", "kprobe_x_0", "mykprobe_4194305_0"]
    for name in names:
        tracefs.mkdir(f"instances/{name}")
    tracefs.write("kprobe_events", b"p:theirs do_sys_openat2\n")
    tracefs.write("events/kprobes/theirs/enable", b"1\n")
    tracefs.write("kprobe_events", b"p:idle do_sys_openat2\n")
    tracefs.write(f"{LEFT}/events/sched/sched_switch/enable", b"1\n")
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
    assert clean(tracefs, capfd) == (0, [f"removed {LEFT} (process 4194305 is gone)", expected])
    assert probes(tracefs) == [PROBE]


def test_an_event_that_has_another_probe_stays(tracefs: Any, capfd: Any) -> None:
    leave(tracefs)
    tracefs.write("kprobe_events", b"p:myopen vfs_read\n")
    assert clean(tracefs, capfd)[1][1] == "kept kprobes/myopen: 2 probes are on it, and whose each is can't be told"
    assert len(probes(tracefs)) == 2


def test_two_dead_instances_of_one_event(tracefs: Any, capfd: Any) -> None:
    leave(tracefs)
    tracefs.mkdir("instances/kprobe_4194306_3")
    tracefs.write("instances/kprobe_4194306_3/events/kprobes/myopen/enable", b"1\n")
    assert clean(tracefs, capfd)[0] == 0
    assert (tracefs.listdir("instances"), probes(tracefs)) == ([], [])


def test_an_instance_that_is_read_stays_with_its_event(tracefs: Any, capfd: Any) -> None:
    leave(tracefs)
    stream = tracefs.stream(f"{LEFT}/trace_pipe")
    expected = [f"kept {LEFT}: Device or resource busy (somebody reads there)"]
    assert clean(tracefs, capfd) == (4, expected)
    assert probes(tracefs) == [PROBE]
    stream.close()
    assert clean(tracefs, capfd)[0] == 0
    assert probes(tracefs) == []


def test_an_event_that_may_be_of_the_dead_is_named(tracefs: Any, capfd: Any) -> None:
    tracefs.mkdir(LEFT)
    tracefs.write("kprobe_events", b"p:myopen do_sys_openat2\n")
    assert main(["clean"], tracefs=tracefs) == 0
    assert capfd.readouterr().err == (
        f"NOTE: no event was enabled in {LEFT}. If one that nobody uses was added for it, remove it:\n"
        "  echo '-:kprobes/myopen' >> kprobe_events\n"
    )
    assert probes(tracefs) == [PROBE]


def test_the_next_trace_says_what_to_do(tracefs: Any, tracer: Any, capfd: Any) -> None:
    from kprobe import AlreadyExists

    leave(tracefs)
    with pytest.raises(AlreadyExists) as caught, tracer.trace("p:myopen do_sys_openat2"):
        pass
    assert caught.value.hint == (
        f"a kprobe that was killed left events/kprobes/myopen and {LEFT} (process 4194305 is gone): "
        "kprobe clean removes both"
    )
    clean(tracefs, capfd)
    with tracer.trace("p:myopen do_sys_openat2"):
        pass
