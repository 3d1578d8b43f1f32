"""A task that makes the traced machine do what a test says, in the simulator and in a guest.

Whatever a probe can see of it is known in advance, and the same on both: its name, its user memory at `MEMORY`, the
descriptor that an open returns (3), the arguments in registers, the call chain of the recorded kernel build.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Protocol

from kprobe_sim.builds.profile import Profile
from kprobe_sim.events.static.task_life import SystemCall
from kprobe_sim.kernel.simulated import SimulatedKernel
from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.probes.hits.call import Call

MEMORY = (
    0x10000000  # the address of the task's data: mmap(MAP_FIXED) in the guest's task, see kprobe_vm/guest/workload.c
)
AT_FDCWD = -100

_PR_SET_NAME = 15
_KERNEL_STACK = 0xFFFFC90000123E80
_ULONG_MAX = 2**64 - 1
_SIGCHLD = 17
_LARGEFILE = 0x8000  # force_o_largefile() of a 64-bit task
_USER_STACK = (0x4013A9,)  # of the guest's task, as compiled
_FILES = ("/", "/dev/null", "/etc/hostname")  # both machines have them


class Workload(Protocol):
    """A task of the traced machine; each method makes one system call, and returns its result (or -errno)."""

    comm: str
    pid: int

    def open(self, path: str | bytes, flags: int = 0, mode: int = 0, dfd: int = AT_FDCWD, *, repeat: int = 1) -> int:
        """Call openat(2) `repeat` times, closing what it opened; the path lies at `MEMORY`.

        Both machines have the files /, /dev/null and /etc/hostname.
        """
        ...

    def fork(self) -> int:
        """Fork a child that exits at once; return its pid."""
        ...

    def fadvise(self, fd: int, offset: int, length: int, advice: int = 0, *, data: bytes = b"") -> int:
        """Call fadvise64(2) on a descriptor that isn't open, after putting `data` at `MEMORY`.

        It is useful for its registers: ksys_fadvise64_64 gets any 32 bits in %di and %cx, any 64 in %si and %dx.
        """
        ...

    def rename(self, comm: str | bytes) -> None:
        """Change the task's name (prctl PR_SET_NAME)."""
        ...

    def close(self) -> None:
        """End the task."""
        ...


class Entry(NamedTuple):
    """A function that a system call leads to, and the call chain to it, innermost first."""

    function: str
    chain: tuple[str, ...]


class SyscallEntries(NamedTuple):
    """The functions that the system calls lead to, and what they get: they differ between builds."""

    openat: Entry
    fork: Entry
    fadvise: Entry
    exit_signal: int | None  # its offset in struct kernel_clone_args; None before 5.3, where it is the first argument
    registers_whole: bool  # system calls pass on all 64 bits of their arguments

    @classmethod
    def of(cls, profile: Profile) -> SyscallEntries:
        """Return those of a build; raise `LookupError` if its profile hasn't recorded them."""
        facts = profile.chains
        calls = ("openat", "fork", "fadvise")
        if not facts.keys() >= set(calls):  # a build that was recorded by hand may have a single function's
            raise LookupError(f"no call chain of system calls is recorded for {profile.release}")
        chains = (tuple(facts[name]) for name in calls)
        openat, fork, fadvise = map(Entry, profile.called.values(), chains)
        return cls(openat, fork, fadvise, facts.get("exit_signal"), facts["registers_whole"])


class SimulatedWorkload:
    """The task on a simulated kernel.  Raises `LookupError` if no call chain is recorded for its build."""

    def __init__(self, kernel: SimulatedKernel) -> None:
        self.comm = "workload"
        self.pid = 100
        self._kernel = kernel
        self._name: str | bytes = self.comm
        self._entries = SyscallEntries.of(kernel.profile)
        self._children = self.pid

    def open(self, path: str | bytes, flags: int = 0, mode: int = 0, dfd: int = AT_FDCWD, *, repeat: int = 1) -> int:
        name = os.fsencode(path)
        result = _opened(os.fsdecode(name), flags, dfd)
        entry = self._entries.openat
        memory = {MEMORY: name + b"\0"}
        arguments: tuple[int, ...] = (dfd & 0xFFFFFFFF, MEMORY)
        if entry.function == "do_sys_open":
            arguments, kernel_memory = (*arguments, flags | _LARGEFILE, mode & 0xFFFF), {}
        else:
            how = struct.pack("<QQQ", flags | _LARGEFILE, mode & 0o7777 if flags & os.O_CREAT else 0, 0)
            arguments, kernel_memory = (*arguments, _KERNEL_STACK), {_KERNEL_STACK: how}
        for _ in range(repeat):
            with self._system_call("openat", (dfd, MEMORY, flags, mode), result, memory):
                registers = {"di": dfd & _ULONG_MAX} if self._entries.registers_whole else {}
                self._enter(entry, arguments, result, memory | kernel_memory, registers)
            if result >= 0:
                with self._system_call("close", (result,), 0):
                    pass
        return result

    def fork(self) -> int:
        self._children += 1
        offset = self._entries.exit_signal
        arguments = (_SIGCHLD,) if offset is None else (_KERNEL_STACK,)
        task, child = self._task, self._task._replace(pid=self._children)
        memory = {} if offset is None else {_KERNEL_STACK: struct.pack("<i", _SIGCHLD).rjust(offset + 4, b"\0")}
        with self._system_call("fork", (), self._children) as call:
            self._enter(
                self._entries.fork,
                arguments,
                self._children,
                memory,
                # where the signal has no separate field, it is part of the flags
                within=lambda: self._kernel.fork(task, child, flags=_SIGCHLD if offset is None else 0),
            )
        with self._system_call("wait4", (self._children,), self._children):
            self._kernel.life.wait(task, child.pid)
            self._kernel.life.leave(call, child, 0)
            with self._kernel.system_call("exit", task=child, returns=None):
                self._kernel.exit(child)
        return self._children

    def fadvise(self, fd: int, offset: int, length: int, advice: int = 0, *, data: bytes = b"") -> int:
        mask, entry = _ULONG_MAX, self._entries.fadvise
        arguments = (fd & 0xFFFFFFFF, offset & mask, length & mask, advice & 0xFFFFFFFF)
        # before 4.18 the system call itself, which returns a long; then an int: the upper half of %ax is zero
        result = -errno.EBADF & (0xFFFFFFFF if entry.function.startswith("ksys_") else mask)
        memory = {MEMORY: data} if data else {}
        registers = {"di": fd & mask, "cx": advice & mask} if self._entries.registers_whole else {}
        with self._system_call("fadvise64", (fd, offset, length, advice), -errno.EBADF, memory):
            self._enter(entry, arguments, result, memory, registers)
        return -errno.EBADF

    def rename(self, comm: str | bytes) -> None:
        with self._system_call("prctl", (_PR_SET_NAME, MEMORY), 0, {MEMORY: os.fsencode(comm)[:15] + b"\0"}) as call:
            call.task = self._kernel.life.rename(call.task, comm)
        self._name = comm

    def replay(
        self,
        function: str,
        registers: Mapping[str, int],
        memory: Mapping[int, bytes],
        chain: Sequence[int],
        returns: int,
        returned: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Call a function as a real kernel did: all that a probe can see was recorded.

        `returned` are the registers at the return.
        """
        self._kernel.perform(
            Call(
                function,
                self._task,
                returns=returns,
                registers=dict(registers),
                memory=dict(memory),
                stack=tuple(chain),
                returned=returned,
            )
        )

    def close(self) -> None:
        pass

    @property
    def _task(self) -> Task:
        return Task(self.pid, self._name, user_stack=_USER_STACK)

    def _system_call(
        self, name: str, args: Sequence[int], returns: int, memory: Mapping[int, bytes] | None = None
    ) -> AbstractContextManager[SystemCall]:
        return self._kernel.system_call(name, task=self._task, args=args, returns=returns, memory=memory)

    def _enter(
        self,
        entry: Entry,
        arguments: tuple[int, ...],
        result: int,
        memory: dict[int, bytes],
        registers: Mapping[str, int] = MappingProxyType({}),
        within: Callable[[], None] | None = None,
    ) -> None:
        function, chain = entry
        call = Call(function, self._task, arguments, result, "", dict(registers), memory, chain, returned={})
        self._kernel.perform(call, within)


def _opened(path: str, flags: int, dfd: int) -> int:
    if path in _FILES or flags & os.O_CREAT:
        return 3
    return -errno.EBADF if path and not path.startswith("/") and dfd != AT_FDCWD else -errno.ENOENT


def open_workload(tracefs: Any) -> SimulatedWorkload:
    """Return the task on the simulated kernel under a tracefs (entry point group kprobe.workload)."""
    workload = SimulatedWorkload(tracefs.kernel)
    tracefs.kernel.tasks[workload.pid] = Task(workload.pid, workload.comm)  # it exists before it does anything
    return workload
