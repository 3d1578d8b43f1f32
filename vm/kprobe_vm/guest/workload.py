"""A task in the guest that makes the system calls a test says, and nothing else: workload.c, and how to talk to it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kprobe_vm.host.cache import Cache
from kprobe_vm.images.compiled import compiled
from kprobe_vm.machine.machine import Machine

__all__ = ["MEMORY", "GuestWorkload", "open_workload", "program"]

MEMORY = 0x10000000  # where the task's data lies, see workload.c
AT_FDCWD = -100
PLACE = "bin/workload"
FLAGS = ("-Os", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-Wl,--build-id=none", "-s")
ROOM = 1792  # bytes of data that one request can carry
OPENAT, FADVISE = 257, 221  # system call numbers


def program(cache: Cache) -> Path:
    """Return the compiled task; raise what `compiled` does."""
    return compiled(cache, "kprobe_vm.guest", "workload", FLAGS)


class GuestWorkload:
    """The task, running in a machine; every call is one system call of it, and returns its result (or -errno)."""

    def __init__(self, machine: Machine) -> None:
        self.comm = "workload"
        self._machine = machine
        if not machine.files.exists(PLACE):
            machine.put(PLACE, program(Cache.of(os.environ)).read_bytes())
        self.pid = int(self._answer("serve"))

    def open(self, path: str | bytes, flags: int = 0, mode: int = 0, dfd: int = AT_FDCWD, *, repeat: int = 1) -> int:
        """Call openat(2) `repeat` times, closing what it opened; the path lies at `MEMORY`."""
        return self._ask("call", OPENAT, (dfd, MEMORY, flags, mode), os.fsencode(path) + b"\0", repeat)

    def fork(self) -> int:
        """Fork a child that exits at once; return its pid."""
        return self._ask("fork")

    def fadvise(self, fd: int, offset: int, length: int, advice: int = 0, *, data: bytes = b"") -> int:
        """Call fadvise64(2) with these numbers, after putting `data` at `MEMORY`."""
        return self._ask("call", FADVISE, (fd, offset, length, advice), data)

    def call(self, number: int, arguments: Sequence[int], data: bytes = b"") -> int:
        """Make any system call, after putting `data` at `MEMORY`; a descriptor that openat(2) returns is closed."""
        return self._ask("call", number, arguments, data)

    def rename(self, comm: str | bytes) -> None:
        """Change the task's name."""
        self._ask("name", data=os.fsencode(comm)[:15] + b"\0")

    def close(self) -> None:
        """End the task."""
        self._ask("quit")

    def _ask(
        self, kind: str, number: int = 0, arguments: Sequence[int] = (), data: bytes = b"", repeat: int = 1
    ) -> int:
        if len(data) > ROOM:
            raise ValueError(f"at most {ROOM} bytes of data")
        words = [str(argument) for argument in (*arguments, *(0,) * (6 - len(arguments)), repeat)]
        return int(self._answer("ask", kind, str(number), *words, data.hex()))

    def _answer(self, *words: str) -> bytes:
        return self._machine.run([f"/{PLACE}", *words], check=True).stdout


def open_workload(tracefs: Any) -> GuestWorkload:
    """Return the task in the guest under a tracefs (entry point group kprobe.workload)."""
    return GuestWorkload(tracefs.machine)
