"""The guest's serial console: kept in a file from the first byte, its last lines at hand, watched for a panic."""

from __future__ import annotations

import contextlib
import os
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


KEPT_LINES = 400
LONGEST = 1024  # characters of a kept line: the kernel's limit for its own (LOG_LINE_MAX, kernel/printk/printk.c)
LOG_LARGEST = 16 << 20  # bytes of the file
PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
# die() numbers its reports, as in "invalid opcode: 0000 [#1] PREEMPT SMP"; a line before may say more.
OOPS = re.compile(r"(BUG: .*|kernel BUG at .*|(?:^|(?<=\] ))\w.*: [0-9a-f]{4} \[#\d+\].*)")
NO_MEMORY = re.compile(r"System is deadlocked on memory|Out of memory and no killable processes|[Oo]ut of memory")
# what the agent prints before it ends
NO_SERIAL = re.compile(r"(no serial port /dev/ttyS1: .*)")
NO_MODULE = re.compile(r"module /modules/\d+-(.*)")
_SOME = re.compile(rb".+", re.DOTALL)


class _Log:
    """The console's file: complete, or its beginning and its end if it grew beyond `LOG_LARGEST`."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 - closed by close()
        self._size = 0
        self._left_out = 0
        self._is_broken = False

    def write(self, data: bytes) -> None:
        """Append data; a full disk loses it, so that the guest need not wait."""
        if self._is_broken:
            return
        try:
            if self._size + len(data) > LOG_LARGEST:
                self._shorten()
            self._size += self._file.write(data) or 0
        except OSError:
            self._is_broken = True

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        self._file.close()

    def _shorten(self) -> None:
        """Keep the first quarter and the last half, in whole lines; say what is left out in between."""
        quarter = LOG_LARGEST // 4
        descriptor = self._file.fileno()
        end = os.pread(descriptor, quarter, self._size - quarter).partition(b"\n")[2]
        self._left_out += self._size - quarter - len(end)
        words = b"\n[... %d bytes are left out here ...]\n" % self._left_out
        os.ftruncate(descriptor, quarter)
        self._file.seek(quarter)
        self._file.write(words + end)
        self._size = self._file.tell()


class Console:
    """Reads the console's end of QEMU's serial port on its own thread, so that the guest never waits for us."""

    def __init__(self, connection: socket.socket, file: Path) -> None:
        self._socket = connection
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._partial = b""
        self._listeners: list[Callable[[bytes], None]] = []
        self.file = file
        self.first_byte = threading.Event()  # also set at the end, so that nobody waits in vain
        self.panicked = threading.Event()
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="kprobe-vm console", daemon=True)
        self._thread.start()

    def tail(self, lines: int = 50) -> str:
        """Return the last lines; more of them if the kernel's first message about its end is further back."""
        kept = self._kept()
        if not kept[-1]:
            kept.pop()
        ends = (at for at, line in enumerate(kept) if PANIC.search(line) or OOPS.search(line))
        return "\n".join(kept[min(next(ends, len(kept)), max(len(kept) - lines, 0)) :])

    def find(self, pattern: re.Pattern[str]) -> str:
        """Return the first group of the first match in the kept lines, or ""."""
        for line in self._kept():
            if match := pattern.search(line):
                return str(match.group(1))
        return ""

    def _kept(self) -> list[str]:
        return [*self._lines, _shown(self._partial)]

    def write(self, data: bytes) -> None:
        """Type something."""
        self._socket.sendall(data)

    @contextlib.contextmanager
    def listen(self, listener: Callable[[bytes], None]) -> Iterator[None]:
        """Call `listener` with each piece of output while the context lasts, or until it fails."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    def _watch(self) -> None:
        try:
            with contextlib.closing(_Log(self.file)) as log:
                spawn = fdpexpect.fdspawn(self._socket.fileno(), timeout=None, maxread=65536, use_poll=True)
                spawn.logfile_read = log
                while spawn.expect([_SOME, pexpect.EOF], timeout=None) == 0:
                    self._take(spawn.match.group())
        except OSError:
            pass  # the other end is gone: an ordinary end
        finally:
            self.ended.set()
            self.first_byte.set()

    def _take(self, data: bytes) -> None:
        self.first_byte.set()
        for listener in list(self._listeners):
            try:
                listener(data)
            except Exception:  # the listener may have gone; the guest must not wait for it
                with contextlib.suppress(ValueError):
                    self._listeners.remove(listener)
        *lines, partial = (self._partial + data).split(b"\n")
        self._partial = partial[:LONGEST]
        for raw in lines:
            line = _shown(raw[:LONGEST].rstrip(b"\r"))
            self._lines.append(line)
            if PANIC.search(line):
                self.panicked.set()


def _shown(raw: bytes) -> str:
    """Return a line as text, with control characters escaped."""
    text = raw.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in text)[:LONGEST]
