"""Tasks of a guest whose pids, names and CPUs are chosen: actor.c, and how to talk to it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kprobe_vm.guest.workload import MEMORY, TaskPipes
from kprobe_vm.host.cache import Cache
from kprobe_vm.images.compiled import compiled, sources
from kprobe_vm.machine.machine import Machine

__all__ = ["MEMORY", "Actor", "Cast"]

_PROGRAM = "bin/actor"
_SOURCES = [*sources("kprobe_lab.scenarios", "actor.c"), *sources("kprobe_vm.guest", "task.h")]
_FLAGS = ("-Os", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-Wl,--build-id=none", "-s")
_ROOM = 4000  # bytes of data that one request can carry
_SETAFFINITY = 203


class Actor:
    """A task of the guest; every method makes system calls in it, and raises OSError if the kernel refuses one."""

    def __init__(self, machine: Machine, pid: int) -> None:
        requests = machine.files.open(f"tmp/actor.{pid}.requests", os.O_WRONLY)
        self._pipes = TaskPipes(requests, machine.files.open(f"tmp/actor.{pid}.answers", os.O_RDONLY), _ROOM)
        self._name: bytes | None = None
        self._cpu: int | None = None

    def call(self, number: int, arguments: Sequence[int], data: bytes, repeat: int) -> int:
        """Make a system call `repeat` times, with the data at MEMORY; return the last result, or minus the errno."""
        return self._pipes.ask("c", number, arguments, data, repeat)

    def open(self, path: str, descriptor: int) -> None:
        """Open a file for writing."""
        self._did(self._pipes.ask("o", descriptor, data=path.encode() + b"\0"), path)

    def write(self, descriptor: int, data: bytes) -> None:
        """Write to a file that was opened, in as many writes as it takes."""
        self._did(self._pipes.ask("w", descriptor, data=data), f"descriptor {descriptor}")

    def thread(self, pid: int) -> None:
        """Start a thread with that pid."""
        self._did(self._pipes.ask("t", pid), f"thread {pid}")

    def be(self, name: bytes, cpu: int) -> None:
        """Take a name, and run on a CPU."""
        if name != self._name:
            self._did(self._pipes.ask("n", data=name[:15] + b"\0"), "its name")
            self._name = name
        if cpu != self._cpu:
            mask = (1 << cpu).to_bytes(8, "little")
            self._did(min(0, self._pipes.ask("c", _SETAFFINITY, (0, len(mask), MEMORY), mask)), f"CPU {cpu}")
            self._cpu = cpu

    def close(self) -> None:
        """Close the pipes to the task, which goes on waiting."""
        self._pipes.close()

    @staticmethod
    def _did(result: int, what: str) -> None:
        if result < 0:
            raise OSError(-result, os.strerror(-result), what)


class Cast:
    """The tasks of a machine by their pids; each is started when it is first asked for, and stays."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._actors: dict[int, Actor] = {}
        machine.put(_PROGRAM, compiled(Cache.of(os.environ), "actor", _SOURCES, _FLAGS).read_bytes())
        machine.files.write("proc/sys/kernel/pid_max", b"4194304")

    def actor(self, pid: int, tgid: int | None = None) -> Actor:
        """Return the task of a pid, a thread of another if `tgid` is that one.  Raises OSError if the pid is taken."""
        actor = self._actors.get(pid)
        if actor is None:
            if tgid is None or tgid == pid:
                self._start(pid)
            else:
                self.actor(tgid).thread(pid)
            actor = self._actors[pid] = Actor(self._machine, pid)
        return actor

    def _start(self, pid: int) -> None:
        output = self._machine.run([f"/{_PROGRAM}", str(pid)]).stdout
        if output != b"ok\n":
            number = int(output) if output.isdigit() else 0
            raise OSError(number, f"no task can have that pid: {os.strerror(number)}", str(pid))

    def close(self) -> None:
        """Close the pipes to all tasks."""
        for actor in self._actors.values():
            actor.close()
