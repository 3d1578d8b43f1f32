"""The contract table on the simulator in-process, and on a guest: what the other ways of exposing it are held to."""

from __future__ import annotations

from typing import Any

import pytest

from kprobe_sim.builds.profile import Profile

from . import contract


class Handles(contract.Calls):
    """The system calls of a Tracefs that has them."""

    def __init__(self, tracefs: Any) -> None:
        super().__init__("")
        self.tracefs = tracefs
        self.files: list[Any] = []

    def open(self, name: str, flags: int) -> int:
        self.files.append(self.tracefs.open(name, flags))
        self.opened.append(len(self.files) - 1)
        return len(self.files) - 1

    def close(self, handle: int) -> None:
        self.opened.remove(handle)
        self.files[handle].close()

    def read(self, handle: int, size: int) -> bytes:
        found: bytes = self.files[handle].read(size)
        return found

    def write(self, handle: int, data: bytes) -> int:
        taken: int = self.files[handle].write(data)
        return taken

    def lseek(self, handle: int, offset: int, whence: int) -> int:
        position: int = self.files[handle].lseek(offset, whence)
        return position

    def mkdir(self, name: str) -> None:
        self.tracefs.mkdir(name)

    def rmdir(self, name: str) -> None:
        self.tracefs.rmdir(name)

    def listdir(self, name: str) -> list[str]:
        names: list[str] = self.tracefs.listdir(name)
        return names

    def exists(self, name: str) -> bool:
        found: bool = self.tracefs.exists(name)
        return found

    def mode(self, name: str) -> int:
        if hasattr(self.tracefs, "mode"):
            mode: int = self.tracefs.mode(name)
            return mode
        return int(self.tracefs.stat(name).mode) & 0o7777

    def size(self, name: str) -> int:
        return int(self.tracefs.stat(name).size)

    def truncate(self, name: str, length: int) -> None:
        self.tracefs.truncate(name, length)

    def unlink(self, name: str) -> None:
        self.tracefs.unlink(name)

    def poll(self, handle: int) -> int:
        return int(self.files[handle].poll()) & 1  # POLLIN, which the table asks for


@pytest.mark.parametrize("name", contract.CASES)
def test_case(tracefs: Any, tracefs_spec: str, recorded: Profile, name: str) -> None:
    case, _ = contract.CASES[name]
    if name in contract.NOT_IN_PROCESS and tracefs_spec.startswith("sim"):
        assert not hasattr(tracefs, contract.NOT_IN_PROCESS[name])
        return
    expected: Any = contract.expected(name, tracefs.read("README").decode())
    if name == "stat: modes":  # that of the root is another on some builds
        expected = [f"{recorded.root_mode:o}", *expected[1:]]
    assert contract.outcome(Handles(tracefs), case) == expected
