"""The functions of `os` for simulated paths and descriptors; all other calls go to the originals."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

from kprobe_sim.expose.python.descriptors import Description
from kprobe_sim.expose.python.entries import DirectoryEntries, DirectoryEntry
from kprobe_sim.expose.python.machine import normal
from kprobe_sim.expose.python.paths import Paths, is_elsewhere
from kprobe_sim.expose.python.real import REAL
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.tree.files.node import DirNode, Node
from kprobe_sim.tree.files.operation import notify

BLOCK_SIZE = 4096
_DEVICE = 0x0C


class Calls(Paths):
    """The patched functions; each method is named after the function of `os` that it replaces."""

    # files

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        try:
            file = self.find(path, dir_fd)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            try:
                self._parent(path, dir_fd)
            except OSError as error:
                raise self.named(error, path) from None
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path) from None
        if file is None:
            return self._original["open"](self.elsewhere(path), flags, mode, dir_fd=dir_fd)  # type: ignore[no-any-return]
        return self.open_node(path, file, flags)

    def open_node(self, path: Any, file: tuple[str, Node], flags: int) -> int:
        """Open `file`, the absolute path and node that `find` returned for `path`."""
        absolute, node = file
        try:
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise refuse(errno.EEXIST)
            if node.is_dir and (flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_CREAT):
                raise refuse(errno.EISDIR)
            if not node.is_dir and flags & os.O_DIRECTORY:
                raise refuse(errno.ENOTDIR)
            return self.descriptors.open(absolute, node, flags)
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
        return _each(buffers, lambda buffer: _read_into(buffer, lambda size: held.read(fd, size)))

    def preadv(self, fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        held = self._table.get(fd)
        if held is None:
            return self._original["preadv"](fd, buffers, offset, flags)  # type: ignore[no-any-return]
        position = offset

        def read(buffer: Any) -> int:
            nonlocal position
            count = _read_into(buffer, lambda size: held.read(fd, size, position))
            position += count
            return count

        return _each(buffers, read)

    def writev(self, fd: int, buffers: Any) -> int:
        held = self._table.get(fd)
        if held is None:
            return self._original["writev"](fd, buffers)  # type: ignore[no-any-return]
        return _each(buffers, lambda buffer: held.write(bytes(buffer)))

    def pwritev(self, fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        held = self._table.get(fd)
        if held is None:
            return self._original["pwritev"](fd, buffers, offset, flags)  # type: ignore[no-any-return]
        position = offset

        def write(buffer: Any) -> int:
            nonlocal position
            count = held.write(bytes(buffer), position)
            position += count
            return count

        return _each(buffers, write)

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
        file = self.find(path)
        if file is None:
            self._original["truncate"](self.elsewhere(path), length)
        elif file[1].is_dir:
            raise self.named(refuse(errno.EISDIR), path)

    # attributes and listings

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if follow_symlinks and is_elsewhere(path):
            return self._original["stat"](path)  # type: ignore[no-any-return]
        file = self.find(path, dir_fd)
        if file is None:
            options: dict[str, Any] = {"dir_fd": dir_fd} if dir_fd is not None else {}
            if not follow_symlinks:
                options["follow_symlinks"] = False
            return self._original["stat"](self.elsewhere(path), **options)  # type: ignore[no-any-return]
        return self._status(*file)

    def lstat(self, path: Any, *, dir_fd: int | None = None) -> os.stat_result:
        file = self.find(path, dir_fd)
        if file is None:
            return self._original["lstat"](self.elsewhere(path), dir_fd=dir_fd)  # type: ignore[no-any-return]
        return self._status(*file)

    def fstat(self, fd: int) -> os.stat_result:
        held = self._table.get(fd)
        return self._original["fstat"](fd) if held is None else self._status(held.path, held.node)

    def _birth(self, node: Node) -> int:
        """Return a number that tells a directory from an earlier one of the same name."""
        if node.identity is None:
            return 0
        number = self._births.get(node.identity)
        if number is None:
            number = self._births[node.identity] = next(self._numbers)
        return number

    def _status(self, path: str, node: Node) -> os.stat_result:
        mode, uid, gid = self._changed.get(path, (node.mode, 0, 0))
        kind = stat.S_IFDIR if node.is_dir else stat.S_IFREG
        number = hash((path, self._birth(node))) & 0x7FFFFFFF
        when = self._time
        return os.stat_result(
            (kind | mode, number, _DEVICE, node.links, uid, gid, 0, int(when), int(when), int(when)),
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
            file = self.find(path, dir_fd)
        except OSError:
            return False
        if file is None:
            return self._original["access"](  # type: ignore[no-any-return]
                self.elsewhere(path), mode, dir_fd=dir_fd, effective_ids=effective_ids, follow_symlinks=follow_symlinks
            )
        return not mode & os.X_OK or file[1].is_dir  # root may read and write any file

    def listdir(self, path: Any = ".") -> list[Any]:
        file = self.find(path)
        if file is None:
            names: list[Any] = self._original["listdir"](self.elsewhere(path))
            extra = self._extra(path)
            return names + [name for name in _like(path, extra) if name not in names]
        return _like(path, self._names(file[1], path))

    def _names(self, node: Node, path: Any) -> list[str]:
        if not isinstance(node, DirNode):
            raise self.named(refuse(errno.ENOTDIR), path)
        with self._kernel.condition:
            return list(node.names())

    def scandir(self, path: Any = ".") -> Any:
        path = "." if path is None else path
        file = self.find(path)
        if file is not None:
            shown = file[0] if isinstance(path, int) else os.fspath(path)
            return DirectoryEntries(DirectoryEntry(self, shown, name) for name in self._names(file[1], path))
        extra = self._extra(path)
        entries = self._original["scandir"](self.elsewhere(path))
        return entries if not extra else DirectoryEntries(self._with(entries, os.fspath(path), extra))

    def _extra(self, path: Any) -> list[str]:
        return [] if isinstance(path, int) else self._machine.extra(normal(os.fsdecode(path) or "."))

    def _with(self, entries: Any, path: str | bytes, extra: list[str]) -> Iterator[Any]:
        with entries:
            for entry in entries:
                if os.fsdecode(entry.name) not in extra:
                    yield entry
        yield from (DirectoryEntry(self, path, name) for name in extra)

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
                    node = parent[0].lookup(parent[1])
                    if call == "mkdir" and node is not None:
                        raise refuse(errno.EEXIST)
                    if call == "rmdir" and node is None:
                        raise refuse(errno.ENOENT)
                    if call == "rmdir" and node is not None and not node.is_dir:
                        raise refuse(errno.ENOTDIR)
                    change(*parent)
                    notify(self._kernel.listener, call, normal(str(self.absolute(path, dir_fd))))
                return
        except OSError as error:
            raise self.named(error, path) from None
        self._original[call](self.elsewhere(path), **arguments, dir_fd=dir_fd)

    # attributes

    def chmod(self, path: Any, mode: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        file = self.find(path, dir_fd)
        if file is None:
            self._original["chmod"](self.elsewhere(path), mode, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
            return
        status = self._status(*file)
        self._changed[file[0]] = (mode & 0o7777, status.st_uid, status.st_gid)

    def chown(self, path: Any, uid: int, gid: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
        file = self.find(path, dir_fd)
        if file is None:
            self._original["chown"](self.elsewhere(path), uid, gid, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
            return
        status = self._status(*file)
        owner = (status.st_uid if uid == -1 else uid, status.st_gid if gid == -1 else gid)
        self._changed[file[0]] = (stat.S_IMODE(status.st_mode), *owner)

    def fchmod(self, fd: int, mode: int) -> None:
        self.chmod(fd, mode) if fd in self._table else self._original["fchmod"](fd, mode)

    def fchown(self, fd: int, uid: int, gid: int) -> None:
        self.chown(fd, uid, gid) if fd in self._table else self._original["fchown"](fd, uid, gid)

    def descriptor(self, fd: int) -> Description | None:
        """Return the open file of a descriptor; None if the descriptor isn't the simulator's."""
        return self._table.get(fd)


def _each(buffers: Any, transfer: Callable[[Any], int]) -> int:
    """Read or write the buffers one by one, as the kernel does for files without an iterator (do_loop_readv_writev).

    Empty buffers are skipped.  A buffer transferred only in part, or refused, ends the call; those before it count.
    """
    total = 0
    for buffer in buffers:
        size = memoryview(buffer).nbytes
        if not size:
            continue
        try:
            count = transfer(buffer)
        except OSError:
            if total:
                break
            raise
        total += count
        if count != size:
            break
    return total


def _read_into(buffer: Any, read: Callable[[int], bytes]) -> int:
    with memoryview(buffer) as view, view.cast("B") as octets:
        data = read(len(octets))
        octets[: len(data)] = data
    return len(data)


def _like(path: Any, names: list[str]) -> list[Any]:
    """Return the names, as bytes if the path is bytes."""
    shown = path if isinstance(path, int) else os.fspath(path)
    return [os.fsencode(name) for name in names] if isinstance(shown, bytes) else names
