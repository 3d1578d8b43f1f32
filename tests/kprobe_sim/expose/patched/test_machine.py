"""The rest of the machine beside the simulated tracefs, and what isn't covered."""

# ruff: noqa: SIM115  (when a file is closed is what these tests are about)

from __future__ import annotations

import io
import mmap
import os
import pathlib
import subprocess
from os import open as open_bound_before
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.expose import NotCovered, patched

from .conftest import PROBE, T, open_text

real_open, real_stat = open, os.stat


def test_the_files_beside(kernel: SimulatedKernel) -> None:
    kernel.call("do_sys_openat2", task=Task(99942, "worker", tgid=99941))
    kernel.call("do_sys_openat2", task=Task(99941, "main"))
    assert f"tracefs {T} tracefs rw," in pathlib.Path("/proc/mounts").read_text()
    assert os.listdir("/proc/99941/task") == ["99941", "99942"]
    assert pathlib.Path("/proc/99941/comm").read_text() == "main\n"
    assert "99941" in os.listdir("/proc")
    assert sorted(os.listdir("/sys/kernel/debug")) == ["kprobes", "tracing"]
    pathlib.Path(T, "kprobe_events").write_text(PROBE)
    probes = pathlib.Path("/sys/kernel/debug/kprobes/list").read_text()
    assert probes.split("  ")[1:] == ["k", "do_sys_openat2+0x0", "", "[DISABLED][FTRACE]\n"]
    address = probes.split()[0]
    assert f"{address} t do_sys_openat2\n" in pathlib.Path("/proc/kallsyms").read_text()


def test_other_files_are_this_machines(kernel: SimulatedKernel, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("text")
    os.rename(tmp_path / "file", tmp_path / "other")
    assert os.listdir(tmp_path) == ["other"]
    with io.FileIO(str(tmp_path / "other")) as file:
        assert isinstance(file, io.FileIO)
        assert file.read() == b"text"
    assert subprocess.run(["cat", tmp_path / "other"], stdout=subprocess.PIPE, check=True).stdout == b"text"


def test_nothing_stays_patched(tmp_path: pathlib.Path) -> None:
    before = {name: getattr(os, name) for name in dir(os)}
    with patched("6.1"):
        handle = os.open(f"{T}/trace_pipe", os.O_RDONLY)
        assert os.open is not before["open"]
    assert {name: getattr(os, name) for name in dir(os)} == before
    assert (open, io.open, os.stat) == (real_open, real_open, real_stat)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(handle)
    with pytest.raises(FileNotFoundError):
        open(f"{T}/kprobe_events")


@pytest.mark.parametrize(
    "call",
    [
        lambda: open_bound_before(f"{T}/trace", os.O_RDONLY),
        lambda: real_open(f"{T}/trace"),
        lambda: subprocess.run(["cat", f"{T}/trace"]),
        lambda: subprocess.run(f"echo 1 > {T}/tracing_on", shell=True),
        lambda: os.system(f"echo 1 > {T}/tracing_on"),
        lambda: os.posix_spawn("/bin/cat", ["cat", f"{T}/trace"], {}),
    ],
)
def test_what_is_not_covered_says_what_is(kernel: SimulatedKernel, call: Any) -> None:
    with pytest.raises(NotCovered, match="kprobe-sim run -- COMMAND"):
        call()


def test_a_forked_process(kernel: SimulatedKernel) -> None:
    """It has a copy: what it wrote there would be lost."""
    file = os.open(f"{T}/tracing_on", os.O_RDWR)
    attempts = (
        lambda: open(f"{T}/tracing_on", "w"),
        lambda: os.stat("/proc/kallsyms"),
        lambda: os.write(file, b"0"),
        lambda: os.read(file, 1),
    )
    child = os.fork()
    if not child:
        refused = 0
        for attempt in attempts:
            try:
                attempt()
            except NotCovered:
                refused += 1
        os._exit(refused if os.path.exists("/proc/self/stat") else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(attempts)
    assert os.read(file, 2) == b"1\n"
    os.close(file)


@pytest.mark.parametrize("name", ["sqlite3", "ctypes"])
def test_extension_modules(kernel: SimulatedKernel, name: str) -> None:
    """Those that report to Python what they open."""
    module = __import__(name)
    call = module.connect if name == "sqlite3" else module.CDLL
    with pytest.raises(NotCovered, match="kprobe-sim run -- COMMAND"):
        call(f"{T}/trace")


def test_mapping(kernel: SimulatedKernel) -> None:
    with open(f"{T}/trace", "rb") as file, pytest.raises(OSError, match="No such device"):
        mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ)


def test_a_process_in_a_simulated_directory(kernel: SimulatedKernel) -> None:
    os.chdir(T)
    with pytest.raises(NotCovered, match="can't be started in a simulated directory"):
        subprocess.run(["true"])
    os.chdir("/")


def test_a_process_with_a_simulated_file(kernel: SimulatedKernel) -> None:
    with open(f"{T}/trace_marker", "wb", 0) as file, pytest.raises(NotCovered):
        subprocess.run(["echo", "hello"], stdout=file)


def test_blocks_are_not_nested(kernel: SimulatedKernel) -> None:
    with pytest.raises(RuntimeError, match="can't be nested"), patched("6.1"):
        pass
    assert open_text("tracing_on") == "1\n"


def test_no_such_kernel() -> None:
    with pytest.raises(ValueError, match=r"no profile of kernel '2\.4'"), patched("2.4"):
        pass
