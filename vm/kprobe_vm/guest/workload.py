"""A task in the guest that makes only the system calls that a test asks for: workload.c, and how to talk to it."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kprobe_vm.host.cache import Cache
from kprobe_vm.images.compiled import compiled, sources

if TYPE_CHECKING:
    from kprobe_vm.machine.machine import Machine


MEMORY = 0x10000000  # where the task's data lies, see workload.c
AT_FDCWD = -100
PATH = "bin/workload"
FLAGS = ("-Os", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-Wl,--build-id=none", "-s")
ROOM = 1792  # bytes of data that one request can carry
REQUESTS, ANSWERS = "tmp/workload.requests", "tmp/workload.answers"
_U64 = 2**64 - 1
_WITHIN = 60.0  # seconds within which the task must have answered
OPENAT, FADVISE, GETPID = 257, 221, 39  # system call numbers


def program(cache: Cache) -> Path:
    """Return the compiled task; raise what `compiled` does."""
    return compiled(cache, "workload", sources("kprobe_vm.guest", "workload.c task.h"), FLAGS)


class Pipe(Protocol):
    """One end of a pipe to or from the task."""

    def read(self, size: int, timeout: float | None = None) -> bytes: ...
    def write(self, data: bytes, timeout: float | None = None) -> int: ...
    def close(self) -> None: ...


class TaskPipes:
    """The pipes to a task of task.h, which makes system calls on request; `room` is the data that a request carries."""

    def __init__(self, requests: Pipe, answers: Pipe, room: int = ROOM) -> None:
        self._requests = requests
        self._answers = answers
        self._room = room
        # kind, number, six arguments, repeat, length of the data, data
        self._request = struct.Struct(f"<10Q{room}s")

    def ask(self, kind: str, number: int = 0, arguments: Sequence[int] = (), data: bytes = b"", repeat: int = 1) -> int:
        """Send a request and return the task's answer; raise `ProcessLookupError` if the task has ended."""
        self.send(kind, number, arguments, data, repeat)
        # the agent's read(2) waits for it: a program in the guest that polls would cost ten times as much
        answer = self._answers.read(8, _WITHIN)
        if len(answer) != 8:
            raise ProcessLookupError(errno.ESRCH, f"the task has ended: {kind} had no answer")
        return int.from_bytes(answer, "little", signed=True)

    def send(
        self, kind: str, number: int = 0, arguments: Sequence[int] = (), data: bytes = b"", repeat: int = 1
    ) -> None:
        """Send a request; raise `ValueError` if its data is too long."""
        if len(data) > self._room:
            raise ValueError(f"at most {self._room} bytes of data")
        numbers = [argument & _U64 for argument in (*arguments, *(0,) * (6 - len(arguments)))]
        self._requests.write(self._request.pack(ord(kind[0]), number, *numbers, repeat, len(data), data), _WITHIN)

    def close(self) -> None:
        """Close both pipes."""
        self._requests.close()
        self._answers.close()


class WorkloadTask:
    """The task, wherever it runs; every call is one system call of it, and returns its result (or -errno)."""

    def __init__(self, pid: int, requests: Pipe, answers: Pipe) -> None:
        self.comm = "workload"
        self.pid = pid
        self._pipes = TaskPipes(requests, answers)

    def open(self, path: str | bytes, flags: int = 0, mode: int = 0, dfd: int = AT_FDCWD, *, repeat: int = 1) -> int:
        """Call openat(2) `repeat` times, closing what it opened; the path lies at `MEMORY`."""
        return self._pipes.ask("call", OPENAT, (dfd, MEMORY, flags, mode), os.fsencode(path) + b"\0", repeat)

    def fork(self) -> int:
        """Fork a child that exits at once; return its pid."""
        return self._pipes.ask("fork")

    def fadvise(self, fd: int, offset: int, length: int, advice: int = 0, *, data: bytes = b"") -> int:
        """Call fadvise64(2) with these numbers, after putting `data` at `MEMORY`."""
        return self._pipes.ask("call", FADVISE, (fd, offset, length, advice), data)

    def call(self, number: int, arguments: Sequence[int], data: bytes = b"") -> int:
        """Make any system call, after putting `data` at `MEMORY`; a descriptor that openat(2) returns is closed."""
        return self._pipes.ask("call", number, arguments, data)

    def rename(self, comm: str | bytes) -> None:
        """Change the task's name."""
        self._pipes.ask("name", data=os.fsencode(comm)[:15] + b"\0")

    def close(self) -> None:
        """End the task."""
        self._pipes.send("quit")
        self._pipes.close()


class GuestWorkload(WorkloadTask):
    """The task, running in a machine."""

    def __init__(self, machine: Machine) -> None:
        if not machine.files.exists(PATH):
            machine.put(PATH, program(Cache.of(os.environ)).read_bytes())
        pid = int(machine.run([f"/{PATH}"], check=True).stdout)
        super().__init__(pid, machine.files.open(REQUESTS, os.O_WRONLY), machine.files.open(ANSWERS, os.O_RDONLY))
        self.call(GETPID, ())  # a task that answers has opened both pipes, so no test sees that


def open_workload(tracefs: Any) -> GuestWorkload:
    """Return the task in the guest under a tracefs (entry point group kprobe.workload)."""
    return GuestWorkload(tracefs.machine)
