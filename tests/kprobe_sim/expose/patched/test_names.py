"""Names that aren't UTF-8, and a machine that pyfakefs makes."""

# ruff: noqa: SIM115  (when a file is closed is what these tests are about)

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.expose import patched

from .conftest import T

NAME = b"\xff\xfe"


def check_names() -> None:
    """Go through the calls with a name as bytes and as str."""
    instances = f"{T}/instances"
    os.mkdir(os.path.join(os.fsencode(instances), NAME))
    for path, name in ((instances, os.fsdecode(NAME)), (os.fsencode(instances), NAME)):
        place = os.path.join(path, name)
        assert os.listdir(path) == [name]
        assert [(entry.name, entry.path, entry.is_dir()) for entry in os.scandir(path)] == [(name, place, True)]
        file = os.path.join(place, os.fsencode("current_tracer") if isinstance(place, bytes) else "current_tracer")
        assert open(file).read() == "nop\n"
        assert os.path.isdir(place)
        with pytest.raises(FileExistsError) as caught:
            os.mkdir(place)
        assert caught.value.filename == place
        with pytest.raises(FileNotFoundError) as missing:
            os.rmdir(place + place[-1:])
        assert missing.value.filename == place + place[-1:]
    os.chdir(os.path.join(os.fsencode(instances), NAME))
    try:
        assert os.getcwdb() == os.fsencode(instances) + b"/" + NAME
        assert open("tracing_on").read() == "1\n"
    finally:
        os.chdir("/")
    with open(f"{T}/kprobe_events", "wb") as writer:
        writer.write(b"p:\xff/\xe9 do_sys_openat2\n")
    assert os.listdir(f"{T}/events/\udcff") == ["\udce9", "enable", "filter"]
    assert os.listdir(os.fsencode(T) + b"/events/\xff") == [b"\xe9", b"enable", b"filter"]
    assert os.path.exists(os.fsencode(T) + b"/events/\xff/\xe9/id")
    assert not os.path.exists(f"{T}/events/\xff")
    os.rmdir(f"{instances}/{os.fsdecode(NAME)}")
    assert os.listdir(instances) == []


def test_names_that_are_no_utf_8(kernel: SimulatedKernel) -> None:
    check_names()
    os.mkdir(f"{T}/instances/\udcff")
    for root, name in ((f"{T}/instances", "\udcff"), (os.fsencode(T) + b"/instances", b"\xff")):
        assert next((place, names) for place, names, _ in os.walk(root)) == (root, [name])


def test_names_that_are_no_utf_8_in_pyfakefs(machine: SimulatedKernel) -> None:
    check_names()


@pytest.fixture
def machine(fs: Any) -> Iterator[SimulatedKernel]:
    with patched("6.1", fs=fs) as kernel:
        yield kernel


def test_a_whole_fake_machine(machine: SimulatedKernel, fs: Any) -> None:
    fs.create_file("/etc/tool.conf", contents="probe do_sys_openat2\n")
    pathlib.Path("/var/tmp/.ftrace-lock").write_text(str(os.getpid()))
    _, function = pathlib.Path("/etc/tool.conf").read_text().split()
    with open(f"{T}/kprobe_events", "w") as file:
        file.write(f"p:probe {function} path=+0(%si):string")
    path = pathlib.Path(T, "events/kprobes/probe")
    assert (path.is_dir(), path.exists(), os.path.isdir(path)) == (True, True, True)
    (path / "enable").write_text("1")
    machine.call("do_sys_openat2", task=Task(42, "cat"), args=(-100, "/etc/passwd"), returns=3)
    assert pathlib.Path("/sys/kernel/debug/tracing/trace").read_text().endswith('path="/etc/passwd"\n')
    assert os.listdir("/proc/42/task") == ["42"]
    assert pathlib.Path("/proc/sys/kernel/osrelease").read_text() == "6.1.0-54-cloud-amd64\n"
    switches = {"kernel/kptr_restrict": "0", "kernel/ftrace_enabled": "1", "debug/kprobes-optimization": "1"}
    assert {name: pathlib.Path("/proc/sys", name).read_text().strip() for name in switches} == switches
    assert " t do_sys_openat2\n" in pathlib.Path("/proc/kallsyms").read_text()
    assert " do_sys_openat2+0x0 " in pathlib.Path("/sys/kernel/debug/kprobes/list").read_text()
    assert pathlib.Path("/sys/kernel/debug/kprobes/enabled").read_text() == "1\n"
    assert "\tdo_int3\n" in pathlib.Path("/sys/kernel/debug/kprobes/blacklist").read_text()
    pathlib.Path("/var/log/tool.log").write_text("done\n")
    pathlib.Path("/run/tool.pid").write_text("1\n")
    assert pathlib.Path("/proc/mounts").read_text() == (
        "proc /proc proc rw,relatime 0 0\nsysfs /sys sysfs rw,relatime 0 0\n"
        "tracefs /sys/kernel/tracing tracefs rw,nosuid,nodev,noexec,relatime 0 0\n"
        "debugfs /sys/kernel/debug debugfs rw,nosuid,nodev,noexec,relatime 0 0\n"
        "tracefs /sys/kernel/debug/tracing tracefs rw,nosuid,nodev,noexec,relatime 0 0\n"
    )
    os.remove("/var/tmp/.ftrace-lock")
    assert os.listdir("/var/tmp") == []


def test_errors_surface_as_cpythons_within_pyfakefs(machine: SimulatedKernel) -> None:
    file = open(f"{T}/kprobe_events", "w")
    file.write("nonsense")
    with pytest.raises(OSError, match="Invalid argument"):
        file.close()
    assert file.closed
    with pytest.raises(OSError, match="Invalid argument"):
        pathlib.Path(T, "events/sched/sched_switch/enable").write_text("2")


def test_pyfakefs_is_itself_again(fs: Any) -> None:
    with patched("6.1", fs=fs):
        pass
    assert not os.path.exists(f"{T}/trace")
    pathlib.Path("/file").write_text("text")
    assert sys.modules["os"].path.getsize("/file") == 4
