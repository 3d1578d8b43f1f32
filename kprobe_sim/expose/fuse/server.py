"""The simulated tracefs as a FUSE file system: the server that answers the kernel's requests.

It speaks to /dev/fuse itself, with the standard library alone.  The well-kept binding, mfusepy, was tried first, and
failed: poll(2) and epoll on a waiting `trace_pipe` never wake (it has a `poll` operation but no way to notify), a
blocked read learns of its caller's signal only through a private part of the binding, and it mounts by itself, so a
server outside the user namespace of `kprobe-sim run` can't be handed a descriptor.

One thread answers.  A read that must wait is parked; it is answered when data comes, or with EINTR when its caller
gets a signal.  The kernel may not cache negative entries, nor entries and attributes in directories that come and go.

docs/evidence/ways.md lists what a FUSE mount can't do as tracefs does.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.expose.fuse import wire
from kprobe_sim.expose.fuse.arrivals import Arrivals
from kprobe_sim.expose.fuse.callers import caller, waits
from kprobe_sim.expose.fuse.nodes import NodeTable, is_apart
from kprobe_sim.expose.fuse.polls import Polls
from kprobe_sim.expose.fuse.positions import Positions
from kprobe_sim.expose.fuse.splice import Splices
from kprobe_sim.expose.fuse.wire import FuseRequest, InitFlag, Opcode, OpenFlag
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.tree.files.node import DirNode, OpenFile, Seek

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

_REQUESTED = InitFlag.ATOMIC_O_TRUNC | InitFlag.BIG_WRITES | InitFlag.PARALLEL_DIROPS | InitFlag.MAX_PAGES
_LASTING = 3600  # seconds for which the kernel may cache what can't change
_SIZE_ALONE = 35  # from this minor version on (Linux 5.16) a notice of a size leaves other attributes valid
_DIRECT, _UNSEEKABLE = OpenFlag.DIRECT_IO | OpenFlag.NOFLUSH, OpenFlag.NONSEEKABLE
_ENDLESS = (Seek.SEQ, Seek.TRACING)  # files that refuse SEEK_END: the kernel must ask each time


class _Parked(NamedTuple):
    """A read that waits for data."""

    unique: int
    node: int
    opened: OpenFile
    size: int
    position: int
    is_spliced: bool


class FuseServer:
    """Answers the requests of one mount from a simulated kernel.

    `descriptor` is an open /dev/fuse for mount(2), which the server owns from now on.  `seen` is called with the pid
    and path of each open(2) before the file is opened.  `root` is the tree to serve (default: the kernel's tracefs),
    `owner` the uid and gid of its files.
    """

    def __init__(
        self,
        kernel: SimulatedKernel,
        descriptor: int,
        seen: Callable[[int, str], None] | None = None,
        *,
        root: DirNode | None = None,
        owner: tuple[int, int] = (0, 0),
    ) -> None:
        self._kernel = kernel
        self._descriptor = descriptor
        self._seen = seen
        self._owner = owner
        self._nodes = NodeTable(root or kernel.root)
        self._handles: dict[int, OpenFile | list[tuple[int, str, bool]]] = {}
        self._next_handle = 1
        self._parked: list[_Parked] = []
        self._polls = Polls()
        self._positions = Positions()
        self._changed: dict[str, tuple[int, int, int]] = {}  # path: mode, uid, gid after chmod and chown
        self._started = time.time()
        self._minor = 0  # of the protocol that the kernel speaks
        self._acquire, self._release_lock = kernel.condition.acquire, kernel.condition.release
        self._splices = Splices(self._send)
        self._waker = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._ended = False
        self._answers: dict[int, Callable[[FuseRequest], bytes | None]] = {
            Opcode.LOOKUP: lambda request: self._entry(request.node, request.name()),
            Opcode.GETATTR: self._getattr,
            Opcode.SETATTR: self._setattr,
            Opcode.MKDIR: self._mkdir,
            Opcode.RMDIR: self._rmdir,
            Opcode.OPEN: self._open,
            Opcode.READ: self._read,
            Opcode.WRITE: self._write,
            Opcode.RELEASE: self._release,
            Opcode.RELEASEDIR: self._release,
            Opcode.OPENDIR: self._opendir,
            Opcode.READDIR: self._readdir,
            Opcode.POLL: self._poll,
            Opcode.LSEEK: self._seek,
            Opcode.STATFS: lambda _: wire.statfs(),
            **dict.fromkeys((Opcode.FLUSH, Opcode.FSYNCDIR, Opcode.DESTROY), lambda _: b""),
            Opcode.FSYNC: _no_fsync,
            Opcode.INIT: self._init,
            Opcode.FORGET: self._forget,
            Opcode.BATCH_FORGET: self._forget,
            Opcode.INTERRUPT: self._interrupt,
        }

    def serve(self) -> None:
        """Answer until the file system is unmounted or `stop` is called."""
        os.set_blocking(self._descriptor, False)
        buffer = bytearray(wire.REQUEST_SIZE)
        view = memoryview(buffer)
        take = io.FileIO(self._descriptor, "r+b", closefd=False).readinto
        arrivals = Arrivals.of(self._descriptor, self._waker)
        with self._kernel.condition:
            unsubscribe = self._kernel.machine.subscribe(self._wake)
        try:
            while not self._ended:
                if (self._waker, select.POLLIN) in arrivals.wait():
                    os.eventfd_read(self._waker)
                    self._retry()
                    continue
                try:
                    if not take(buffer):  # the caller is gone
                        continue
                except OSError as error:
                    if error.errno in (errno.ENODEV, errno.ECONNABORTED):  # unmounted while requests were pending
                        return
                    if error.errno == errno.ENOENT:  # as above
                        continue
                    raise
                self._send(self._reply(FuseRequest.parse(view)))
        finally:
            with self._kernel.condition:
                unsubscribe()
            self._close()

    def stop(self) -> None:
        """End `serve`.  Any thread or signal handler may call this."""
        self._ended = True
        os.eventfd_write(self._waker, 1)

    def _close(self) -> None:
        os.close(self._descriptor)  # every waiting request ends with ECONNABORTED
        with self._kernel.condition:
            for opened in self._handles.values():
                if isinstance(opened, OpenFile):
                    opened.release()
        self._handles.clear()

    def _wake(self) -> None:
        if self._parked or self._polls:
            os.eventfd_write(self._waker, 1)

    def _reply(self, request: FuseRequest) -> bytes:
        answer = self._answers.get(request.opcode)
        if answer is None:
            return wire.refusal(request.unique, wire.NOT_MADE.get(request.opcode, errno.ENOSYS))
        self._acquire()
        try:
            body = answer(request)
        except OSError as error:
            return wire.refusal(request.unique, error.errno or errno.EIO)
        except Exception:  # a bug of the simulator: this caller gets an error, the next an answer
            import traceback

            traceback.print_exc(file=sys.stderr)
            return wire.refusal(request.unique, errno.EIO)
        finally:
            self._release_lock()
        return b"" if body is None else wire.reply(request.unique, body)

    def _send(self, message: bytes) -> None:
        if not message:
            return
        try:
            os.write(self._descriptor, message)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # nobody waits for it now
                raise

    # names

    def _entry(self, parent: int, name: str) -> bytes:
        number = self._nodes.look_up(parent, name)
        if number is None:
            raise refuse(errno.ENOENT)
        seconds = 0 if self._nodes.changes(parent) or is_apart(name) else _LASTING
        self._splices.before_attributes(number)
        return wire.entry(number, self._attributes(number), seconds, self._lasting(number))

    def _attributes(self, number: int) -> wire.Attributes:
        node = self._nodes.node(number)
        kind = stat.S_IFDIR if node.is_dir else stat.S_IFREG
        mode, uid, gid = self._changed.get(self._nodes.path(number), (node.mode, *self._owner))
        return wire.Attributes(self._nodes.inode(number), kind | mode, node.links, uid, gid, self._started)

    def _lasting(self, number: int) -> int:
        # at SEEK_END the kernel must ask, so that it can be refused; a notice of the size makes it ask
        keeps = self._minor >= _SIZE_ALONE and self._nodes.stays(number) and not self._splices.is_asked(number)
        is_kept = self._nodes.path(number) not in self._changed and (keeps or self._nodes.is_dir(number))
        return _LASTING if is_kept else 0

    def _getattr(self, request: FuseRequest) -> bytes:
        flags, _, handle = wire.GETATTR_IN.unpack_from(request.body)
        if flags & wire.GETATTR_FH:
            opened = self._handles.get(handle)
            if isinstance(opened, OpenFile):
                opened.lseek(0, 0, os.SEEK_END)
            self._splices.mark_stale(request.node)
        else:
            self._splices.before_attributes(request.node)
        return wire.attributes_reply(self._attributes(request.node), self._lasting(request.node))

    def _setattr(self, request: FuseRequest) -> bytes:
        values = wire.SETATTR_IN.unpack_from(request.body)
        now = self._attributes(request.node)
        mode, uid, gid = stat.S_IMODE(now.mode), now.uid, now.gid
        if values[0] & wire.SETATTR_MODE:
            mode = stat.S_IMODE(values[11])
        if values[0] & wire.SETATTR_UID:
            uid = values[13]
        if values[0] & wire.SETATTR_GID:
            gid = values[14]
        if (mode, uid, gid) != (stat.S_IMODE(now.mode), now.uid, now.gid):
            self._changed[self._nodes.path(request.node)] = (mode, uid, gid)
        self._splices.mark_stale(request.node)
        return wire.attributes_reply(self._attributes(request.node), 0)  # truncate(2) is accepted, without effect

    def _directory(self, number: int) -> DirNode:
        node = self._nodes.node(number)
        if not isinstance(node, DirNode):
            raise refuse(errno.ENOTDIR)
        return node

    def _mkdir(self, request: FuseRequest) -> bytes:
        name = request.name(wire.MKDIR_IN.size)
        self._directory(request.node).mkdir(name)
        return self._entry(request.node, name)

    def _rmdir(self, request: FuseRequest) -> bytes:
        directory, name = self._directory(request.node), request.name()
        if directory.lookup(name) is None:
            raise refuse(errno.ENOENT)
        directory.rmdir(name)
        return b""

    def _init(self, request: FuseRequest) -> bytes:
        _, self._minor, _, offered = wire.INIT_IN.unpack_from(request.body)
        return wire.init_reply(offered, _REQUESTED)

    def _forget(self, request: FuseRequest) -> None:
        if request.opcode == Opcode.FORGET:
            self._nodes.forget(request.node, wire.FORGET_IN.unpack_from(request.body)[0])
            return
        for number, lookups in wire.forgotten(request.body):
            self._nodes.forget(number, lookups)

    def _opendir(self, request: FuseRequest) -> bytes:
        self._directory(request.node)
        return wire.opened(self._keep([]), 0)

    def _readdir(self, request: FuseRequest) -> bytes:
        handle, offset, size, *_ = wire.TRANSFER_IN.unpack_from(request.body)
        entries = self._handles[handle]
        assert isinstance(entries, list)
        if offset == 0:  # also after rewinddir(3): list the current entries
            directory = self._directory(request.node)
            entries[:] = [(1, ".", True), (2, "..", True)]
            for name in directory.names():
                node = directory.lookup(name)
                if node is not None:
                    entries.append((len(entries) + 1, name, node.is_dir))
        return wire.directory(entries[offset:], size)

    # open files

    def _keep(self, opened: OpenFile | list[tuple[int, str, bool]]) -> int:
        handle = self._next_handle
        self._next_handle += 1
        self._handles[handle] = opened
        return handle

    def _file(self, handle: int) -> OpenFile:
        opened = self._handles[handle]
        assert isinstance(opened, OpenFile)
        return opened

    def _open(self, request: FuseRequest) -> bytes:
        flags, _ = wire.OPEN_IN.unpack_from(request.body)
        if self._seen is not None:
            self._seen(request.pid, self._nodes.path(request.node))
        opened = self._nodes.node(request.node).open(flags)
        if flags & os.O_DIRECT:  # after the open, like do_dentry_open() in fs/open.c
            opened.release()
            raise refuse(errno.EINVAL)
        how = _DIRECT
        if opened.seek is Seek.NONE:
            how |= _UNSEEKABLE  # not STREAM: saved_cmdlines_size still has a position
        if opened.readable or opened.seek in _ENDLESS:
            self._splices.opened(request.node, appends=bool(flags & os.O_APPEND))
        return wire.opened(self._keep(opened), how)

    def _release(self, request: FuseRequest) -> bytes:
        (handle,) = wire.HANDLE_IN.unpack_from(request.body)
        opened = self._handles.pop(handle, None)
        self._positions.forget(handle)
        if isinstance(opened, OpenFile):
            opened.release()
            if opened.readable or opened.seek in _ENDLESS:
                self._splices.closed(request.node, appends=bool(opened.flags & os.O_APPEND))
            if self._polls:
                self._polls.closed(opened)
        return b""

    def _read(self, request: FuseRequest) -> bytes | None:
        handle, position, size, how, _, flags, _ = wire.TRANSFER_IN.unpack_from(request.body)
        opened = self._file(handle)
        opened.flags = opened.flags & ~os.O_NONBLOCK | flags & os.O_NONBLOCK  # fcntl may have changed it
        is_spliced = not how & wire.READ_LOCKOWNER
        try:
            if is_spliced:
                return self._splices.read(request.node, opened, size, position)
            self._splices.refresh(request.node)
            start = self._positions.begin(handle, position)
            data = opened.read(size, start)
            self._positions.end(handle, position, len(data), start + len(data))
            return data
        except BlockingIOError:
            if flags & os.O_NONBLOCK or (is_spliced and not waits(request.pid, position)):
                raise
            self._parked.append(_Parked(request.unique, request.node, opened, size, position, is_spliced))
            return None

    def _write(self, request: FuseRequest) -> bytes:
        handle, position, size, *_ = wire.TRANSFER_IN.unpack_from(request.body)
        opened = self._file(handle)
        if opened.seek is Seek.NONE:  # trace_marker: the entry carries the writer's name
            self._kernel.writer = caller(request.pid)
        start = wire.TRANSFER_IN.size
        begin = self._positions.begin(handle, position)
        written = opened.write(bytes(request.body[start : start + size]), begin)
        self._positions.end(handle, position, written, opened.after_write(begin, written))
        return wire.TWO_WORDS.pack(written, 0)

    def _poll(self, request: FuseRequest) -> bytes:
        handle, poll_handle, flags, _ = wire.POLL_IN.unpack_from(request.body)
        opened = self._file(handle)
        self._splices.refresh(request.node)
        return self._polls.answer(opened, poll_handle, flags)

    def _seek(self, request: FuseRequest) -> bytes:
        """Refuse SEEK_DATA and SEEK_HOLE, the only requests here: an empty file has neither."""
        opened = self._file(wire.HANDLE_IN.unpack_from(request.body)[0])
        raise refuse(errno.ENXIO if opened.seek in (Seek.DEFAULT, Seek.GENERIC) else errno.EINVAL)

    # waiting

    def _interrupt(self, request: FuseRequest) -> None:
        (unique,) = wire.HANDLE_IN.unpack_from(request.body)
        for parked in self._parked:
            if parked.unique == unique:
                self._parked.remove(parked)
                self._send(wire.refusal(unique, errno.EINTR))
                return

    def _retry(self) -> None:
        """Answer waiting reads for which data has come, and notify the kernel of the files that it polls."""
        messages: list[bytes] = []
        with self._kernel.condition:
            waiting, self._parked = self._parked, []
            for parked in waiting:
                try:
                    messages.append(wire.reply(parked.unique, self._read_again(parked)))
                except BlockingIOError:
                    self._parked.append(parked)
                except OSError as error:
                    messages.append(wire.refusal(parked.unique, error.errno or errno.EIO))
            messages += self._polls.notices()
        for message in messages:
            self._send(message)

    def _read_again(self, parked: _Parked) -> bytes:
        _, node, opened, size, position, is_spliced = parked
        return self._splices.again(node, opened, size, position) if is_spliced else opened.again(size, position)


def _no_fsync(_: FuseRequest) -> bytes:
    """Refuse fsync(2): in tracefs only directories have it (vfs_fsync_range() in fs/sync.c)."""
    raise refuse(errno.EINVAL)
