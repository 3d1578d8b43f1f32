"""/dev/kmsg of the simulated machine, which dmesg(1) reads: devkmsg_read() and others in kernel/printk/printk.c.

Records are as Documentation/ABI/testing/dev-kmsg describes them.  The first is the line with which every kernel begins.
The other messages of a boot are missing.
"""

from __future__ import annotations

import errno
import os
import re
import select
from collections.abc import Callable

from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.machine.simulated import SimulatedMachine
from kprobe_sim.tree.files.node import Node, OpenFile

_SEEK_DATA = 3
_USER, _WARNING = 1 << 3, 4  # facility of what programs write, and its level by default
_NOTICE = 5
_LONGEST = 992  # LOG_LINE_MAX
_PRIORITY = re.compile(rb"<(\d+)>")


class Kmsg(Node):
    """The file: a read returns one line, or waits for the next; a write adds one."""

    def __init__(self, machine: SimulatedMachine) -> None:
        super().__init__(0o644)
        self._machine = machine

    def open(self, flags: int) -> OpenFile:
        return _OpenKmsg(flags, self._machine)


class _OpenKmsg(OpenFile):
    def __init__(self, flags: int, machine: SimulatedMachine) -> None:
        super().__init__(flags)
        self._machine = machine
        self._next = 0  # the line to read next; positions don't matter

    def read(self, size: int, position: int) -> bytes:
        if self._next > len(self._machine.log):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        record = self._record(self._next)
        if len(record) > size:
            raise refuse(errno.EINVAL)
        self._next += 1
        return record

    def _record(self, number: int) -> bytes:
        first = (_NOTICE, 0, self._machine.profile.banner)
        priority, time, text = self._machine.log.entry(number - 1) if number else first
        shown = "".join(char if " " <= char <= "~" and char != "\\" else f"\\x{ord(char):02x}" for char in text)
        return f"{priority},{number},{time // 1000},-;{shown}\n".encode()

    def write(self, data: bytes, position: int) -> int:
        if len(data) > _LONGEST:
            raise refuse(errno.EINVAL)
        prefix = _PRIORITY.match(data)
        priority = int(prefix[1]) if prefix else _WARNING
        text = data[prefix.end() if prefix else 0 :].split(b"\0", 1)[0].removesuffix(b"\n")
        self._machine.log.add(text.decode("latin-1"), priority if priority & ~7 else priority | _USER)
        return len(data)

    def lseek(self, position: int, offset: int, whence: int) -> int:
        if offset:
            raise refuse(errno.ESPIPE)
        if whence not in (os.SEEK_SET, os.SEEK_END, _SEEK_DATA):
            raise refuse(errno.EINVAL)
        self._next = 1 + len(self._machine.log) if whence == os.SEEK_END else 0
        return 0

    def poll(self) -> int:
        return select.POLLIN | select.POLLRDNORM if self._next <= len(self._machine.log) else 0

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._machine.subscribe(callback)
