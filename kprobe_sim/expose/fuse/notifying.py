"""A server that also reports to the kernel's listener which process changed what on the mount."""

from __future__ import annotations

import os
from collections.abc import Callable

from kprobe_sim.expose.fuse import wire
from kprobe_sim.expose.fuse.callers import caller
from kprobe_sim.expose.fuse.server import FuseServer
from kprobe_sim.expose.fuse.wire import FuseRequest
from kprobe_sim.tree.files.operation import Operation

_SHOWN = 60  # characters of a command line


class NotifyingServer(FuseServer):
    """Answers like `FuseServer`, and reports each change, even a refused one, to `kernel.listener`."""

    def _open(self, request: FuseRequest) -> bytes:
        flags, _ = wire.OPEN_IN.unpack_from(request.body)
        if not flags & os.O_TRUNC:
            return super()._open(request)
        return self._reported(request, "open", self._nodes.path(request.node), b"", super()._open)

    def _write(self, request: FuseRequest) -> bytes:
        size, start = wire.TRANSFER_IN.unpack_from(request.body)[2], wire.TRANSFER_IN.size
        data = bytes(request.body[start : start + size])
        return self._reported(request, "write", self._nodes.path(request.node), data, super()._write)

    def _mkdir(self, request: FuseRequest) -> bytes:
        return self._reported(request, "mkdir", self._in(request, wire.MKDIR_IN.size), b"", super()._mkdir)

    def _rmdir(self, request: FuseRequest) -> bytes:
        return self._reported(request, "rmdir", self._in(request, 0), b"", super()._rmdir)

    def _in(self, request: FuseRequest, start: int) -> str:
        return f"{self._nodes.path(request.node)}/{request.name(start)}".lstrip("/")

    def _reported(
        self, request: FuseRequest, what: str, path: str, data: bytes, answer: Callable[[FuseRequest], bytes]
    ) -> bytes:
        number = 0
        try:
            return answer(request)
        except OSError as error:
            number = error.errno or 0
            raise
        finally:
            listener = self._kernel.listener
            if listener is not None:
                listener(Operation(who(request.pid), what, path, data, number))


def who(pid: int) -> str:
    """Return the command line or else the name of a process: "bash tool.sh (pid 4242)"."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().rstrip(b"\0").replace(b"\0", b" ")
    except OSError:
        words = b""
    comm = caller(pid).comm
    text = words.decode("utf-8", "replace") or (comm if isinstance(comm, str) else comm.decode("utf-8", "replace"))
    text = " ".join(text.split())
    return f"{text[:_SHOWN]}{'...' if len(text) > _SHOWN else ''} (pid {pid})"
