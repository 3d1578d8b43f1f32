"""The tracefs of a guest: the interface `kprobe.tracefs.tracefs.Tracefs`, and the system calls below it."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import NoReturn

from kprobe_vm.agent.channel import Channel, Request
from kprobe_vm.agent.frames import FRAME_CAP, WINDOW, Data, Op
from kprobe_vm.errors import MachineDied

TRACING = "/sys/kernel/tracing"
_STAT = struct.Struct("<6q")
_PIECE = 32768  # bytes of one read(2) by the agent of what it streams
_AT_ONCE = FRAME_CAP - 4096  # bytes of one write(2) through the channel


def refuse(request: Request, path: str) -> NoReturn:
    """Raise the kernel's refusal of a request, with the path."""
    raise OSError(-request.result, os.strerror(-request.result), path)


class GuestStat:
    """What stat(2) in the guest said."""

    __slots__ = ("gid", "inode", "mode", "modified", "size", "uid")

    def __init__(self, raw: bytes) -> None:
        self.mode, self.size, self.uid, self.gid, self.inode, self.modified = _STAT.unpack(raw)


class GuestFile:
    """One open file description in the guest; every method is one system call, and may be called from any thread."""

    __slots__ = ("_blocked", "_channel", "_closed", "_deadline", "_fd", "_lock", "path")

    def __init__(self, channel: Channel, fd: int, path: str, deadline: float) -> None:
        self._channel = channel
        self._fd = fd.to_bytes(4, "little")
        self._deadline = deadline
        self._blocked: set[Request] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.path = path

    def read(self, size: int, timeout: float | None = None) -> bytes:
        """One read(2) of at most `size` bytes (no more than 1 MiB); blocks as the kernel does.

        Raise `TimeoutError` after `timeout` seconds, `InterruptedError` if `interrupt` or `close` came.
        """
        request = self._blocking(Op.READ, min(size, _AT_ONCE).to_bytes(4, "little"), timeout)
        return request.tail

    def write(self, data: bytes, timeout: float | None = None) -> int:
        """One write(2); return the bytes that the kernel took; blocks as the kernel does.

        Raise `ValueError` if they don't fit one request (1 MiB), and what `read` does of `timeout` and `interrupt`.
        """
        return self._blocking(Op.WRITE, data, timeout).result

    def lseek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """One lseek(2); return the new position."""
        return self._call(Op.LSEEK, struct.pack("<iq", whence, offset)).result

    def poll(self, timeout: float | None = 0.0, events: int = 0x001) -> int:
        """One poll(2); return the mask that holds, 0 after `timeout` seconds.  The default asks for POLLIN."""
        milliseconds = -1 if timeout is None else max(0, int(timeout * 1000))
        patience = None if timeout is None else max(0.0, timeout) + self._deadline
        request = self._blocking(Op.POLL, struct.pack("<Ii", events, milliseconds), patience)
        return request.result

    def interrupt(self) -> None:
        """End every call that blocks on this file with EINTR."""
        with self._lock:
            blocked = list(self._blocked)
        for request in blocked:
            self._channel.cancel(request)

    def close(self) -> None:
        """One close(2), after interrupting what blocks; closing twice is EBADF as in the kernel."""
        with self._lock:
            self._closed = True
        self.interrupt()
        self._call(Op.CLOSE, b"")

    def __enter__(self) -> GuestFile:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._closed:
            self.close()

    def _call(self, op: Op, payload: bytes) -> Request:
        request = self._channel.call(op, self._fd, payload, deadline=self._deadline)
        if request.result < 0:
            refuse(request, self.path)
        return request

    def _blocking(self, op: Op, payload: bytes, timeout: float | None) -> Request:
        with self._lock:
            request = self._channel.send(op, self._fd, payload)
            self._blocked.add(request)
        try:
            if not self._channel.wait(request, timeout):
                # data that it has read meanwhile must not be lost
                self._channel.settle(request, f"{op.name.lower()} has not ended in {timeout or 0:.1f} s")
                if request.result == -errno.EINTR:
                    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), self.path)
        finally:
            with self._lock:
                self._blocked.discard(request)
        if request.result < 0:
            refuse(request, self.path)
        return request


class GuestStream:
    """A file that the agent reads continuously, such as trace_pipe: each piece arrives as the kernel returns it.

    At most 256 KiB wait here unread; then the agent stops reading until they are taken (a look lets some more in).
    """

    __slots__ = ("_channel", "_closed", "_deadline", "_looking", "_request", "on_its_way", "path")

    def __init__(self, channel: Channel, request: Request, path: str, deadline: float) -> None:
        self.on_its_way = WINDOW + _PIECE
        self._channel = channel
        self._request = request
        self._deadline = deadline
        self._looking = threading.Lock()  # one look at a time
        self._closed = False
        self.path = path

    def read(self, timeout: float | None = None) -> bytes:
        """Return what has arrived, waiting for the first piece; b"" at the end of the file or after `close`.

        Raise `TimeoutError` if nothing arrived in `timeout` seconds (with 0: if the kernel itself has nothing now),
        `OSError` if the kernel refused a read.
        """
        request = self._request
        has_looked = timeout is None or timeout > 0
        while True:
            with request.changed:
                came = request.changed.wait_for(self._has_come, timeout)
                if self._closed:
                    return b""
                data = bytes(request.out.pop(Data.OUT, b""))
                if request.done and request.tail:
                    data, request.tail = data + request.tail, b""
            if data:
                self._channel.give_credit(request)
                return data
            if request.failure is not None:
                raise request.failure.again()
            if came:
                break
            if has_looked:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), self.path)
            has_looked = not self._ask_for_more()
        if request.result < 0:
            refuse(request, self.path)
        return b""

    def _has_come(self) -> bool:
        request = self._request
        return bool(request.out.get(Data.OUT)) or request.done or request.failure is not None or self._closed

    def _ask_for_more(self) -> bool:
        """Make the agent look; return whether data or the end arrived, which another thread may take."""
        what = f"the look at {self.path} has not ended in {self._deadline:.0f} s"
        try:
            with self._looking:
                look = self._channel.send(Op.LOOK, self._request.id.to_bytes(4, "little"), stream=self._request)
                if not self._channel.wait_patiently(look, self._deadline):
                    self._channel.settle(look, what)
            if look.result == -errno.ESRCH:
                self._channel.settle(self._request, f"the reading of {self.path} has not ended")
        except MachineDied:
            if self._closed:  # meanwhile, by another thread
                return True
            raise
        if look.result < 0 and look.result != -errno.ESRCH:
            refuse(look, self.path)
        return look.result != 0

    def close(self) -> None:
        """Stop reading and close the file in the guest; return when that is done.  May be called from any thread."""
        request = self._request
        with request.changed:
            self._closed = True  # again if an interrupt came before the end
            request.changed.notify_all()
        with contextlib.suppress(MachineDied):  # then there is nothing left to close
            self._channel.settle(request, f"the reading of {self.path} has not ended")

    def __enter__(self) -> GuestStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class GuestTracefs:
    """The tracefs of a running guest; paths are relative to it.  With root "/" it is the guest's whole file tree.

    Refusals are `OSError` with the guest kernel's errno and the path as given; a machine that is gone is `MachineDied`.
    """

    def __init__(self, channel: Channel, root: str = TRACING, *, deadline: float = 60.0) -> None:
        self._channel = channel
        self._root = root.rstrip("/")
        self._deadline = deadline
        self._log: GuestFile | None = None

    def read(self, path: str) -> bytes:
        """Return the whole file; `OSError` (EFBIG) if that is more than 256 MiB."""
        request = self._call(Op.READ_FILE, path)
        return bytes(request.out.get(Data.OUT, b"")) + request.tail

    def read_each(self, paths: Iterable[str], *, most: int = 0) -> dict[str, bytes]:
        """Return the files that can be read, by path, in one request; with `most` only one read(2) of that length each.

        `most` is at most 32 KiB.
        """
        distinct = list(dict.fromkeys(paths))
        names = b"".join(map(self._path, distinct))
        if len(names) > _AT_ONCE:
            raise ValueError(f"{len(distinct)} paths don't fit one request")
        texts = self._ask("", Op.READ_EACH, most.to_bytes(4, "little"), names).texts
        return {path: text for path, text in zip(distinct, texts, strict=True) if text is not None}

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        """Exactly one open(2), one write(2) and one close(2); `truncate` adds O_TRUNC at open."""
        flags = os.O_WRONLY | (os.O_TRUNC if truncate else 0)
        name = self._path(path)
        if len(data) > _AT_ONCE:
            raise ValueError(f"{len(data)} bytes don't fit one write")
        self._ask(path, Op.WRITE_FILE, struct.pack("<II", flags, len(name)), name, data)

    def listdir(self, path: str = "") -> list[str]:
        """Return the names in a directory, sorted."""
        request = self._call(Op.LIST, path)
        return sorted(os.fsdecode(name) for name in bytes(request.out.get(Data.OUT, b"")).split(b"\0") if name)

    def exists(self, path: str) -> bool:
        """Whether the path is there."""
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def stat(self, path: str) -> GuestStat:
        """One stat(2)."""
        return GuestStat(self._call(Op.STAT, path).tail)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        """One mkdir(2)."""
        self._call(Op.MKDIR, path, mode.to_bytes(4, "little"))

    def rmdir(self, path: str) -> None:
        """One rmdir(2)."""
        self._call(Op.RMDIR, path)

    def unlink(self, path: str) -> None:
        """One unlink(2)."""
        self._call(Op.UNLINK, path)

    def truncate(self, path: str, length: int = 0) -> None:
        """One truncate(2)."""
        self._call(Op.TRUNCATE, path, length.to_bytes(8, "little", signed=True))

    def open(self, path: str, flags: int, mode: int = 0) -> GuestFile:
        """One open(2); raise the kernel's refusal."""
        request = self._call(Op.OPEN, path, struct.pack("<II", flags & 0xFFFFFFFF, mode))
        return GuestFile(self._channel, request.result, path, self._deadline)

    def stream(self, path: str) -> GuestStream:
        """Open a file to be read as it grows."""
        request = self._channel.send(Op.STREAM, self._path(path))
        if not self._channel.wait_started(request, self._deadline):
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path)
        if request.done and request.result < 0:
            refuse(request, path)
        return GuestStream(self._channel, request, path, self._deadline)

    def threads(self, pid: int) -> list[int]:
        """Return the thread ids of a process in the guest; raise `ProcessLookupError` if there is none."""
        try:
            names = GuestTracefs(self._channel, "/proc", deadline=self._deadline).listdir(f"{pid}/task")
        except FileNotFoundError:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), f"/proc/{pid}") from None
        return sorted(int(name) for name in names)

    def machine_file(self, path: str) -> bytes:
        """Return a file of the guest by its whole path."""
        return GuestTracefs(self._channel, "/", deadline=self._deadline).read(path.lstrip("/"))

    def kallsyms(self) -> bytes:
        """Return the guest's /proc/kallsyms."""
        return GuestTracefs(self._channel, "/proc", deadline=self._deadline).read("kallsyms")

    def btf(self) -> bytes:
        """Return the BTF of the guest's kernel, b"" if it has none."""
        return self._of_sys("kernel/btf/vmlinux")

    def blacklist(self) -> bytes:
        """Return the list of ranges in which no kprobe may stand, b"" if the kernel doesn't show it."""
        return self._of_sys("kernel/debug/kprobes/blacklist")

    def kernel_log(self) -> Callable[[], list[str]]:
        """Return a function that returns new lines of the guest's /dev/kmsg; no lines if it can't be read."""
        try:
            if self._log is None:
                device = GuestTracefs(self._channel, "/dev", deadline=self._deadline)
                self._log = device.open("kmsg", os.O_RDONLY | os.O_NONBLOCK)
            log = self._log
            log.lseek(0, os.SEEK_END)
        except OSError:
            return list

        def lines() -> list[str]:
            entries: list[str] = []
            while True:
                try:
                    record = log.read(8192)
                except BrokenPipeError:  # the oldest are overwritten
                    continue
                except OSError:
                    return entries
                entries.append(record.partition(b";")[2].partition(b"\n")[0].decode(errors="replace"))

        return lines

    def _of_sys(self, path: str) -> bytes:
        try:
            return GuestTracefs(self._channel, "/sys", deadline=self._deadline).read(path)
        except FileNotFoundError:
            return b""

    def ping(self) -> float:
        """Return the seconds of a round trip to the agent."""
        start = time.perf_counter()
        self._channel.call(Op.PING, deadline=self._deadline)
        return time.perf_counter() - start

    def close(self) -> None:
        """Nothing to release here: the machine owns the connection."""

    def _path(self, path: str) -> bytes:
        if "\0" in path:
            raise ValueError("embedded null byte")
        full = f"{self._root}/{path}" if path else self._root or "/"
        return os.fsencode(full) + b"\0"

    def _call(self, op: Op, path: str, before: bytes = b"") -> Request:
        return self._ask(path, op, before, self._path(path))

    def _ask(self, path: str, op: Op, *parts: bytes) -> Request:
        try:
            request = self._channel.call(op, *parts, deadline=self._deadline)
        except TimeoutError:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path) from None
        except OSError as error:  # too much data
            raise OSError(error.errno, error.strerror, path) from None
        if request.result < 0:
            refuse(request, path)
        return request
