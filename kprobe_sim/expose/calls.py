"""The functions of `os`, for simulated paths and descriptors; whatever else they get goes to the originals."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kprobe_sim.expose.descriptors import Description, Descriptors
from kprobe_sim.expose.machine import DEBUG, TRACING, Machine, normal
from kprobe_sim.expose.real import REAL
from kprobe_sim.node import DirNode, Node, refuse

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

BLOCK_SIZE = 4096
_DEVICE = 0x0C


class Entry:
    """What os.scandir() yields: an os.DirEntry of a simulated directory."""

    def __init__(self, calls: Calls, directory: str, name: str) -> None:
        self.name = name
        self.path = posixpath.join(directory, name)
        self._calls = calls

    def inode(self) -> int:
        return self.stat().st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISDIR(self.stat().st_mode)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return stat.S_ISREG(self.stat().st_mode)

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._calls.stat(self.path)

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


class Entries:
    """What os.scandir() returns: an iterator that can be closed."""

    def __init__(self, entries: Iterator[Any]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def close(self) -> None:
        self._entries = iter(())

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Calls:
    """The patched functions; each method is named as the function of `os` that it stands for."""

    def __init__(
        self,
        kernel: SimulatedKernel,
        machine: Machine,
        original: Mapping[str, Callable[..., Any]],
        started: float = 0.0,
    ) -> None:
        self._kernel = kernel
        self._machine = machine
        self._original = original
        self.descriptors = Descriptors(kernel)
        self._table = self.descriptors.table
        self._directory: str | None = None  # the working directory, when it is a simulated one
        self._changed: dict[str, tuple[int, int, int]] = {}
        self._time = started

    # where a path leads

    def absolute(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Return a path as an absolute str; None for a descriptor, or what can't be the simulator's."""
        if type(path) is not str:
            if isinstance(path, int):
                return None
            path = os.fsdecode(path)
        where: str = path
        if where[:1] == "/":
            return where
        if dir_fd is not None:
            held = self._table.get(dir_fd)
            return None if held is None else f"{held.path}/{path}"
        if self._directory is not None:
            return f"{self._directory}/{path}"
        if "kernel" in path or "proc" in path:
            return f"{self._original['getcwd']()}/{path}"
        return None

    def find(self, path: Any, dir_fd: int | None = None) -> tuple[str, Node] | None:
        """Return (absolute path, node) of a simulated file; None if it isn't the simulator's."""
        if isinstance(path, int):
            held = self._table.get(path)
            return None if held is None else (held.path, held.node)
        where = self.absolute(path, dir_fd)
        if not where or "\0" in where:
            return None
        try:
            with self._kernel.condition:
                node = self._machine.find(where)
        except OSError as error:
            error.filename = path
            raise
        return None if node is None else (normal(where), node)

    def inside(self, path: Any, dir_fd: int | None = None) -> bool:
        """True if a path is the simulator's, whether or not there is such a file."""
        try:
            return self.find(path, dir_fd) is not None
        except OSError:
            return True

    def is_mount_point(self, path: Any) -> bool:
        """True for the directories where tracefs and debugfs are mounted."""
        where = self.absolute(path)
        return where is not None and normal(where) in (TRACING, DEBUG, f"{DEBUG}/tracing")

    @property
    def in_simulated_directory(self) -> bool:
        """True while the working directory is a simulated one."""
        return self._directory is not None

    def elsewhere(self, path: Any) -> Any:
        """Return the path to give to an original: relative ones can't be left relative to a simulated directory."""
        if self._directory is None or isinstance(path, int):
            return path
        where = self.absolute(path)
        return path if where is None else normal(where)

    def _parent(self, path: Any, dir_fd: int | None) -> tuple[DirNode, str] | None:
        """Return (directory, name) for a simulated path whose last part needn't exist."""
        where = None if isinstance(path, int) else self.absolute(path, dir_fd)
        if not where:
            return None
        directory, name = posixpath.split(normal(where))
        with self._kernel.condition:
            node = self._machine.find(directory)
        if node is None:
            return None
        if not isinstance(node, DirNode):
            raise refuse(errno.ENOTDIR)
        return node, name

    def named(self, error: OSError, path: Any, other: Any = None) -> OSError:
        """Give an error the path as the caller wrote it."""
        if other is None:
            return OSError(error.errno, error.strerror, path)
        return OSError(error.errno, error.strerror, path, None, other)

    # files

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        try:
            found = self.find(path, dir_fd)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            try:
                self._parent(path, dir_fd)
            except OSError as error:
                raise self.named(error, path) from None
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path) from None
        if found is None:
            return self._original["open"](self.elsewhere(path), flags, mode, dir_fd=dir_fd)  # type: ignore[no-any-return]
        where, node = found
        try:
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise refuse(errno.EEXIST)
            if node.is_dir and (flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_CREAT):
                raise refuse(errno.EISDIR)
            if not node.is_dir and flags & os.O_DIRECTORY:
                raise refuse(errno.ENOTDIR)
            return self.descriptors.open(where, node, flags)
        except OSError as error:
            raise self.named(error, path) from None

    def close(self, fd: int) -> None:
        if fd in self._table:
            self.descriptors.forget(fd)
            REAL.close(fd)
            return
        self._original["close"](fd)

    def closerange(self, fd_low: int, fd_high: int) -> None:
        for descriptor in [number for number in self._table if fd_low <= number < fd_high]:
            self.descriptors.forget(descriptor)
        self._original["closerange"](fd_low, fd_high)

    def dup(self, fd: int) -> int:
        if fd in self._table:
            return self.descriptors.duplicate(fd, REAL.dup(fd))
        return self._original["dup"](fd)  # type: ignore[no-any-return]

    def dup2(self, fd: int, fd2: int, inheritable: bool = True) -> int:
        if fd == fd2 and fd in self._table:
            return fd2
        if fd not in self._table:
            self.descriptors.forget(fd2)
            return self._original["dup2"](fd, fd2, inheritable)  # type: ignore[no-any-return]
        self.descriptors.forget(fd2)
        return self.descriptors.duplicate(fd, REAL.dup2(fd, fd2, inheritable))

    def read(self, fd: int, length: int) -> bytes:
        held = self._table.get(fd)
        if held is None:
            return self._original["read"](fd, length)  # type: ignore[no-any-return]
        if length < 0:
            raise refuse(errno.EINVAL)
        return held.read(fd, length)

    def write(self, fd: int, data: Any) -> int:
        held = self._table.get(fd)
        return self._original["write"](fd, data) if held is None else held.write(bytes(data))

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        held = self._table.get(fd)
        return self._original["pread"](fd, length, offset) if held is None else held.read(fd, length, offset)

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        held = self._table.get(fd)
        return self._original["pwrite"](fd, data, offset) if held is None else held.write(bytes(data), offset)

    def readv(self, fd: int, buffers: Any) -> int:
        held = self._table.get(fd)
        if held is None:
            return self._original["readv"](fd, buffers)  # type: ignore[no-any-return]
        return _scatter(held.read(fd, sum(memoryview(buffer).nbytes for buffer in buffers)), buffers)

    def preadv(self, fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        held = self._table.get(fd)
        if held is None:
            return self._original["preadv"](fd, buffers, offset, flags)  # type: ignore[no-any-return]
        return _scatter(held.read(fd, sum(memoryview(buffer).nbytes for buffer in buffers), offset), buffers)

    def writev(self, fd: int, buffers: Any) -> int:
        held = self._table.get(fd)
        if held is None:
            return self._original["writev"](fd, buffers)  # type: ignore[no-any-return]
        return sum(held.write(bytes(buffer)) for buffer in buffers)  # a file without write_iter gets them one by one

    def lseek(self, fd: int, position: int, whence: int) -> int:
        held = self._table.get(fd)
        return self._original["lseek"](fd, position, whence) if held is None else held.lseek(position, whence)

    def ftruncate(self, fd: int, length: int) -> None:
        held = self._table.get(fd)
        if held is None:
            self._original["ftruncate"](fd, length)
        elif length < 0 or held.opened is None or not held.opened.writable:
            raise refuse(errno.EINVAL)

    def truncate(self, path: Any, length: int) -> None:
        if isinstance(path, int):
            self.ftruncate(path, length)
            return
        found = self.find(path)
        if found is None:
            self._original["truncate"](self.elsewhere(path), length)
        elif found[1].is_dir:
            raise self.named(refuse(errno.EISDIR), path)

    # what there is

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        found = self.find(path, dir_fd)
        if found is None:
            options: dict[str, Any] = {"dir_fd": dir_fd} if dir_fd is not None else {}
            if not follow_symlinks:
                options["follow_symlinks"] = False
            return self._original["stat"](self.elsewhere(path), **options)  # type: ignore[no-any-return]
        return self._status(*found)

    def lstat(self, path: Any, *, dir_fd: int | None = None) -> os.stat_result:
        found = self.find(path, dir_fd)
        if found is None:
            return self._original["lstat"](self.elsewhere(path), dir_fd=dir_fd)  # type: ignore[no-any-return]
        return self._status(*found)

    def fstat(self, fd: int) -> os.stat_result:
        held = self._table.get(fd)
        return self._original["fstat"](fd) if held is None else self._status(held.path, held.node)

    def _status(self, path: str, node: Node) -> os.stat_result:
        mode, uid, gid = self._changed.get(path, (node.mode, 0, 0))
        kind = stat.S_IFDIR if node.is_dir else stat.S_IFREG
        number = hash((path, id(node.identity))) & 0x7FFFFFFF
        when = self._time
        return os.stat_result(
            (kind | mode, number, _DEVICE, 2 if node.is_dir else 1, uid, gid, 0, int(when), int(when), int(when)),
            {
                "st_atime": when,
                "st_mtime": when,
                "st_ctime": when,
                "st_atime_ns": int(when * 1e9),
                "st_mtime_ns": int(when * 1e9),
                "st_ctime_ns": int(when * 1e9),
                "st_blksize": BLOCK_SIZE,
                "st_blocks": 0,
                "st_rdev": 0,
            },
        )

    def access(
        self,
        path: Any,
        mode: int,
        *,
        dir_fd: int | None = None,
        effective_ids: bool = False,
        follow_symlinks: bool = True,
    ) -> bool:
        try:
            found = self.find(path, dir_fd)
        except OSError:
            return False
        if found is None:
            return self._original["access"](  # type: ignore[no-any-return]
                self.elsewhere(path), mode, dir_fd=dir_fd, effective_ids=effective_ids, follow_symlinks=follow_symlinks
            )
        return not mode & os.X_OK or found[1].is_dir  # root may read and write everything

    def listdir(self, path: Any = ".") -> list[Any]:
        found = self.find(path)
        if found is None:
            names: list[Any] = self._original["listdir"](self.elsewhere(path))
            extra = [] if isinstance(path, int | bytes) else self._machine.extra(normal(os.fspath(path) or "."))
            return names + [name for name in extra if name not in names]
        listed = self._names(found[1], path)
        return [os.fsencode(name) for name in listed] if isinstance(path, bytes) else listed

    def _names(self, node: Node, path: Any) -> list[str]:
        if not isinstance(node, DirNode):
            raise self.named(refuse(errno.ENOTDIR), path)
        with self._kernel.condition:
            return list(node.names())

    def scandir(self, path: Any = ".") -> Any:
        path = "." if path is None else path
        found = self.find(path)
        if found is not None:
            shown = found[0] if isinstance(path, int) else os.fsdecode(path)
            return Entries(Entry(self, shown, name) for name in self._names(found[1], path))
        extra = [] if isinstance(path, int | bytes) else self._machine.extra(normal(os.fspath(path) or "."))
        entries = self._original["scandir"](self.elsewhere(path))
        return entries if not extra else Entries(self._with(entries, os.fspath(path), extra))

    def _with(self, entries: Any, path: str, extra: list[str]) -> Iterator[Any]:
        with entries:
            for entry in entries:
                if entry.name not in extra:
                    yield entry
        yield from (Entry(self, path, name) for name in extra)

    # directories

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self._change("mkdir", path, dir_fd, lambda node, name: node.mkdir(name), {"mode": mode})

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._change("rmdir", path, dir_fd, lambda node, name: node.rmdir(name), {})

    def _change(
        self,
        call: str,
        path: Any,
        dir_fd: int | None,
        change: Callable[[DirNode, str], None],
        arguments: dict[str, Any],
    ) -> None:
        try:
            parent = self._parent(path, dir_fd)
            if parent is None and self.find(path, dir_fd) is not None:  # the mount point itself
                raise refuse(errno.EEXIST if call == "mkdir" else errno.EBUSY)
            if parent is not None:
                with self._kernel.condition:
                    found = parent[0].lookup(parent[1])
                    if call == "mkdir" and found is not None:
                        raise refuse(errno.EEXIST)
                    if call == "rmdir" and found is None:
                        raise refuse(errno.ENOENT)
                    if call == "rmdir" and found is not None and not found.is_dir:
                        raise refuse(errno.ENOTDIR)
                    change(*parent)
                return
        except OSError as error:
            raise self.named(error, path) from None
        self._original[call](self.elsewhere(path), **arguments, dir_fd=dir_fd)

    def chdir(self, path: Any) -> None:
        found = self.find(path)
        if found is None:
            self._original["chdir"](self.elsewhere(path))
            self._directory = None
        elif not found[1].is_dir:
            raise self.named(refuse(errno.ENOTDIR), path)
        else:
            self._directory = found[0]

    def fchdir(self, fd: int) -> None:
        if fd in self._table:
            self.chdir(fd)
        else:
            self._original["fchdir"](fd)
            self._directory = None

    def getcwd(self) -> str:
        return self._original["getcwd"]() if self._directory is None else self._directory

    def getcwdb(self) -> bytes:
        return os.fsencode(self.getcwd())

    # attributes

    def chmod(self, path: Any, mode: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        found = self.find(path, dir_fd)
        if found is None:
            self._original["chmod"](self.elsewhere(path), mode, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
            return
        status = self._status(*found)
        self._changed[found[0]] = (mode & 0o7777, status.st_uid, status.st_gid)

    def chown(self, path: Any, uid: int, gid: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        found = self.find(path, dir_fd)
        if found is None:
            self._original["chown"](self.elsewhere(path), uid, gid, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
            return
        status = self._status(*found)
        owner = (status.st_uid if uid == -1 else uid, status.st_gid if gid == -1 else gid)
        self._changed[found[0]] = (stat.S_IMODE(status.st_mode), *owner)

    def fchmod(self, fd: int, mode: int) -> None:
        self.chmod(fd, mode) if fd in self._table else self._original["fchmod"](fd, mode)

    def fchown(self, fd: int, uid: int, gid: int) -> None:
        self.chown(fd, uid, gid) if fd in self._table else self._original["fchown"](fd, uid, gid)

    def descriptor(self, fd: int) -> Description | None:
        """Return what a descriptor stands for, None if it isn't the simulator's."""
        return self._table.get(fd)


def _scatter(data: bytes, buffers: Any) -> int:
    position = 0
    for buffer in buffers:
        with memoryview(buffer) as view, view.cast("B") as octets:
            part = data[position : position + len(octets)]
            octets[: len(part)] = part
            position += len(part)
    return len(data)
