"""What system calls of the followed programs make the simulated machine do: calls of functions, and static events.

The system call's own events surround the function that the kernel calls for it.  Whether a file is there is looked up
as the program would find it; other results can't be known beforehand (an open gives 3).
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from kprobe_sim.expose.caller_mounts import TRACEFS, mount_of, place_of
from kprobe_sim.expose.callers import caller
from kprobe_sim.syscall_numbers import syscall_name
from kprobe_sim.task import Task

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

OPENS = ("open", "openat")
FORKS = ("clone", "fork", "vfork", "clone3")
EXECS = ("execve", "execveat")
EXITS = ("exit_group",)
SYMLINKS = ("symlink", "symlinkat")
CHDIRS = ("chdir",)
KILLS = ("kill",)
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
_AT_FDCWD = -100
_LARGEFILE = 0x8000
_OPENED = 3
_ASLEEP, _ZOMBIE = 1, 0x20  # TASK_INTERRUPTIBLE, EXIT_ZOMBIE, as sched_switch shows them
_CLONE_THREAD = 0x10000
_BIRTH = 0.2  # seconds that a child may take to appear
_OBJECT = 0xFFFF888003A00000  # an object of the kernel's own, of which nothing is known
_IDLE = Task(0, "swapper/0")
_EXEC = ("do_execveat_common.isra.0", "do_execveat_common", "bprm_execve")
_STRING_MAX = 4096


class Doings:
    """Turns system calls of programs into what a simulated kernel does."""

    def __init__(self, kernel: SimulatedKernel) -> None:
        self._kernel = kernel
        chains = kernel.profile.chains or {}
        self._running = _IDLE
        self._asleep: set[int] = set()
        self._open_stack = tuple(chains.get("openat", ()))
        self._fork_stack = tuple(chains.get("fork", ()))

    def before(self, pid: int, number: int, arguments: list[int]) -> None:
        """Do what a system call does that is about to be made; of forks, nothing yet."""
        name = syscall_name(number) or ""
        task = caller(pid)
        self._kernel.tasks.setdefault(pid, task)
        self._runs(task)
        if name in OPENS:
            self._opens(task, name, arguments)
        elif name in EXECS:
            self._executes(task, name, arguments)
        elif name in EXITS:
            self._exits(task, name, arguments)
        elif name in SYMLINKS:
            self._links(task, name, arguments)
        elif name in KILLS:
            self._kills(task, name, arguments)
        elif name in CHDIRS:
            path = string_of(pid, arguments[0])
            with self._kernel.system_call(name, task=task, args=arguments[:1], memory={arguments[0]: path + b"\0"}):
                pass
        elif name in SLEEPS:
            self._leaves(task, _ASLEEP)

    def after(self, pid: int, number: int, arguments: list[int], known: set[int]) -> None:
        """Do what a fork did; `known` are the children and threads from before it."""
        name = syscall_name(number) or ""
        task = caller(pid)
        self._runs(task)
        born = _newborn(pid, known)
        flags = _clone_flags(task.pid, name, arguments)
        with self._kernel.system_call(name, task=task, args=arguments, returns=born or -errno.EAGAIN):
            if not born:
                self._call(("kernel_clone", "_do_fork"), task, (), -errno.EAGAIN, self._fork_stack)
                return
            thread = flags & _CLONE_THREAD
            child = Task(born, task.comm, task.tgid or task.pid if thread else None)
            kernel = self._kernel
            self._call(
                ("kernel_clone", "_do_fork"),
                task,
                (),
                born,
                self._fork_stack,
                lambda: kernel.fork(task, child, flags=flags & ~0xFF),
            )

    def _opens(self, task: Task, name: str, arguments: list[int]) -> None:
        directory, address, flags, mode = arguments[:4] if name == "openat" else [_AT_FDCWD, *arguments[:3]]
        path = string_of(task.pid, address)
        found = 0 if flags & os.O_CREAT else self._look(task.pid, directory, path)
        result = -found if found else _OPENED
        how = struct.pack("<QQQ", (flags & 0xFFFFFFFF) | _LARGEFILE, mode & 0o7777 if flags & os.O_CREAT else 0, 0)
        memory = {address: path + b"\0"}
        with self._kernel.system_call(name, task=task, args=arguments, returns=result, memory=memory):
            functions = ("do_sys_openat2", "do_sys_open")
            self._call(functions, task, (directory & 0xFFFFFFFF, path, how), result, self._open_stack)

    def _look(self, pid: int, directory: int, path: bytes, *, executable: bool = False) -> int:
        """Return the errno with which a program doesn't find a file, 0 if it does."""
        if not path:
            return errno.ENOENT
        base = None if _signed(directory) == _AT_FDCWD else _signed(directory)
        try:
            found = os.stat(place_of(pid, path, base))
        except PermissionError:  # always so for the mount's own files
            mount = mount_of(pid, path, base)
            if mount is None or mount.system != TRACEFS or executable:
                return errno.EACCES
            return 0 if self._kernel.tracefs.exists(mount.rest) else errno.ENOENT
        except OSError as error:
            return error.errno or errno.ENOENT
        if executable and not (stat.S_ISREG(found.st_mode) and found.st_mode & 0o111):
            return errno.EACCES
        return 0

    def _links(self, task: Task, name: str, arguments: list[int]) -> None:
        count = 3 if name == "symlinkat" else 2
        memory = {at: string_of(task.pid, at) + b"\0" for at in (arguments[0], arguments[count - 1])}
        with self._kernel.system_call(name, task=task, args=arguments[:count], memory=memory):
            self._call(("vfs_symlink",), task, (_OBJECT, _OBJECT, _OBJECT, _OBJECT), 0, ())

    def _kills(self, task: Task, name: str, arguments: list[int]) -> None:
        target = _signed(arguments[0])
        gone = target > 0 and not os.path.exists(f"/proc/{target}")
        with self._kernel.system_call(name, task=task, args=arguments[:2], returns=-errno.ESRCH if gone else 0):
            pass

    def _executes(self, task: Task, name: str, arguments: list[int]) -> None:
        at = name == "execveat"
        directory, address = arguments[:2] if at else [_AT_FDCWD, arguments[0]]
        path = string_of(task.pid, address)
        found = self._look(task.pid, directory, path, executable=True)
        memory = {address: path + b"\0"}
        kernel = self._kernel
        with kernel.system_call(name, task=task, args=arguments, returns=-found, memory=memory) as call:

            def within() -> None:
                if not found:
                    call.task = kernel.exec(task, path)

            self._call(_EXEC, task, (), -found, (), within)

    def _exits(self, task: Task, name: str, arguments: list[int]) -> None:
        kernel = self._kernel
        with kernel.system_call(name, task=task, args=arguments, returns=None):
            self._call(("do_exit",), task, ((arguments[0] & 0xFF) << 8,), None, (), lambda: kernel.exit(task))
        parent = caller(_parent_of(task.pid))
        if parent.pid in self._asleep:
            self._asleep.discard(parent.pid)
            kernel.life.wake_up(parent, task)
        self._leaves(task, _ZOMBIE)

    def _runs(self, task: Task) -> None:
        """A task that does something has been switched to, and woken before that if it slept."""
        if task.pid == self._running.pid:
            return
        if task.pid in self._asleep:
            self._asleep.discard(task.pid)
            self._kernel.life.wake_up(task, self._running)
        self._kernel.switch(self._running, task, state=0)
        self._running = task

    def _leaves(self, task: Task, state: int) -> None:
        """A task sleeps or is gone: the idle task runs."""
        if state == _ASLEEP:
            self._asleep.add(task.pid)
        self._kernel.switch(task, _IDLE, state=state)
        self._running = _IDLE

    def _call(
        self,
        names: tuple[str, ...],
        task: Task,
        arguments: tuple[int | str | bytes, ...],
        result: int | None,
        stack: tuple[str, ...],
        within: Callable[[], None] | None = None,
    ) -> None:
        for name in names:
            if self._kernel.symbols.lookup(name):
                returns = result if result is None else result & (2**64 - 1)
                self._kernel.call(name, task=task, args=arguments, returns=returns, stack=stack, within=within)
                return
        if within is not None:
            within()


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def offspring(pid: int) -> set[int]:
    """Return the children of a thread and the threads of its process."""
    found: set[int] = set()
    with suppress(OSError):
        found.update(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    with suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        found.update(int(word) for word in file.read().split())
    return found


def _newborn(pid: int, known: set[int]) -> int:
    """Wait for the child of a fork that is being made; 0 if there is none."""
    deadline = time.monotonic() + _BIRTH
    while time.monotonic() < deadline:
        new = offspring(pid) - known
        if new:
            return max(new)
        if not os.path.exists(f"/proc/{pid}"):
            return 0
        time.sleep(0.0005)
    return 0


def _clone_flags(pid: int, name: str, arguments: list[int]) -> int:
    if name == "clone":
        return arguments[0]
    if name == "clone3":
        data = memory_of(pid, arguments[0], 8)
        return int.from_bytes(data, "little")
    return 0x4100 if name == "vfork" else 0  # CLONE_VFORK | CLONE_VM


def _signed(value: int) -> int:
    """Return the low half of a register as an int of C."""
    return (value & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)


def memory_of(pid: int, address: int, size: int) -> bytes:
    """Read memory of another process; what can't be read is missing."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size) or b""
    except (OSError, OverflowError, ValueError):
        return b""


def string_of(pid: int, address: int) -> bytes:
    """Read a NUL-ended string of another process; what can't be read is empty."""
    found = b""
    while len(found) < _STRING_MAX and b"\0" not in found:
        piece = memory_of(pid, address + len(found), 256 - (address + len(found)) % 256)
        if not piece:
            break
        found += piece
    return found.split(b"\0", 1)[0]
