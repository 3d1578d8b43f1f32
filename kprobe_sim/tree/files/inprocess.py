"""The simulated tracefs for Python code in the same process: the Tracefs methods, and the system calls below them."""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kprobe_sim.builds.prototypes import CType, Prototype
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.tree.files.node import DirNode, Node, OpenFile
from kprobe_sim.tree.files.operation import Listener, notify
from kprobe_sim.tree.files.patience import patience

_CHUNK = 1 << 16
_CHECKED = os.O_CREAT | os.O_DIRECTORY


class _Symbols(Protocol):
    version: int

    def kallsyms(self) -> bytes: ...

    def blacklist(self) -> bytes: ...


class _Probes(Protocol):
    @property
    def printed(self) -> list[str]: ...


class _Profile(Protocol):
    @property
    def has_all_symbols(self) -> bool: ...

    def prototype(self, name: str) -> Prototype | None: ...
    def member(self, function: str, at: int, path: str) -> tuple[tuple[int, ...], CType] | None: ...


class Kernel(Protocol):
    """What the tracefs needs of its kernel."""

    @property
    def condition(self) -> threading.Condition: ...

    @property
    def root(self) -> DirNode: ...

    @property
    def symbols(self) -> _Symbols: ...

    @property
    def profile(self) -> _Profile: ...

    @property
    def probes(self) -> _Probes: ...

    @property
    def listener(self) -> Listener | None: ...

    def threads(self, pid: int) -> list[int]: ...


K = TypeVar("K", bound=Kernel)


class SimFile:
    """One open file: position, waiting and errors as the system calls have them.

    Every method raises OSError with the kernel's errno and the path.
    """

    def __init__(self, kernel: Kernel, path: str, opened: OpenFile) -> None:
        self._kernel = kernel
        self._acquire, self._release = kernel.condition.acquire, kernel.condition.release
        self._path = path
        self._open: OpenFile | None = opened
        self._position = 0
        self._waiting = False
        self._sleepers = 0  # threads in a read or poll of this file

    def read(self, size: int = _CHUNK, timeout: float | None = None) -> bytes:
        """read(2): at most `size` bytes, b"" at the end; waits for data unless opened with O_NONBLOCK.

        With a `timeout` in seconds it raises TimeoutError if no data comes in time.  The system call keeps waiting, and
        the next read gets its result.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self._acquire()
        try:
            while True:
                opened = self._open
                if opened is None or not opened.readable:
                    raise refuse(errno.EBADF)
                read = opened.again if self._waiting else opened.read
                try:
                    data = read(size, self._position)
                except BlockingIOError:
                    if opened.flags & os.O_NONBLOCK:
                        raise
                    self._waiting = True
                    self._wait(deadline)
                    continue
                self._waiting = False
                self._position += len(data)
                return data
        except OSError as error:
            raise self._named(error) from None
        finally:
            self._release()

    def write(self, data: bytes) -> int:
        """write(2): return how many bytes the kernel took."""
        self._acquire()
        try:
            opened = self._open
            if opened is None or not opened.writable:
                raise refuse(errno.EBADF)
            written = opened.write(data, self._position)
            self._position = opened.after_write(self._position, written)
            notify(self._kernel.listener, "write", self._path, data)
            return written
        except OSError as error:
            notify(self._kernel.listener, "write", self._path, data, error)
            raise self._named(error) from None
        finally:
            self._release()

    def lseek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """lseek(2): return the new position."""
        with self._kernel.condition:
            opened = self._live()
            try:
                self._position = opened.lseek(self._position, offset, whence)
            except OSError as error:
                raise self._named(error) from None
            return self._position

    def poll(self, timeout: float | None = 0, events: int = select.POLLIN) -> int:
        """poll(2): wait up to `timeout` seconds (None means for ever) for one of `events`; return the mask, or 0."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._kernel.condition:
            while True:
                mask = self._live().poll() & (events | select.POLLERR | select.POLLHUP)
                if mask:
                    return mask
                try:
                    self._wait(deadline)
                except TimeoutError:
                    return 0

    def close(self) -> None:
        """close(2): may be called from any thread; a read that waits there ends with EBADF."""
        self._acquire()
        try:
            opened, self._open = self._open, None
            if opened is not None:
                opened.release()
            if self._sleepers:
                self._kernel.condition.notify_all()
        finally:
            self._release()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._open is None

    def __enter__(self) -> SimFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _live(self) -> OpenFile:
        if self._open is None:
            raise self._named(refuse(errno.EBADF))
        return self._open

    def _wait(self, deadline: float | None) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), self._path)
        limit = patience() if left is None else None  # a caller with a timeout waits no longer than that
        self._sleepers += 1
        try:
            if limit is None:
                self._kernel.condition.wait(left)
            else:
                limit.wait(self._kernel.condition, SimTracefs(self._kernel), self._path)
        finally:
            self._sleepers -= 1

    def _named(self, error: OSError) -> OSError:
        error.filename = self._path
        return error


class SimStream:
    """A stream of `trace_pipe`: read until close, which any thread may call."""

    def __init__(self, file: SimFile) -> None:
        self._file = file

    def read(self, timeout: float | None = None) -> bytes:
        """Return the next data; b"" at the end or after close; TimeoutError after `timeout` seconds without data."""
        try:
            return self._file.read(_CHUNK, timeout)
        except OSError as error:
            if self._file.closed and error.errno == errno.EBADF:
                return b""
            raise

    def close(self) -> None:
        """End the stream; a read that waits returns b""."""
        self._file.close()

    def __enter__(self) -> SimStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SimTracefs(Generic[K]):
    """The tracefs of a simulated kernel, in the shape of `kprobe.Tracefs`.

    Paths are relative to the mount point.  Every method raises OSError with the kernel's errno and the path.

    It offers the optional capabilities `threads`, `kallsyms`, `has_all_symbols`, `blacklist`, `kernel_log`,
    `prototype`, `member`, `open` and `refused`: the last `write` that was refused, and its data.
    """

    def __init__(self, kernel: K) -> None:
        self.kernel: K = kernel
        self.refused: tuple[OSError, bytes] | None = None
        self._acquire, self._release = kernel.condition.acquire, kernel.condition.release

    def read(self, path: str) -> bytes:
        """Return the whole text of a file; waits where the kernel's file does (trace_pipe)."""
        chunks = []
        with self.open(path, os.O_RDONLY) as file:
            while chunk := file.read(_CHUNK):
                chunks.append(chunk)
        return b"".join(chunks)

    def write(self, path: str, data: bytes, *, truncate: bool = False) -> None:
        """Do one open(2), one write(2) and one close(2); `truncate` adds O_TRUNC to the open."""
        try:
            with self.open(path, os.O_WRONLY | (os.O_TRUNC if truncate else 0)) as file:
                file.write(data)
        except OSError as error:
            self.refused = error, data
            raise

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, in the order of the kernel's readdir."""
        with self.kernel.condition:
            node = self._node(path)
            if not isinstance(node, DirNode):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            return list(node.names())

    def exists(self, path: str) -> bool:
        """Return True if there is a file or directory of that path."""
        with self.kernel.condition:
            try:
                self._node(path)
            except OSError:
                return False
            return True

    def is_dir(self, path: str) -> bool:
        """Return True if the path is a directory."""
        with self.kernel.condition:
            return self._node(path).is_dir

    def mode(self, path: str) -> int:
        """Return the permission bits of a file or directory."""
        with self.kernel.condition:
            return self._node(path).mode

    def mkdir(self, path: str) -> None:
        """Make a directory (an instance)."""
        self._change(path, lambda directory, name: directory.mkdir(name), exists=errno.EEXIST)
        notify(self.kernel.listener, "mkdir", path)

    def rmdir(self, path: str) -> None:
        """Remove a directory (an instance)."""
        self._change(path, lambda directory, name: directory.rmdir(name), exists=None)
        notify(self.kernel.listener, "rmdir", path)

    def stream(self, path: str) -> SimStream:
        """Open a file to be read as its data comes, `trace_pipe` above all."""
        return SimStream(self.open(path, os.O_RDONLY))

    def open(self, path: str, flags: int) -> SimFile:
        """open(2) with any flags; return the open file."""
        self._acquire()
        try:
            try:
                node = self._node(path)
            except FileNotFoundError:
                if flags & os.O_CREAT and self.is_dir(path.rpartition("/")[0]):
                    raise OSError(errno.EACCES, os.strerror(errno.EACCES), path) from None
                raise
            try:
                if flags & _CHECKED:
                    _check(node, flags)
                opened = SimFile(self.kernel, path, node.open(flags))
                if flags & os.O_TRUNC:
                    notify(self.kernel.listener, "open", path)
                return opened
            except OSError as error:
                if flags & os.O_TRUNC:
                    notify(self.kernel.listener, "open", path, b"", error)
                raise OSError(error.errno, error.strerror, path) from None
        finally:
            self._release()

    def threads(self, pid: int) -> list[int]:
        """Return the thread ids of a simulated process (its /proc/PID/task); ENOENT if there is none."""
        threads = self.kernel.threads(pid)
        if not threads:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), f"/proc/{pid}/task")
        return threads

    def kallsyms(self) -> bytes:
        """Return the text of the simulated machine's /proc/kallsyms."""
        return self.kernel.symbols.kallsyms()

    @property
    def has_all_symbols(self) -> bool:
        """Whether kallsyms gives the sizes of functions that traces show: not if any were declared or left out."""
        return self.kernel.profile.has_all_symbols and not self.kernel.symbols.version

    def blacklist(self) -> bytes:
        """Return the text of debugfs' kprobes/blacklist."""
        return self.kernel.symbols.blacklist()

    def kernel_log(self) -> Callable[[], list[str]]:
        """Return a function that returns the lines that were added to the kernel's log (dmesg) since."""
        printed = self.kernel.probes.printed
        known = len(printed)
        return lambda: printed[known:]

    def prototype(self, name: str) -> Prototype | None:
        """Return a function's parameters, each with its name, and its return type; None if no BTF has it.

        A type is its text, its kind, its bytes, and whether it has a sign (`kprobe_sim.builds.prototypes.CType`).
        """
        return self.kernel.profile.prototype(name)

    def member(self, function: str, parameter: int, path: str) -> tuple[tuple[int, ...], CType] | None:
        """Return the offsets of a member in what a parameter points to, and its type; None if no BTF has it.

        They are bytes from each pointer on the way of `path`: f_path.dentry.d_name.name of a struct file *.
        """
        return self.kernel.profile.member(function, parameter, path)

    def _node(self, path: str) -> Node:
        node: Node = self.kernel.root
        for name in path.split("/"):
            if not name or name == ".":
                continue
            if not isinstance(node, DirNode):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            entry = node.lookup(name)
            if entry is None:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = entry
        return node

    def _change(self, path: str, change: Callable[[DirNode, str], None], exists: int | None) -> None:
        parent, _, name = path.rstrip("/").rpartition("/")
        with self.kernel.condition:
            try:
                directory = self._node(parent)
                if not isinstance(directory, DirNode):
                    raise refuse(errno.ENOTDIR)
                entry = directory.lookup(name)
                if entry is not None and exists is not None:
                    raise refuse(exists)
                if entry is None and exists is None:
                    raise refuse(errno.ENOENT)
                if entry is not None and not entry.is_dir:
                    raise refuse(errno.ENOTDIR)
                change(directory, name)
            except OSError as error:
                raise OSError(error.errno, error.strerror, path) from None


def _check(node: Node, flags: int) -> None:
    if flags & os.O_CREAT and flags & os.O_EXCL:
        raise refuse(errno.EEXIST)
    if flags & os.O_DIRECTORY and not node.is_dir:
        raise refuse(errno.ENOTDIR)
