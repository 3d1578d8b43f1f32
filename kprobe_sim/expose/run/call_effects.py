"""The effects of followed programs' system calls on the simulated machine: function calls and static events.

The events of a system call surround the function that the kernel calls for it.  Results are those of this machine's
kernel.  Where a call may fail before the kernel reaches the function, the function is called only if it is certain.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.builds.profile import CALLED
from kprobe_sim.events.static.task_life import SystemCall
from kprobe_sim.expose.fuse.callers import caller, parent_of
from kprobe_sim.expose.run.ptrace import UserMemory
from kprobe_sim.machine.task import Task
from kprobe_sim.probes.hits.call import Call
from kprobe_sim.probes.hits.hits import Entered

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

OPENS_AT = ("openat", "openat2")
OPENS = ("open", "creat", *OPENS_AT)
FORKS = ("clone", "fork", "vfork", "clone3")
EXECS = ("execve", "execveat")
EXITS = ("exit", "exit_group")
SYMLINKS = ("symlink", "symlinkat")
OTHERS = ("chdir", "kill")
SLEEPS = (
    "wait4",
    "waitid",
    "nanosleep",
    "clock_nanosleep",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "pause",
    "rt_sigsuspend",
    "recvfrom",
    "recvmsg",
)
FOLLOWED = frozenset((*OPENS, *FORKS, *EXECS, *EXITS, *SYMLINKS, *OTHERS, *SLEEPS))
_AT_FDCWD = -100 & 0xFFFFFFFF
_LARGEFILE, _TMPFILE = 0x8000, 0x400000  # __O_TMPFILE
_VALID_FLAGS = 0o37777703  # VALID_OPEN_FLAGS
_PATH_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_PATH | os.O_CLOEXEC  # O_PATH_FLAGS
_HOW = struct.Struct("<QQQ")  # struct open_how
_NATIVE = ("__do_sys_{}", "__x64_sys_{}", "SyS_{}", "sys_{}")  # a system call's function; the last two before 4.17
_OF_32_BITS = ("__ia32_compat_sys_{}", "__do_sys_{}")
_CLONE_ARGS_MIN, _CLONE_THREAD, _CSIGNAL = 64, 0x10000, 0xFF
_ASLEEP, _DEAD, _ZOMBIE = 1, 0x10, 0x20  # TASK_INTERRUPTIBLE, EXIT_DEAD, EXIT_ZOMBIE, as sched_switch shows them
_OBJECT = 0xFFFF888003A00000  # some kernel object, of unknown contents
_IDLE = Task(0, "swapper/0")
_MASK = 2**64 - 1


class PendingCall:
    """A system call that a task is in, and the kernel function that runs for it."""

    __slots__ = ("call", "child", "entered", "flags", "name", "path", "system", "task")

    def __init__(self, name: str, task: Task, system: SystemCall | None) -> None:
        self.name = name
        self.task = task
        self.system = system  # None for a 32-bit program, whose system calls have no events
        self.call: Call | None = None
        self.entered: Entered | None = None
        self.path = b""
        self.flags = 0  # of a fork
        self.child = 0

    @property
    def is_fork(self) -> bool:
        return self.name in FORKS


class CallEffects:
    """Turns system calls of programs into what a simulated kernel does."""

    def __init__(self, kernel: SimulatedKernel) -> None:
        self._kernel = kernel
        self._memory = UserMemory()
        self._running = _IDLE
        self._asleep: set[int] = set()
        chains = kernel.profile.chains or {}
        self._chains = {name: tuple(chains[name]) for name in (*OPENS, *FORKS) if name in chains}

    def enter(self, task: Task, name: str, arguments: Sequence[int], *, native: bool = True) -> PendingCall | None:
        """Do what a system call does at its entry; return None if nothing would show its return."""
        self._kernel.tasks.setdefault(task.pid, task)
        self._runs(task)
        if name in SLEEPS:
            self._leaves_cpu(task, _ASLEEP)
            return None
        pending = PendingCall(name, task, None)
        if name in OPENS:
            return self._opens(pending, arguments, native)
        if name in EXECS:
            return self._executes(pending, arguments, native)
        if name in FORKS:
            return self._forks(pending, arguments, native)
        count, memory = len(arguments), {}
        if name in SYMLINKS:
            count = 3 if name == "symlinkat" else 2
            memory = self._strings(task.pid, arguments[0], arguments[count - 1])
        elif name == "chdir":
            count, memory = 1, self._strings(task.pid, arguments[0])
        elif name == "kill":
            count = 2
        self._begin(pending, arguments[:count], memory, native)
        if name in EXITS:
            return None
        return pending if name in SYMLINKS or self._kernel.life.leaves(name) else None

    def child_created(self, pending: PendingCall, child: Task) -> None:
        """Do what a fork does once the child exists."""
        self._runs(pending.task)
        pending.child = child.pid
        self._kernel.fork(pending.task, child, flags=pending.flags & ~_CSIGNAL)

    def begin(self, task: Task, system: SystemCall | None) -> None:
        """Let a new task begin: it returns from the fork."""
        self._kernel.tasks[task.pid] = task
        if system is not None and self._kernel.life.leaves(system.name):
            self._runs(task)
            self._kernel.life.leave(system, task, 0)

    def execute(self, pending: PendingCall | None, pid: int, old_pid: int) -> None:
        """Do what an exec does once the new program is loaded."""
        new = caller(pid)
        if pending is None:
            return
        self._runs(pending.task)
        old = pending.task._replace(pid=pid, tgid=None)
        if pending.system is not None:
            # for execveat, too: set_personality_64bit() in the kernel
            pending.system.name, pending.system.number = "execve", 59
        pending.task = self._running = self._kernel.exec(old, pending.path, comm=new.comm, old_pid=old_pid)

    def leave(self, pending: PendingCall, result: int) -> None:
        """Do what a system call does when it returns."""
        kernel, task = self._kernel, pending.task
        self._runs(task)
        if pending.name in SYMLINKS and not result and kernel.symbols.lookup("vfs_symlink"):
            kernel.call("vfs_symlink", task=task, args=(_OBJECT,) * 4)
        if pending.call is not None:
            with kernel.condition:
                kernel.hits.leave(pending.call._replace(task=task, returns=result & _MASK), pending.entered)
        if pending.system is not None:
            kernel.life.leave(pending.system, task, result)

    def end(self, task: Task, code: int, *, last: bool) -> None:
        """Do what the end of a task with status `code` does; `last`: it is the last thread of its process."""
        kernel = self._kernel
        self._runs(task)

        def within() -> None:
            kernel.exit(task, last=last)

        kernel.call("do_exit", task=task, args=(code,), returns=None, within=within)
        if last:
            parent = caller(parent_of(task.pid))
            if parent.pid in self._asleep:
                self._asleep.discard(parent.pid)
                kernel.life.wake_up(parent, task)
        self._asleep.discard(task.pid)
        self._leaves_cpu(task, _ZOMBIE if task.tgid in (None, task.pid) else _DEAD)

    def _opens(self, pending: PendingCall, arguments: Sequence[int], native: bool) -> PendingCall | None:
        name, pid = pending.name, pending.task.pid
        directory, address, flags, mode = arguments[:4] if name in OPENS_AT else (_AT_FDCWD, *arguments[:3])
        if name == "creat":
            flags, mode = os.O_CREAT | os.O_WRONLY | os.O_TRUNC, arguments[1]
        memory = self._strings(pid, address)
        large = _LARGEFILE if native or name == "creat" else 0
        function = self._kernel.profile.called["open"]
        how: tuple[bytes | int, ...] | None
        if function != CALLED["open"][0]:  # such a kernel has no openat2(2)
            how = None if name == "openat2" else (flags | large, mode & 0xFFFF)
        elif name == "openat2":
            how = self._how(pid, arguments[2], arguments[3])
        else:
            how = (_open_how(flags | large, mode),)
        self._begin(pending, arguments, memory, native)
        if how is not None:
            self._call(pending, function, (directory & 0xFFFFFFFF, address, *how), memory, native)
        return self._is_of_use(pending)

    def _how(self, pid: int, address: int, size: int) -> tuple[bytes] | None:
        """Return the struct open_how that openat2(2) makes of its argument; None if it refuses the argument."""
        if not _HOW.size <= size <= PAGE_SIZE:
            return None
        how = self._memory.read(pid, address, size)
        if len(how) < size or any(how[_HOW.size :]):
            return None
        flags, mode, resolve = _HOW.unpack_from(how)
        return (_HOW.pack(flags if flags & os.O_PATH else flags | _LARGEFILE, mode, resolve),)

    def _forks(self, pending: PendingCall, arguments: Sequence[int], native: bool) -> PendingCall:
        name = pending.name
        if name == "clone":
            pending.flags = arguments[0]
        elif name == "vfork":
            pending.flags = 0x4100  # CLONE_VFORK | CLONE_VM
        self._begin(pending, arguments, {}, native)
        if name == "clone3":
            given = self._memory.read(pending.task.pid, arguments[0], 8)
            if not _CLONE_ARGS_MIN <= arguments[1] <= PAGE_SIZE or len(given) < 8:
                return pending
            pending.flags = int.from_bytes(given, "little") & ~_CSIGNAL
        self._call(pending, self._kernel.profile.called["fork"], (), {}, native)
        return pending

    def _executes(self, pending: PendingCall, arguments: Sequence[int], native: bool) -> PendingCall:
        takes_directory = pending.name == "execveat"
        directory, address = arguments[:2] if takes_directory else (_AT_FDCWD, arguments[0])
        path = self._memory.string(pending.task.pid, address)
        memory = {} if path is None else {address: path + b"\0"}
        pending.path = path or b""
        if directory & 0xFFFFFFFF != _AT_FDCWD and not pending.path.startswith(b"/"):
            pending.path = b"/dev/fd/%d/%s" % (directory & 0xFFFFFFFF, pending.path)
            pending.path = pending.path.rstrip(b"/") if not path else pending.path
        self._begin(pending, arguments, memory, native)
        for function in ("do_execveat_common.isra.0", "do_execveat_common", "bprm_execve"):
            if self._kernel.symbols.lookup(function):
                self._call(pending, function, (), {}, native)
                break
        return pending

    def _strings(self, pid: int, *addresses: int) -> dict[int, bytes]:
        """Return the strings at these addresses, without those that can't be read."""
        strings = {}
        for address in addresses:
            text = self._memory.string(pid, address)
            if text is not None:
                strings[address] = text + b"\0"
        return strings

    def _begin(self, pending: PendingCall, arguments: Sequence[int], memory: Mapping[int, bytes], native: bool) -> None:
        if native:
            pending.system = self._kernel.life.enter(pending.name, pending.task, arguments, memory)

    def _call(
        self,
        pending: PendingCall,
        function: str,
        arguments: tuple[int | str | bytes, ...],
        memory: Mapping[int, bytes],
        native: bool,
    ) -> None:
        """Enter a kernel function."""
        kernel = self._kernel
        if not kernel.symbols.lookup(function):
            return
        pending.call = Call(
            function, pending.task, arguments, stack=self._stack(pending.name, native), memory=dict(memory)
        )
        with kernel.condition:
            kernel.tasks[pending.task.pid] = pending.task
            pending.entered = kernel.hits.enter(pending.call)

    def _stack(self, name: str, native: bool) -> tuple[str, ...]:
        """Return the call chain above a function that a system call calls.

        It was recorded for openat and fork.  For others the calling function is known, but not the address in it.
        """
        key = name if native else f"{name} of 32 bits"
        chain = self._chains.get(key)
        if chain is None:
            names = (kind.format(name) for kind in (_NATIVE if native else _OF_32_BITS))
            known = next((symbol for symbol in names if self._kernel.symbols.lookup(symbol)), None)
            chain = () if known is None else (known, *(self._chains.get("openat", ())[1:] if native else ()))
            self._chains[key] = chain
        return chain

    def _is_of_use(self, pending: PendingCall) -> PendingCall | None:
        if pending.entered is not None or (pending.system is not None and self._kernel.life.leaves(pending.name)):
            return pending
        return None

    def _runs(self, task: Task) -> None:
        """Switch to a task that does something, and wake it first if it slept."""
        if task.pid == self._running.pid:
            return
        if task.pid in self._asleep:
            self._asleep.discard(task.pid)
            self._kernel.life.wake_up(task, self._running)
        self._kernel.switch(self._running, task, state=0)
        self._running = task

    def _leaves_cpu(self, task: Task, state: int) -> None:
        if state == _ASLEEP:
            self._asleep.add(task.pid)
        self._kernel.switch(task, _IDLE, state=state)
        self._running = _IDLE


def _open_how(flags: int, mode: int) -> bytes:
    """Return struct open_how as build_open_how() in fs/open.c makes it."""
    flags &= _VALID_FLAGS
    if flags & os.O_PATH:
        flags &= _PATH_FLAGS
    if not flags & (os.O_CREAT | _TMPFILE):
        mode = 0
    return _HOW.pack(flags, mode & 0o7777, 0)
