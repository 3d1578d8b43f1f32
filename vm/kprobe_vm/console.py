"""The guest's serial console: kept in a file from the first byte, its last lines at hand, watched for a panic."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from kprobe_vm.errors import ExtraMissing

try:
    import pexpect
    from pexpect import fdpexpect
except ModuleNotFoundError:
    raise ExtraMissing from None

__all__ = ["Console"]

KEPT_LINES = 400
PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
# die() numbers its reports, as in "invalid opcode: 0000 [#1] PREEMPT SMP"; a line before may say more.
OOPS = re.compile(r"(BUG: .*|kernel BUG at .*|\w[\w ,]+.*: [0-9a-f]{4} \[#\d+\].*)")
NO_MEMORY = re.compile(r"System is deadlocked on memory|Out of memory and no killable processes|[Oo]ut of memory")
_SOME = re.compile(rb".+", re.DOTALL)


class Console:
    """Reads the console's end of QEMU's serial port on a thread of its own, so that the guest never waits for us."""

    def __init__(self, connection: socket.socket, file: Path) -> None:
        self._socket = connection
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._partial = b""
        self._listeners: list[Callable[[bytes], None]] = []
        self.file = file
        self.first_byte = threading.Event()  # also set at the end, so that nobody waits for it in vain
        self.panicked = threading.Event()
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="kprobe-vm console", daemon=True)
        self._thread.start()

    def tail(self, lines: int = 50) -> str:
        """Return the last lines; more of them if the kernel's first word of its end is further back."""
        kept = [*self._lines, self._partial.decode("utf-8", "replace")]
        if not kept[-1]:
            kept.pop()
        ends = (at for at, line in enumerate(kept) if PANIC.search(line) or OOPS.search(line))
        return "\n".join(kept[min(next(ends, len(kept)), max(len(kept) - lines, 0)) :])

    def find(self, pattern: re.Pattern[str]) -> str:
        """Return the first group of the first match in the kept lines, or ""."""
        for line in [*self._lines, self._partial.decode("utf-8", "replace")]:
            if match := pattern.search(line):
                return str(match.group(1))
        return ""

    def write(self, data: bytes) -> None:
        """Type something."""
        self._socket.sendall(data)

    @contextlib.contextmanager
    def listen(self, listener: Callable[[bytes], None]) -> Iterator[None]:
        """Call `listener` with each piece of output while the context lasts."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def close(self) -> None:
        """Let go of the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    def _watch(self) -> None:
        try:
            with open(self.file, "wb", buffering=0) as log:
                spawn = fdpexpect.fdspawn(self._socket.fileno(), timeout=None, maxread=65536, use_poll=True)
                spawn.logfile_read = log
                while spawn.expect([_SOME, pexpect.EOF], timeout=None) == 0:
                    self._take(spawn.match.group())
        except OSError:
            pass  # the other end is gone: an end like any other
        finally:
            self.ended.set()
            self.first_byte.set()

    def _take(self, data: bytes) -> None:
        self.first_byte.set()
        for listener in list(self._listeners):
            listener(data)
        *whole, self._partial = (self._partial + data).split(b"\n")
        for raw in whole:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            self._lines.append(line)
            if PANIC.search(line):
                self.panicked.set()
