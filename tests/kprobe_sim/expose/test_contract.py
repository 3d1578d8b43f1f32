"""The contract table through each way of exposing the simulator: the same answers, but for what is listed here."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.expose import patched
from kprobe_sim.expose.inprocess import SimFile

from . import contract
from .conftest import TRACING, Run

# what a way answers otherwise than the kernel, and why
MOUNT = {
    "seek: trace, opened for writing": 10,  # the file's position is the kernel's own business on any FUSE mount
}
IN_PROCESS: dict[str, object] = {}


class InProcess(contract.Calls):
    """The calls of the simulator itself."""

    def __init__(self, kernel: SimulatedKernel) -> None:
        super().__init__("")
        self.tracefs = kernel.tracefs
        self.files: list[SimFile] = []

    def open(self, name: str, flags: int) -> int:
        self.files.append(self.tracefs.open(name, flags))
        self.opened.append(len(self.files) - 1)
        return len(self.files) - 1

    def close(self, handle: int) -> None:
        self.opened.remove(handle)
        self.files[handle].close()

    def read(self, handle: int, size: int) -> bytes:
        return self.files[handle].read(size)

    def write(self, handle: int, data: bytes) -> int:
        return self.files[handle].write(data)

    def lseek(self, handle: int, offset: int, whence: int) -> int:
        return self.files[handle].lseek(offset, whence)

    def mkdir(self, name: str) -> None:
        self.tracefs.mkdir(name)

    def rmdir(self, name: str) -> None:
        self.tracefs.rmdir(name)

    def listdir(self, name: str) -> list[str]:
        return self.tracefs.listdir(name)

    def exists(self, name: str) -> bool:
        return self.tracefs.exists(name)

    def mode(self, name: str) -> int:
        return self.tracefs.mode(name)

    def poll(self, handle: int) -> int:
        return self.files[handle].poll() & 1  # POLLIN, which the table asks for


@pytest.mark.parametrize("name", contract.CASES)
def test_in_process(name: str) -> None:
    case, expected = contract.CASES[name]
    assert contract.outcome(InProcess(SimulatedKernel("6.1")), case) == IN_PROCESS.get(name, expected)


@pytest.mark.parametrize("name", contract.CASES)
def test_patched_python(name: str) -> None:
    case, expected = contract.CASES[name]
    with patched("6.1"):
        assert contract.outcome(contract.Calls(TRACING), case) == expected


@pytest.mark.parametrize("name", contract.CASES)
def test_pyfakefs(fs: Any, name: str) -> None:
    case, expected = contract.CASES[name]
    with patched("6.1", fs=fs):
        assert contract.outcome(contract.Calls("/sys/kernel/debug/tracing"), case) == expected


@pytest.fixture(scope="module")
def on_mount(run: Run) -> dict[str, Any]:
    """All outcomes on one mount."""
    done = run([sys.executable, contract.__file__, TRACING])
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return {
        name: value["bytes"].encode("latin-1") if isinstance(value, dict) else value for name, value in found.items()
    }


@pytest.mark.parametrize("name", contract.CASES)
def test_mount(on_mount: dict[str, Any], name: str) -> None:
    _, expected = contract.CASES[name]
    assert on_mount[name] == MOUNT.get(name, expected)
