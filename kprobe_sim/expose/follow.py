"""Activity that follows the callers: what programs inside `kprobe-sim run` do appears as calls of kernel functions.

A seccomp filter tells this process of each open, fork, exec and exit of the command and its descendants, before the
kernel does it (seccomp_unotify(2); no root needed).  The simulated tasks have the real pids and names, the opens the
real paths, flags and modes.

What can't be seen: results (an open returns 3, a fork the next pid), so the calls of a return probe come at once;
32-bit programs; processes that the command didn't start; anything but those four kinds of system call.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from fcntl import ioctl
from typing import TYPE_CHECKING

from kprobe_sim.expose.callers import caller
from kprobe_sim.task import Task

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

_OPEN, _CLONE, _FORK, _VFORK, _EXECVE, _EXIT_GROUP, _OPENAT, _EXECVEAT, _CLONE3 = 2, 56, 57, 58, 59, 231, 257, 322, 435
_NUMBERS = (_OPEN, _CLONE, _FORK, _VFORK, _EXECVE, _EXIT_GROUP, _OPENAT, _EXECVEAT, _CLONE3)
_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER = 317, 1, 8  # seccomp(2) on x86-64
_AUDIT_ARCH = 0xC000003E
_ALLOW, _USER_NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTICE = struct.Struct("<QIIiIQ6Q")  # struct seccomp_notif
_ANSWER = struct.Struct("<QqiI")
_AT_FDCWD = -100
_LARGEFILE = 0x8000
_CALLERS = {"open": "__x64_sys_openat+0x6a", "fork": "__do_sys_fork+0x3a", "exec": "__x64_sys_execve+0x37"}


class CannotFollow(Exception):
    """This machine can't tell of other processes' system calls."""


def listen() -> int:
    """Put the filter on this process and its descendants; return the descriptor that hears of their calls."""
    if os.uname().machine != "x86_64":
        raise CannotFollow("following callers needs x86-64")
    libc = ctypes.CDLL(None, use_errno=True)
    program = _program()
    filters = ctypes.create_string_buffer(program)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filters", ctypes.c_void_p))

    whole = Program(len(program) // 8, ctypes.addressof(filters))
    found: int = libc.syscall(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(whole))
    if found < 0:
        raise CannotFollow(f"following callers needs seccomp_unotify(2): {os.strerror(ctypes.get_errno())}")
    return found


def _program() -> bytes:
    """Return the BPF program: notify of the calls in _NUMBERS made by 64-bit programs, allow all others."""
    count = len(_NUMBERS)
    code = [(0x20, 0, 0, 4), (0x15, 0, count + 1, _AUDIT_ARCH), (0x20, 0, 0, 0)]  # load arch, compare, load number
    code += [(0x15, count - index, 0, number) for index, number in enumerate(_NUMBERS)]
    code += [(0x06, 0, 0, _ALLOW), (0x06, 0, 0, _USER_NOTIFY)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


class Follower:
    """Turns notices into calls on a simulated kernel."""

    def __init__(self, kernel: SimulatedKernel, descriptor: int) -> None:
        self._kernel = kernel
        self._descriptor = descriptor
        self._known: set[int] = set()
        self._last = 0

    def follow(self) -> None:
        """Follow until the last process under the filter has ended."""
        notice = bytearray(_NOTICE.size)
        while True:
            notice[:] = bytes(len(notice))
            try:
                ioctl(self._descriptor, _RECEIVE, notice)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT) and self._is_used():  # the caller is gone
                    continue
                return
            identity, pid, _, number, _, _, *arguments = _NOTICE.unpack(notice)
            try:
                self._take(pid, number, arguments)
            finally:
                try:
                    ioctl(self._descriptor, _SEND, _ANSWER.pack(identity, 0, 0, _CONTINUE))
                except OSError as error:
                    if error.errno != errno.ENOENT:
                        raise

    def _is_used(self) -> bool:
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        return not any(mask & select.POLLHUP for _, mask in poller.poll(0))

    def _take(self, pid: int, number: int, arguments: list[int]) -> None:
        task = caller(pid)
        self._meet(task)
        if number in (_OPEN, _OPENAT):
            self._opens(task, arguments if number == _OPENAT else [_AT_FDCWD, *arguments])
        elif number in (_EXECVE, _EXECVEAT):
            self._call("exec", ("do_execveat_common.isra.0", "do_execveat_common", "bprm_execve"), task, (), 0)
        elif number == _EXIT_GROUP:
            self._call("exit", ("do_exit",), task, (arguments[0] << 8,), None)
        else:
            self._call("fork", ("kernel_clone",), task, (), self._last + 1)

    def _meet(self, task: Task) -> None:
        """A task does something for the first time: it was forked by its parent."""
        if task.pid in self._known:
            return
        self._known.add(task.pid)
        self._last = max(self._last, task.pid)
        parent = _parent(task.pid)
        if parent in self._known:
            self._kernel.fork(self._kernel.tasks.get(parent, caller(parent)), task)

    def _opens(self, task: Task, arguments: list[int]) -> None:
        directory, address, flags, mode = arguments[:4]
        path = _string(task.pid, address)
        how = struct.pack("<QQQ", (flags & 0xFFFFFFFF) | _LARGEFILE, mode & 0o7777 if flags & os.O_CREAT else 0, 0)
        self._call("open", ("do_sys_openat2", "do_sys_open"), task, (directory & 0xFFFFFFFF, path, how), 3)

    def _call(
        self,
        kind: str,
        names: tuple[str, ...],
        task: Task,
        arguments: tuple[int | str | bytes, ...],
        result: int | None,
    ) -> None:
        for name in names:
            if self._kernel.symbols.lookup(name):
                self._kernel.call(name, task=task, args=arguments, returns=result, caller=_CALLERS.get(kind, ""))
                return


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _string(pid: int, address: int) -> bytes:
    """Read a NUL-ended string of another process; what can't be read is empty."""
    found = b""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            while len(found) < 4096 and b"\0" not in found:
                found += memory.read(256 - address % 256 if not found else 256) or b"\0"
    except (OSError, OverflowError, ValueError):
        pass
    return found.split(b"\0", 1)[0]
