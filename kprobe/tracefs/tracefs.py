"""The interface that this package expects of a tracefs, and this machine's own tracefs."""

from __future__ import annotations

import errno
import os
import select
import time
from _thread import RLock  # as in threading, without importing it

from kprobe.errors import NotPermitted, TracefsMissing

from .mounts import find_tracefs, is_of_the_same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol
else:
    Protocol = object  # importing typing costs as much as the rest of the command's start

READ_SIZE = 65536
LARGEST = 16384  # bytes; one read(2) of trace_pipe gives no more (a page, or two since 6.8)
RECHECK = 0.2  # seconds until a lost wake-up of the kernel's poll, or the end of file, is noticed


class Stream(Protocol):
    """A file that is read as it grows: trace_pipe.  Optional: `capabilities.on_its_way`."""

    def read(self, timeout: float | None = None) -> bytes:
        """Wait for data and return some; b"" at the end of the file or after `close`.

        Raise `TimeoutError` when `timeout` seconds pass with no data (0 means don't wait, None wait for ever), and
        `OSError` with the kernel's errno and the path for anything else.
        """

    def close(self) -> None:
        """End it, from any thread; a `read` that waits returns b""."""


class Handle(Protocol):
    """One open file, at the level of system calls."""

    def read(self, size: int) -> bytes:
        """Do one read(2) of at most `size` bytes; b"" at the end."""

    def write(self, data: bytes) -> int:
        """Do one write(2); return the bytes that the kernel took, which may be fewer."""

    def lseek(self, offset: int, whence: int = 0) -> int:
        """Do one lseek(2); return the new position."""

    def poll(self, timeout: float | None = 0, events: int = 1) -> int:
        """Wait up to `timeout` seconds (for ever if None) for one of `events` (POLLIN); return the mask, 0 for none."""

    def close(self) -> None: ...


class Tracefs(Protocol):
    """A tracefs: the machine's own, a simulated one, or that of a guest.

    Paths are relative to its root ("events/kprobes/myopen/enable"; "" is the root).  Every failure is an `OSError` with
    the kernel's errno and the path.  Optional capabilities: `kprobe.tracefs.capabilities`.
    """

    def read(self, path: str) -> bytes:
        """Return the whole file."""

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        """Do exactly one open(2), one write(2) and one close(2); `truncate` adds O_TRUNC at open."""

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, without . and .., in the order of readdir(3)."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of that path exists; never raise."""

    def mkdir(self, path: str) -> None:
        """Make a directory, which the kernel allows in instances/ only."""

    def rmdir(self, path: str) -> None:
        """Remove a directory with its files; EBUSY while one of them is in use."""

    def stream(self, path: str) -> Stream:
        """Open a file that is read as it grows, such as trace_pipe; EBUSY if it has a reader already."""


class LocalTracefs:
    """The tracefs mounted at a directory of this machine; its methods are those of `Tracefs`.

    The path in an `OSError` is the full one, below `root`.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"LocalTracefs({self.root!r})"

    def full(self, path: str) -> str:
        """Return the path as this machine knows it."""
        return os.path.join(self.root, path) if path else self.root

    def open(self, path: str, flags: int) -> LocalHandle:
        """Do one open(2) with these flags."""
        return LocalHandle(self.full(path), flags)

    def read(self, path: str) -> bytes:
        parts = []
        with self.open(path, os.O_RDONLY) as handle:
            while data := handle.read():
                parts.append(data)
        return b"".join(parts)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        with self.open(path, os.O_WRONLY | (os.O_TRUNC if truncate else os.O_APPEND)) as handle:
            handle.write(data)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(self.full(path))

    def exists(self, path: str) -> bool:
        try:
            os.lstat(self.full(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def mkdir(self, path: str) -> None:
        os.mkdir(self.full(path))

    def rmdir(self, path: str) -> None:
        os.rmdir(self.full(path))

    def stream(self, path: str) -> LocalStream:
        return LocalStream(self.full(path))

    def kallsyms(self) -> bytes:
        """Return this machine's /proc/kallsyms, b"" if that isn't the traced kernel's or can't be read."""
        return self._around("/proc/kallsyms")

    def btf(self) -> bytes:
        """Return the BTF of this machine's kernel, b"" under the same conditions."""
        return self._around("/sys/kernel/btf/vmlinux")

    def blacklist(self) -> bytes:
        """Return this machine's list of ranges closed to kprobes, b"" under the same conditions."""
        return self._around("/sys/kernel/debug/kprobes/blacklist")

    def kernel_log(self) -> Callable[[], list[str]]:
        """Return a function that returns the lines added to this machine's /dev/kmsg; none if it can't be read."""
        if not is_of_the_same(self.root, "/dev/kmsg"):
            return list
        try:
            log = LocalHandle("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            log.lseek(0, os.SEEK_END)
        except OSError:
            return list
        return lambda: list(_records(log))

    def _around(self, path: str) -> bytes:
        if not is_of_the_same(self.root, path):
            return b""
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return b""


def _records(log: LocalHandle) -> Iterator[str]:
    """Yield the texts of the available records: Documentation/ABI/testing/dev-kmsg, Linux 3.5."""
    while True:
        try:
            record = log.read(8192)
        except BrokenPipeError:  # the oldest are overwritten
            continue
        except OSError:
            return
        yield record.partition(b";")[2].partition(b"\n")[0].decode(errors="replace")


class LocalHandle:
    """One open file of this machine; every `OSError` carries the path."""

    _descriptor = -1

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._descriptor = os.open(path, flags | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._descriptor

    def read(self, size: int = READ_SIZE) -> bytes:
        try:
            return os.read(self._descriptor, size)
        except OSError as error:
            raise _with_path(error, self.path) from None

    def read_into(self, buffer: bytearray | memoryview) -> int:
        """Do one read(2) of at most the buffer's size; return the number of bytes read."""
        try:
            return os.readv(self._descriptor, (buffer,))
        except OSError as error:
            raise _with_path(error, self.path) from None

    def write(self, data: bytes) -> int:
        try:
            return os.write(self._descriptor, data)
        except OSError as error:
            raise _with_path(error, self.path) from None

    def lseek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return os.lseek(self._descriptor, offset, whence)
        except OSError as error:
            raise _with_path(error, self.path) from None

    def poll(self, timeout: float | None = 0, events: int = 1) -> int:
        poller = select.poll()
        poller.register(self._descriptor, events)
        ready = poller.poll(None if timeout is None else timeout * 1000)
        return ready[0][1] if ready else 0

    def __enter__(self) -> LocalHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:  # an interrupt may lose it unclosed, and an open file keeps an instance busy
        self.close()


class LocalStream:
    """trace_pipe of this machine.

    A blocking read(2) of trace_pipe can't be ended from another thread, so the file is non-blocking, and `read` waits
    by poll(2) on it and on a pipe that `close` writes to.  A non-blocking trace_pipe never reports its end
    (tracing_wait_pipe: EAGAIN comes first), so the kernel's rule for it is applied here: the end is an empty pipe that
    has been read from before, while tracing_on beside it is 0.
    """

    _wake_read = _wake_write = -1

    def __init__(self, path: str) -> None:
        self.path = path
        self._handle = LocalHandle(path, os.O_RDONLY | os.O_NONBLOCK)
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = RLock()
        self._readers = 0
        self._closed = False
        self._has_read = False
        self._buffers: list[bytearray] = []  # not in use by a read

    def read(self, timeout: float | None = None) -> bytes:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._readers += 1
        try:
            while not self._closed:
                try:
                    data = self._read()
                except BlockingIOError:
                    if self._has_read and self._is_tracing_off():
                        return b""
                else:
                    self._has_read = True
                    return data
                wait = RECHECK if deadline is None else min(RECHECK, deadline - time.monotonic())
                if wait <= 0:
                    raise TimeoutError(errno.ETIMEDOUT, "no data", self.path)
                self._wait(wait)
            return b""
        finally:
            with self._lock:
                self._readers -= 1
                self._release()

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.write(self._wake_write, b".")
            self._release()

    def _read(self) -> bytes:
        """Read the available data, up to READ_SIZE bytes: one read(2) returns a page or two, at a high cost per read.

        The memory is reused: allocating it anew costs more than reading a page.
        """
        buffer = self._buffers.pop() if self._buffers else bytearray(READ_SIZE)
        try:
            filled = more = self._handle.read_into(buffer)
            free = memoryview(buffer)
            while more and len(free := free[more:]) >= LARGEST:
                try:
                    more = self._handle.read_into(free)
                except OSError:  # no data now; any other error comes again at the next read
                    break
                filled += more
            return bytes(memoryview(buffer)[:filled])
        finally:
            self._buffers.append(buffer)

    def _wait(self, seconds: float) -> None:
        poller = select.poll()
        poller.register(self._handle.fileno(), select.POLLIN)
        poller.register(self._wake_read, select.POLLIN)
        poller.poll(seconds * 1000)

    def _is_tracing_off(self) -> bool:
        try:
            with LocalHandle(os.path.join(os.path.dirname(self.path), "tracing_on"), os.O_RDONLY) as handle:
                return handle.read()[:1] == b"0"
        except OSError:
            return False

    def _release(self) -> None:
        """Close the descriptors once no thread waits on them."""
        if self._closed and not self._readers and self._wake_read >= 0:
            self._handle.close()
            self._close_wake()

    def _close_wake(self) -> None:
        descriptors = (self._wake_read, self._wake_write)
        self._wake_read = self._wake_write = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def __del__(self) -> None:
        self._close_wake()


def open_local(argument: str) -> LocalTracefs:
    """Open this machine's tracefs: at the directory `argument`, or, if that is "", by the mount table."""
    if not argument:
        return LocalTracefs(find_tracefs())
    try:
        os.listdir(argument)
    except PermissionError as error:
        raise NotPermitted(argument, error.errno or errno.EACCES, "run it as root") from error
    except OSError as error:
        raise TracefsMissing([(argument, str(error.strerror))]) from error
    return LocalTracefs(argument)


def _with_path(error: OSError, path: str) -> OSError:
    return OSError(error.errno, error.strerror, path)
