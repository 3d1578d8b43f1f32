"""What /proc knows about the thread that sent a request to the mount."""

from __future__ import annotations

import errno
import os
import signal

from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple

_SPLICE, _SENDFILE = 275, 40  # numbers of the system calls on x86-64
_SPLICE_F_NONBLOCK = 2
_HARMLESS = (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH)  # ignored unless they have a handler


def caller(pid: int, group: int | None = None) -> Task:
    """Return the task that sent a request.  /proc has its name while it lives.

    `group` is the pid of its process, if that is another number.
    """
    try:
        descriptor = os.open(f"/proc/{pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return Task(pid, "<...>", group)
    try:
        return Task(pid, os.read(descriptor, 64).rstrip(b"\n"), group)
    except OSError:
        return Task(pid, "<...>", group)
    finally:
        os.close(descriptor)


def parent_of(pid: int) -> int:
    """Return the parent process of a task; 0 if it is unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def ignores(pid: int, number: int) -> bool:
    """Return whether a task ignores a signal, and no other pending signal interrupts it."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = dict(line.split(b":", 1) for line in file)
        ignored, caught, blocked = (int(lines[name], 16) for name in (b"SigIgn", b"SigCgt", b"SigBlk"))
        pending = int(lines[b"SigPnd"], 16) | int(lines[b"ShdPnd"], 16)
    except (OSError, KeyError, ValueError):
        return False
    bit = 1 << number - 1
    if pending & caught & ~blocked:
        return False
    return bool(ignored & bit) or (number in _HARMLESS and not caught & bit)


class SpliceCall(NamedTuple):
    """The splice or sendfile that a thread waits in."""

    descriptor: int
    is_blocking: bool
    position: int  # of the file when the call began


def waits(pid: int, position: int) -> bool:
    """Return whether a thread should wait for the page at that position.

    It should not if the same call has already returned pages, or has SPLICE_F_NONBLOCK.  The request tells neither.
    /proc tells both of processes that this one may inspect; other processes get EAGAIN.
    """
    try:
        call = _call_of(pid)
    except (OSError, ValueError):
        return False
    return call.is_blocking and call.position == position


def _call_of(pid: int) -> SpliceCall:
    text = "running"
    while text.startswith("running"):  # it sent the request and isn't asleep yet
        with open(f"/proc/{pid}/syscall", encoding="utf-8") as file:
            text = file.read()
    number, *arguments = (int(word, 0) for word in text.split()[:7])
    if number not in (_SPLICE, _SENDFILE):
        raise refuse(errno.EINVAL)
    descriptor = arguments[0 if number == _SPLICE else 1]
    is_blocking = number == _SENDFILE or not arguments[5] & _SPLICE_F_NONBLOCK
    with open(f"/proc/{pid}/fdinfo/{descriptor}", encoding="utf-8") as file:
        position = next(int(line.split()[1]) for line in file if line.startswith("pos:"))
    return SpliceCall(descriptor, is_blocking, position)
