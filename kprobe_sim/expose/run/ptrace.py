"""ptrace(2) on the programs in `kprobe-sim run --follow`: the necessary requests, and the programs' memory."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct

from kprobe_sim.builds.page import PAGE_SIZE
from kprobe_sim.events.static.syscall_numbers import syscall_number
from kprobe_sim.named_tuple import NamedTuple

_PTRACE = 101  # ptrace(2) on x86-64
_SEIZE, _CONT, _SYSCALL, _LISTEN, _PEEKUSER, _POKEUSER = 0x4206, 7, 24, 0x4208, 3, 6
_GETEVENTMSG, _GET_SYSCALL_INFO = 0x4201, 0x420E
_SYSGOOD, _FORKS, _EXEC, _EXIT, _SECCOMP, _EXITKILL = 0x1, 0x2 | 0x4 | 0x8, 0x10, 0x40, 0x80, 0x100000
_OPTIONS = _SYSGOOD | _FORKS | _EXEC | _EXIT | _SECCOMP | _EXITKILL
EVENT_FORK, EVENT_VFORK, EVENT_CLONE, EVENT_EXEC, EVENT_EXIT, EVENT_SECCOMP, EVENT_STOP = 1, 2, 3, 4, 6, 7, 128
SYSCALL_STOP = 0x85  # the signal of a stop at a system call: SIGTRAP, and the bit of PTRACE_O_TRACESYSGOOD
_INFO = struct.Struct("<B3xIQQ7Q")  # struct ptrace_syscall_info: op, arch, addresses, then the number and six arguments
_AT_EXIT = 2
_RBX, _RAX, _RDI, _ORIG_RAX, _RIP, _CS = 40, 80, 112, 120, 128, 136  # of struct user_regs_struct
_CS_64, _SYSCALL_SIZE = 0x33, 2
_STRING_MAX = 4096  # PATH_MAX
_SA_NOCLDSTOP = 1
_WALL, _NOTHREAD = 0x40000000, 0x20000000

# calls that fail with EINTR whatever the handlers say (signal(7)), and can be repeated
_WAITS = frozenset(
    number
    for name in (
        *("read", "readv", "pread64", "preadv", "preadv2", "epoll_wait", "epoll_pwait", "epoll_pwait2"),
        *("semop", "semtimedop", "msgsnd", "msgrcv", "rt_sigtimedwait", "io_getevents", "io_pgetevents"),
    )
    if (number := syscall_number(name)) is not None
)


class CallInfo(NamedTuple):
    """A system call that a stopped task makes: its architecture (AUDIT_ARCH_*), number and arguments."""

    arch: int
    number: int
    arguments: tuple[int, ...]


class Ptrace:
    """The requests of the thread that seized; a task that has gone meanwhile is not an error."""

    def __init__(self) -> None:
        # a PyDLL keeps Python's lock: these calls return at once, and taking it again would cost more
        self._syscall = ctypes.PyDLL(None, use_errno=True).syscall
        self._syscall.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._syscall.restype = ctypes.c_long
        self._info = ctypes.create_string_buffer(_INFO.size + 8)
        self._word = ctypes.c_ulong()

    def _ptrace(self, request: int, pid: int, address: int | None, data: int | None) -> int:
        result: int = self._syscall(_PTRACE, request, pid, address, data)  # C libraries change some requests
        return result

    def seize(self, pid: int) -> None:
        """Trace a process and all that it starts; they end when this thread does.  Raises OSError."""
        if self._ptrace(_SEIZE, pid, None, _OPTIONS) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def resume(self, pid: int, number: int = 0, *, to_exit: bool = False) -> None:
        """Let a task continue, with a signal; `to_exit`: until it leaves its current system call."""
        self._ptrace(_SYSCALL if to_exit else _CONT, pid, None, number)

    def listen(self, pid: int) -> None:
        """Leave a task stopped, as job control demands."""
        self._ptrace(_LISTEN, pid, None, None)

    def message(self, pid: int) -> int:
        """Return the message of a stop's event: a child's pid, an exit's status, or the former pid at an exec."""
        if self._ptrace(_GETEVENTMSG, pid, None, ctypes.addressof(self._word)) < 0:
            return 0
        return self._word.value

    def call(self, pid: int) -> CallInfo | None:
        """Return the system call that a task is about to make."""
        info = self._call_info(pid)
        return None if info is None else CallInfo(info[1], info[4], info[5:])

    def result(self, pid: int) -> int | None:
        """Return the result of the system call that a task is about to leave; None if it is in none."""
        info = self._call_info(pid)
        return _signed(info[4]) if info is not None and info[0] == _AT_EXIT else None

    def _call_info(self, pid: int) -> tuple[int, ...] | None:
        size = len(self._info)
        if self._ptrace(_GET_SYSCALL_INFO, pid, size, ctypes.addressof(self._info)) < 0:
            return None
        return _INFO.unpack_from(self._info)

    def last_result(self, pid: int) -> int | None:
        """Return the result of the system call in which a fatal signal hit a task that now ends."""
        value = self._register(pid, _RAX)
        return None if value is None else _signed(value)

    def set_argument(self, pid: int, value: int, *, native: bool) -> None:
        """Change the first argument of the system call that a task is about to make."""
        self._ptrace(_POKEUSER, pid, _RDI if native else _RBX, value)

    def was_interrupted(self, pid: int) -> bool:
        """Return whether a signal has ended a wait that the kernel doesn't restart by itself."""
        value = self._register(pid, _RAX)
        if value is None or _signed(value) != -errno.EINTR:
            return False
        return self._register(pid, _ORIG_RAX) in _WAITS and self._register(pid, _CS) == _CS_64

    def wait_again(self, pid: int) -> None:
        """Make a task that a signal stopped repeat its system call."""
        number, address = self._register(pid, _ORIG_RAX), self._register(pid, _RIP)
        if number is not None and address is not None:
            self._ptrace(_POKEUSER, pid, _RAX, number)
            self._ptrace(_POKEUSER, pid, _RIP, address - _SYSCALL_SIZE)

    def _register(self, pid: int, offset: int) -> int | None:
        if self._ptrace(_PEEKUSER, pid, offset, ctypes.addressof(self._word)) < 0:
            return None
        return self._word.value


class _Action(ctypes.Structure):
    """struct sigaction as C libraries define it."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_char * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class QuietStops:
    """Within a `with` block, SIGCHLD reports only the ends of children, not each stop of a task."""

    def __init__(self) -> None:
        self._sigaction = ctypes.CDLL(None, use_errno=True).sigaction
        self._old = _Action()

    def __enter__(self) -> None:
        self._sigaction(signal.SIGCHLD, None, ctypes.byref(self._old))
        new = _Action.from_buffer_copy(self._old)
        new.flags |= _SA_NOCLDSTOP
        self._sigaction(signal.SIGCHLD, ctypes.byref(new), None)

    def __exit__(self, *_: object) -> None:
        self._sigaction(signal.SIGCHLD, ctypes.byref(self._old), None)


def wait() -> tuple[int, int]:
    """Wait until a task that this thread traces stops or ends; return its pid and status."""
    return os.waitpid(-1, _WALL | _NOTHREAD)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


class _Stretch(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class UserMemory:
    """Memory of other processes."""

    def __init__(self) -> None:
        # a CDLL releases Python's lock: the read may wait for a page that this process has to serve
        self._read = ctypes.CDLL(None, use_errno=True).process_vm_readv
        self._read.restype = ctypes.c_ssize_t
        self._buffer = ctypes.create_string_buffer(PAGE_SIZE)
        self._here = _Stretch(ctypes.addressof(self._buffer), PAGE_SIZE)
        self._there = _Stretch()

    def read(self, pid: int, address: int, size: int) -> bytes:
        """Read up to a page; stop where memory can't be read."""
        data = b""
        while len(data) < size:
            start = address + len(data)
            if start >> 47:  # not an address of a program
                break
            piece = min(size - len(data), PAGE_SIZE - start % PAGE_SIZE)
            self._here.size, self._there.size, self._there.base = piece, piece, start
            count = self._read(pid, ctypes.byref(self._here), 1, ctypes.byref(self._there), 1, 0)
            if count <= 0:
                break
            data += self._buffer.raw[:count] if count > 1024 else ctypes.string_at(self._buffer, count)
        return data

    def string(self, pid: int, address: int) -> bytes | None:
        """Read a string up to its NUL, or up to the length of a path; None if it can't be read."""
        text = b""
        while len(text) < _STRING_MAX:
            start = address + len(text)
            piece = self.read(pid, start, min(256 - start % 256, _STRING_MAX - len(text)))
            end = piece.find(b"\0")
            if end >= 0:
                return text + piece[:end]
            if not piece:
                return None
            text += piece
        return text


def unusable(error: OSError) -> str:
    """Return a message that says why a process can't be traced."""
    reason = error.strerror or "refused"
    if error.errno == errno.EPERM:
        reason += "; is this program itself traced (strace, gdb), or does kernel.yama.ptrace_scope forbid it?"
    return f"following callers needs ptrace(2): {reason}"
