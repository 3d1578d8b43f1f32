"""Processes that clean up after a process that ended without cleaning up.

A keeper does its duty when the process that started it ends in any way, unless it was dismissed first.  A second keeper
watches the first, and takes over if the first is killed.

Only SIGKILL ends them.  They have their own name, so killing a command's processes by name spares them.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
from collections.abc import Callable, Collection
from typing import NoReturn

NAME = b"sim-keeper"
_PR_SET_NAME = 15


class Keeper:
    """The keepers of this process.

    Each of them may do `duty`, one after the other, so it must be safe to repeat.  `duty` uses the descriptors `needs`.
    Call `renew` when a child of this process has ended.
    """

    def __init__(self, duty: Callable[[], object], needs: Collection[int] = ()) -> None:
        self._duty = duty
        self._needs = tuple(needs)
        self._pid, self._pipe = self._start()

    @property
    def pid(self) -> int:
        """The pid of the first keeper, a child of this process."""
        return self._pid

    @property
    def pipe(self) -> int:
        """The descriptor that the keepers watch: they wait until no process holds it open."""
        return self._pipe

    def renew(self) -> None:
        """Start another keeper if the first was killed."""
        try:
            ended, _ = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            ended = self._pid
        if ended:
            old = self._pipe
            self._pid, self._pipe = self._start()
            _release(old)

    def dismiss(self) -> None:
        """Tell the keepers that nothing is left to do, and wait until they end."""
        _release(self._pipe)
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            return

    def _start(self) -> tuple[int, int]:
        waits, pipe = os.pipe()
        hears, ready = os.pipe()
        masked = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        pid = os.fork()
        if not pid:
            _keep(waits, ready, self._duty, self._needs)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        os.close(waits)
        os.close(ready)
        os.read(hears, 1)  # until both keepers run
        os.close(hears)
        return pid, pipe


def _release(pipe: int) -> None:
    try:
        os.write(pipe, b"12")  # a byte for each keeper
    except BrokenPipeError:
        pass
    finally:
        os.close(pipe)


def _keep(waits: int, ready: int, duty: Callable[[], object], needs: Collection[int]) -> NoReturn:
    """Be the first keeper."""
    try:
        os.setsid()  # the terminal's signals aren't meant for it
        os.chdir("/")
        _leave_files({*needs, waits, ready})
        _take_name()
        first = os.pidfd_open(os.getpid())
        poller = select.poll()
        poller.register(waits, select.POLLIN)
        while True:
            second = os.fork()
            if not second:
                _keep_too(waits, ready, duty, first)
            if ready >= 0:
                os.close(ready)
                ready = -1
            handle = os.pidfd_open(second)
            poller.register(handle, select.POLLIN)
            if any(descriptor == waits for descriptor, _ in poller.poll()):
                break
            poller.unregister(handle)
            os.close(handle)
            os.waitpid(second, 0)
        if os.read(waits, 1):
            os.waitpid(second, 0)
        else:
            duty()
    finally:
        os._exit(0)


def _keep_too(waits: int, ready: int, duty: Callable[[], object], first: int) -> NoReturn:
    """Be the second keeper."""
    try:
        if ready >= 0:
            os.close(ready)
        if not os.read(waits, 1):
            poller = select.poll()
            poller.register(first, select.POLLIN)
            poller.poll()
            duty()
    finally:
        os._exit(0)


def _leave_files(needs: set[int]) -> None:
    """Close inherited descriptors, so that nobody waits for a pipe that this process still holds."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number not in needs:
            try:
                os.close(number)
            except OSError:  # the one that listed the directory
                continue


def _take_name() -> None:
    """Change the name and the command line that ps(1) shows."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, NAME, 0, 0, 0)
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, see proc(5)
    if 0 < start < end:
        ctypes.memmove(start, NAME[: end - start - 1].ljust(end - start, b"\0"), end - start)
