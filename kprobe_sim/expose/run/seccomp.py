"""The seccomp filter on programs in `kprobe-sim run`: which system calls are reported, answered or refused.

- Followed calls stop the program for its tracer (SECCOMP_RET_TRACE; see `follow`).
- This process answers calls that identify the kernel (seccomp_unotify(2); see `kernel_name`).
- Calls that trace this machine's kernel fail as on a kernel built without them: they would not show the simulated
  machine, whose events have other numbers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping
from types import MappingProxyType

from kprobe_sim.events.static.syscall_numbers import syscall_number

_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER = 317, 1, 8  # seccomp(2) on x86-64
_WAIT_KILLABLE = 0x20  # only a fatal signal interrupts a reported call (5.19 and later)
X86_64, I386 = 0xC000003E, 0x40000003  # AUDIT_ARCH_*
_X32 = 0x40000000
_ALLOW, _TRACE, _USER_NOTIFY, _ERRNO = 0x7FFF0000, 0x7FF00000, 0x7FC00000, 0x00050000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data

UNAME, STATFS, FSTATFS = 63, 137, 138  # answered if the kernel is to have another name
_ANSWERED = (UNAME, STATFS, FSTATFS)
_REFUSED = ("perf_event_open", "bpf")
# calls of 32-bit programs, with the names of x86-64
CALLS_I386: Mapping[int, str] = MappingProxyType(
    {
        1: "exit",
        2: "fork",
        5: "open",
        8: "creat",
        11: "execve",
        12: "chdir",
        37: "kill",
        83: "symlink",
        120: "clone",
        190: "vfork",
        252: "exit_group",
        295: "openat",
        304: "symlinkat",
        336: "perf_event_open",
        357: "bpf",
        358: "execveat",
        435: "clone3",
        437: "openat2",
    }
)


class CannotFollow(Exception):
    """This machine can't report other processes' system calls."""


def listen(*, followed: frozenset[str] = frozenset(), name: bool) -> int | None:
    """Install the filter for this process and its descendants; return the descriptor that reports calls to answer.

    `followed` names the calls that stop their caller; `name` is true if the kernel is to have another name.  Returns
    None if nothing is to be answered: `name` is false, or an outer filter already has a listener.  Raises CannotFollow
    if this machine doesn't allow it.
    """
    if os.uname().machine != "x86_64":
        raise CannotFollow("following callers needs x86-64")
    libc = ctypes.CDLL(None, use_errno=True)
    if name:
        for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
            listener = _install(libc, _program(followed, name=True), flags)
            if listener >= 0:
                return listener
    if _install(libc, _program(followed, name=False), 0) < 0:
        raise CannotFollow(f"following callers needs seccomp(2): {os.strerror(ctypes.get_errno())}")
    return None


def _install(libc: ctypes.CDLL, program: bytes, flags: int) -> int:
    filters = ctypes.create_string_buffer(program)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filters", ctypes.c_void_p))

    argument = Program(len(program) // 8, ctypes.addressof(filters))
    result: int = libc.syscall(_SECCOMP, _SET_MODE_FILTER, flags, ctypes.byref(argument))
    return result


def _program(followed: frozenset[str], *, name: bool) -> bytes:
    """Return the BPF program."""
    native: dict[int, int] = dict.fromkeys(_ANSWERED, _USER_NOTIFY) if name else {}
    for call in sorted(followed):
        number = syscall_number(call)
        if number is not None:
            native[number] = _TRACE
    compatible = {number: _TRACE for number, call in CALLS_I386.items() if call in followed}
    for call in _REFUSED:
        number = syscall_number(call)
        assert number is not None
        native[number] = native[number | _X32] = _ERRNO | errno.ENOSYS
    compatible.update({number: _ERRNO | errno.ENOSYS for number, call in CALLS_I386.items() if call in _REFUSED})
    blocks = [_block(native), _block(compatible)]
    code = [(_LOAD, 0, 0, _ARCH)]
    code += [(_EQUAL, 0, len(blocks[0]), X86_64), *blocks[0]]
    code += [(_EQUAL, 0, len(blocks[1]), I386), *blocks[1]]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _block(actions: Mapping[int, int]) -> list[tuple[int, int, int, int]]:
    """Return the part for one architecture: an action for each number; all other calls are allowed."""
    code = [(_LOAD, 0, 0, _NUMBER)]
    for number, action in actions.items():
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, action)]
    return [*code, (_RETURN, 0, 0, _ALLOW)]
