"""Activity that follows the callers: what programs inside `kprobe-sim run` do appears as what the machine does.

A seccomp filter tells this process of each open, fork, exec, exit and kill of the command and its descendants, before
the kernel does it (seccomp_unotify(2); no root needed).  The simulated tasks have the real pids and names, the opens
the real paths, flags and modes, the forks the real child.

What can't be seen: results of opens (3, or the error of a file that isn't there), so the calls of a return probe come
at once; 32-bit programs; processes that the command didn't start; anything but those kinds of system call and those
that sleep.  All tasks run on CPU 0: another one than before was switched to, and one that slept was woken by then.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import threading
from collections.abc import Sequence
from fcntl import ioctl
from queue import SimpleQueue
from typing import TYPE_CHECKING

from kprobe_sim.expose.caller_mounts import mount_of
from kprobe_sim.expose.doings import (
    CHDIRS,
    EXECS,
    EXITS,
    FORKS,
    KILLS,
    OPENS,
    SLEEPS,
    SYMLINKS,
    Doings,
    offspring,
    string_of,
)
from kprobe_sim.expose.kernel_name import FSTATFS, STATFS, UNAME, statfs, told, utsname
from kprobe_sim.syscall_numbers import syscall_number

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

_FORKS = frozenset(number for name in FORKS if (number := syscall_number(name)) is not None)
_FOLLOWED = tuple(
    number
    for name in (*OPENS, *FORKS, *EXECS, *EXITS, *SLEEPS, *SYMLINKS, *CHDIRS, *KILLS)
    if (number := syscall_number(name)) is not None
)
_TOLD = (UNAME, STATFS, FSTATFS)  # where the kernel is to have another name
_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER = 317, 1, 8  # seccomp(2) on x86-64
_WAIT_KILLABLE = 0x20  # once a call has been told of, only a fatal signal interrupts it (5.19 and later)
_AUDIT_ARCH = 0xC000003E
_ALLOW, _USER_NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_RECEIVERS = 8  # one that has taken a notice may wait long for its turn to run; others take the next ones meanwhile
_NOTICE = struct.Struct("<QIIiIQ6Q")  # struct seccomp_notif
_ANSWER = struct.Struct("<QqiI")


class CannotFollow(Exception):
    """This machine can't tell of other processes' system calls."""


def listen(*, follow: bool, name: bool) -> int:
    """Put the filter on this process and its descendants; return the descriptor that hears of their calls.

    It hears of what is followed, and of uname(2) and statfs(2) if the kernel is to have another `name`.
    """
    if os.uname().machine != "x86_64":
        raise CannotFollow("following callers needs x86-64")
    libc = ctypes.CDLL(None, use_errno=True)
    program = _program((*(_FOLLOWED if follow else ()), *(_TOLD if name else ())))
    filters = ctypes.create_string_buffer(program)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filters", ctypes.c_void_p))

    whole = Program(len(program) // 8, ctypes.addressof(filters))
    found: int = libc.syscall(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER | _WAIT_KILLABLE, ctypes.byref(whole))
    if found < 0 and ctypes.get_errno() == errno.EINVAL:
        found = libc.syscall(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(whole))
    if found < 0:
        raise CannotFollow(f"following callers needs seccomp_unotify(2): {os.strerror(ctypes.get_errno())}")
    return found


def _program(numbers: Sequence[int]) -> bytes:
    """Return the BPF program: notify of the calls with these numbers made by 64-bit programs, allow all others."""
    count = len(numbers)
    code = [(0x20, 0, 0, 4), (0x15, 0, count + 1, _AUDIT_ARCH), (0x20, 0, 0, 0)]  # load arch, compare, load number
    code += [(0x15, count - index, 0, number) for index, number in enumerate(numbers)]
    code += [(0x06, 0, 0, _ALLOW), (0x06, 0, 0, _USER_NOTIFY)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


class Follower:
    """Turns notices into what a simulated kernel does."""

    def __init__(self, kernel: SimulatedKernel, descriptor: int) -> None:
        self._kernel = kernel
        self._doings = Doings(kernel)
        self._descriptor = descriptor
        self._names = utsname(kernel)
        self._notices: SimpleQueue[bytes] = SimpleQueue()

    def follow(self) -> None:
        """Follow until the last process under the filter has ended."""
        for _ in range(_RECEIVERS):
            threading.Thread(target=self._receive, name="notices", daemon=True).start()
        while notice := self._notices.get():
            identity, pid, _, number, _, _, *arguments = _NOTICE.unpack(notice)
            if number in _TOLD:
                self._tell(identity, pid, number, arguments)
                continue
            if number in _FORKS:
                known = offspring(pid)
                self._answer(identity)
                self._doings.after(pid, number, arguments, known)
                continue
            try:
                self._doings.before(pid, number, arguments)
            finally:
                self._answer(identity)

    def _tell(self, identity: int, pid: int, number: int, arguments: list[int]) -> None:
        """Answer in the kernel's stead, if that is to be done."""
        answer: bytes | None = self._names
        address = arguments[0]
        if number != UNAME:
            path, directory = (string_of(pid, address), None) if number == STATFS else (b"", address)
            answer, address = statfs(self._kernel, mount_of(pid, path, directory)), arguments[1]
        done = answer is not None and told(self._descriptor, identity, pid, address, answer)
        self._answer(identity, 0 if done else _CONTINUE)

    def _receive(self) -> None:
        """Take notices as soon as they come: until then a signal makes the call fail, and shells don't try again."""
        notice = bytearray(_NOTICE.size)
        while True:
            notice[:] = bytes(len(notice))
            try:
                ioctl(self._descriptor, _RECEIVE, notice)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT) and self._is_used():  # the caller is gone
                    continue
                self._notices.put(b"")
                return
            self._notices.put(bytes(notice))

    def _answer(self, identity: int, flags: int = _CONTINUE) -> None:
        """Let the call go on, or return 0 without it."""
        try:
            ioctl(self._descriptor, _SEND, _ANSWER.pack(identity, 0, 0, flags))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def _is_used(self) -> bool:
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        return not any(mask & select.POLLHUP for _, mask in poller.poll(0))
