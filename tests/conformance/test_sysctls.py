"""The files of /proc/sys that switch tracing, and the PMUs in /sys: as guests of 5.10 to 7.3 have them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

import pytest

from kprobe_sim.builds.gates import Gates, gates_of
from kprobe_sim.builds.profile import Profile
from kprobe_sim.expose.python.machine import MachineTree
from kprobe_sim.tree.files.node import DirNode

from .text import define, show_only, switch, traced

KERNEL = "proc/sys/kernel/"
ENABLED = KERNEL + "ftrace_enabled"
PMUS = "sys/bus/event_source/devices"


class SimulatedFiles:
    """The simulated machine's files as a guest's `Machine.files` has them."""

    def __init__(self, kernel: Any) -> None:
        self._tree = MachineTree(kernel)

    def read(self, path: str) -> bytes:
        return bytes(self._node(path).open(os.O_RDONLY).read(4096, 0))

    def write(self, path: str, data: bytes) -> None:
        self._node(path).open(os.O_WRONLY).write(data, 0)

    def listdir(self, path: str) -> list[str]:
        node = self._node(path)
        assert isinstance(node, DirNode)
        return sorted(node.names())

    def _node(self, path: str) -> Any:
        node = self._tree.find(f"/{path}")
        assert node is not None, path
        return node


@pytest.fixture
def files(tracefs: Any, tracefs_backend: Any) -> Iterator[Any]:
    """The files of the machine; what is written to them is undone."""
    machine = getattr(tracefs_backend.opened, "machine", None)
    found = SimulatedFiles(tracefs.kernel) if machine is None else machine.files
    before = {KERNEL + name: found.read(KERNEL + name) for name in ("ftrace_enabled", "ftrace_dump_on_oops")}
    yield found
    for path, text in before.items():
        if found.read(path) != text:
            found.write(path, text)


@pytest.fixture
def gates(recorded: Profile) -> Gates:
    return gates_of(recorded)


def answer(files: Any, path: str, data: bytes) -> str:
    """Write, and return the error or what the file then reads."""
    try:
        files.write(path, data)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return str(files.read(path).decode())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"2", "2\n"),
        (b"-1", "-1\n"),
        (b" 1", "1\n"),
        (b"\t3 x", "3\n"),
        (b"3 0", "3\n"),
        (b"0x1f\n", "31\n"),
        (b"010", "8\n"),
        (b"2147483647", "2147483647\n"),
        (b"-2147483648", "-2147483648\n"),
        (b"2147483648", "EINVAL"),
        (b"4294967297", "EINVAL"),
        (b"99999999999999999999", "EINVAL"),
        (b"08", "EINVAL"),
        (b"0x", "EINVAL"),
        (b"+1", "EINVAL"),
        (b"- 1", "EINVAL"),
        (b"1x", "EINVAL"),
        (b"1,2", "EINVAL"),
        (b"1\0", "EINVAL"),
        (b"on", "EINVAL"),
        (b" ", "EINVAL"),
        (b"\n", "EINVAL"),
        (b"0" * 20 + b"1", "EINVAL"),
    ],
)
def test_a_number(files: Any, data: bytes, expected: str) -> None:
    assert answer(files, ENABLED, data) == expected


def test_bounds(files: Any) -> None:
    optimization = "proc/sys/debug/kprobes-optimization"
    before = {path: files.read(path) for path in (KERNEL + "kptr_restrict", optimization)}
    assert [answer(files, KERNEL + "kptr_restrict", b"%d" % value) for value in (2, 3, -1)] == [
        "2\n",
        "EINVAL",
        "EINVAL",
    ]
    assert [answer(files, optimization, b"%d" % value) for value in (1, 2, 0)] == ["1\n", "EINVAL", "0\n"]
    for path, text in before.items():
        files.write(path, text)
    assert answer(files, KERNEL + "tracepoint_printk", b"1") == "0\n"  # without tp_printk it can't become another
    assert answer(files, KERNEL + "tracepoint_printk", b"x") == "EINVAL"


def test_perf_event_paranoid(files: Any, recorded: Profile, gates: Gates) -> None:
    begins = 3 if "Debian" in recorded.banner else gates.perf_paranoid
    assert files.read(KERNEL + "perf_event_paranoid") == b"%d\n" % begins


def test_dump_on_oops(files: Any, gates: Gates) -> None:
    given = (b"2", b"orig_cpu", b" 1", b"0,foo=1\nbar", b"1\0x")
    expected = ["2\n", "orig_cpu\n", " 1\n", "0,foo=1\n", "1\n"]
    if not gates.dump_on_oops_text:
        expected = ["2\n", "EINVAL", "1\n", "EINVAL", "EINVAL"]
    assert [answer(files, KERNEL + "ftrace_dump_on_oops", data) for data in given] == expected


def test_ftrace_stops(tracefs: Any, workload: Any, files: Any, gates: Gates) -> None:
    """Without ftrace no function's entry is seen, of any user; a breakpoint within is."""
    assert answer(files, ENABLED, b"2") == "2\n"
    if not gates.ftrace_stops:
        assert answer(files, ENABLED, b"0\n") == "ENOTSUP"  # EOPNOTSUPP, which is the same number
        assert files.read(ENABLED) == b"1\n"
        return
    define(tracefs, "p:in do_sys_openat2", "r:out do_sys_openat2", "p:within do_sys_openat2+5")
    show_only(tracefs, "workload", *(f"kprobes/{name}" for name in ("in", "out", "within")))
    assert answer(files, ENABLED, b"0\n") == "0\n"
    workload.open("/dev/null")
    names = [line.partition(":")[0] for line in traced(tracefs)]
    assert names == ["within"]
    files.write(ENABLED, b"1")
    workload.open("/dev/null")
    names = [line.partition(":")[0] for line in traced(tracefs)]
    assert names == ["within", "in", "within", "out"]
    switch(tracefs, 0, *(f"kprobes/{name}" for name in ("in", "out", "within")))


def test_the_function_tracer_without_ftrace(tracefs: Any, workload: Any, files: Any, gates: Gates) -> None:
    if not gates.ftrace_stops:
        pytest.skip("ftrace can't be stopped")
    tracefs.write("set_ftrace_filter", b"kernel_clone")
    files.write(ENABLED, b"0")
    tracefs.write("current_tracer", b"function")
    tracefs.write("trace", b"", truncate=True)
    workload.fork()
    assert (traced(tracefs), tracefs.read("current_tracer")) == ([], b"function\n")
    files.write(ENABLED, b"1")
    workload.fork()
    assert [line.partition(" ")[0] for line in traced(tracefs)] == ["kernel_clone"]
    tracefs.write("current_tracer", b"nop")
    tracefs.write("set_ftrace_filter", b"", truncate=True)


def test_pmus(files: Any, gates: Gates) -> None:
    first = 8 if gates.software_pmus_named else 6
    types = {"breakpoint": 5, "kprobe": first, "software": 1, "tracepoint": 2, "uprobe": first + 1}
    found = set(files.listdir(PMUS)) - {"cpu", "msr", "power"}  # a processor's
    assert {name: int(files.read(f"{PMUS}/{name}/type")) for name in found} == types
    assert files.listdir(f"{PMUS}/kprobe/format") == ["retprobe"]
    assert files.listdir(f"{PMUS}/uprobe/format") == ["ref_ctr_offset", "retprobe"]
    assert files.read(f"{PMUS}/uprobe/format/ref_ctr_offset") == b"config:32-63\n"
    assert files.read(f"{PMUS}/kprobe/format/retprobe") == b"config:0\n"
    assert int(files.read(f"{PMUS}/software/perf_event_mux_interval_ms")) == (4 if gates.software_pmus_named else 0)
