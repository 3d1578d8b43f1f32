"""Guest slots: how many guests run at once on this machine, whoever owns them.

A slot is an abstract socket address: all users and all test runners of the machine (of its network name space) see the
same slots, no file is left behind, and the kernel frees a slot when its process dies.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PREFIX = "\0kprobe-vm/guest/"
NOTICE = 1.0  # seconds of waiting after which a message says so
PATIENCE = 60.0  # seconds of waiting, after which one guest too many is better than no guest
WAITERS = 64  # processes that can be notified at once
SHARE = 0.5  # of the machine's memory that guests may have
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class GuestSlot:
    """The right to run one guest; give it back with `close`."""

    def __init__(self, holder: socket.socket | None) -> None:
        self._holder = holder

    @property
    def is_held(self) -> bool:
        """Whether it is a counted slot that wasn't given back."""
        return self._holder is not None and self._holder.fileno() >= 0

    def close(self) -> None:
        """Give it back.  May be called twice."""
        if self._holder is not None:
            self._holder.close()

    def __enter__(self) -> GuestSlot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def limit(environment: Mapping[str, str], memory: int) -> int:
    """Return how many guests of a size in MiB should run at once: `KPROBE_VM_GUESTS`, else by memory and cores."""
    if own := environment.get("KPROBE_VM_GUESTS"):
        return max(1, int(own))
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # "max", or no such file
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return max(1, min(len(os.sched_getaffinity(0)), int(total * SHARE / 2**20 / memory)))


def take(
    count: int, *, patience: float = PATIENCE, prefix: str = "", waiting: Callable[[str], None] | None = None
) -> GuestSlot:
    """Take one of `count` slots, waiting until one is free; `prefix` is for slots of another kind.

    After `patience` seconds, and for a process that has a slot already, the slot isn't counted: two processes that each
    hold a slot and wait for another would wait for ever.  `waiting` is called with one line if it takes long.
    """
    prefix = prefix or PREFIX
    began = time.monotonic()
    end = began + patience
    while True:
        for number in range(count):
            holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                holder.bind(f"{prefix}{number}")
            except OSError as error:
                holder.close()
                if error.errno != errno.EADDRINUSE:
                    return GuestSlot(None)  # no such sockets here: then nothing is counted
            else:
                holder.listen(WAITERS)
                return GuestSlot(holder)
        now = time.monotonic()
        left = end - now
        if waiting is not None and left > 0:
            if now - began < NOTICE:
                left = min(left, NOTICE - (now - began))
            else:
                guests = "1 guest runs" if count == 1 else f"{count} guests run"
                waiting(
                    f"{guests} on this machine already: waiting for one to end, {left:.0f} s at most "
                    "(KPROBE_VM_GUESTS=N lets N run)"
                )
                waiting = None
        if left <= 0 or not _wait_for_a_change(count, left, prefix):
            return GuestSlot(None)


def _wait_for_a_change(count: int, seconds: float, prefix: str) -> bool:
    """Connect to all holders: when one ends, so does its connection.  Return False if this process holds one."""
    with contextlib.ExitStack() as stack:
        poll = select.poll()
        for number in range(count):
            waiter = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            waiter.setblocking(False)
            try:
                waiter.connect(f"{prefix}{number}")
            except BlockingIOError:  # too many wait already
                continue
            except OSError:  # just freed, or bound and not yet listening
                return True
            holder, _, _ = _CREDENTIALS.unpack(
                waiter.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
            if holder == os.getpid():
                return False
            poll.register(waiter, select.POLLIN | select.POLLHUP)
        poll.poll(min(seconds, 5.0) * 1000)
    return True
