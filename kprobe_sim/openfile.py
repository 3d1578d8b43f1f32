"""The kinds of open file that the tracefs tree is made of."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from kprobe_sim.header import header
from kprobe_sim.node import Node, OpenFile, Seek, refuse
from kprobe_sim.render import Renderer
from kprobe_sim.ring import Entry

if TYPE_CHECKING:
    from kprobe_sim.instance import Instance

Get = Callable[[], bytes]
Put = Callable[[bytes], int | None]  # bytes consumed; None: all of them

_PAGE = 4096
_SEQ_LIMIT = _PAGE - 1  # what a trace_seq holds


class Simple(OpenFile):
    """A file whose text is made anew at each read (simple_read_from_buffer)."""

    def __init__(self, flags: int, get: Get | None, put: Put | None) -> None:
        super().__init__(flags)
        self._get = get
        self._put = put

    def read(self, size: int, position: int) -> bytes:
        if self._get is None:
            raise refuse(errno.EINVAL)
        return self._get()[position : position + size]

    def write(self, data: bytes, position: int) -> int:
        if self._put is None:
            raise refuse(errno.EINVAL)
        consumed = self._put(data)
        return len(data) if consumed is None else consumed


class Seq(Simple):
    """A seq_file: its text is made when it is read from the start, and stays as it was then."""

    seek: ClassVar[Seek] = Seek.SEQ
    _snapshot: bytes | None = None

    def read(self, size: int, position: int) -> bytes:
        if self._get is None:
            raise refuse(errno.EINVAL)
        if position == 0 or self._snapshot is None:
            self._snapshot = self._get()
        return self._snapshot[position : position + size]


class Unseekable(Simple):
    """A file opened as a stream: lseek is ESPIPE (trace_marker)."""

    seek: ClassVar[Seek] = Seek.NONE


class Trace(Seq):
    """`trace`: the whole buffer as text, not consumed; a write is taken and ignored."""

    seek: ClassVar[Seek] = Seek.TRACING

    def __init__(self, flags: int, instance: Instance, cpu: int | None) -> None:
        self._instance = instance
        self._cpu = cpu
        self._latency = instance.options["latency-format"]
        super().__init__(flags, self._text, len)

    def _text(self) -> bytes:
        return header(self._instance, self._latency) + b"".join(self._lines())

    def _lines(self) -> Iterator[bytes]:
        instance = self._instance
        renderer = Renderer(instance, self._latency, instance.started)
        annotate = instance.options["annotate"] and any(buffer.overrun for buffer in instance.buffer.cpus)
        started: set[int] = set()
        entries = instance.buffer.pending(self._cpu)
        entry = next(entries, None)
        index = 0
        while entry is not None:
            following = next(entries, None)
            if annotate and entry.cpu not in started:
                started.add(entry.cpu)
                if index > 1:
                    yield b"##### CPU %d buffer started ####\n" % entry.cpu
            yield renderer.line(entry, following, index)
            entry, index = following, index + 1


class TracePipe(OpenFile):
    """`trace_pipe`: consumes what it shows; one opener at a time; never blocks here (the adapter waits)."""

    seek: ClassVar[Seek] = Seek.NONE

    def __init__(self, flags: int, instance: Instance, cpu: int | None) -> None:
        super().__init__(flags)
        instance.open_pipe(cpu)
        self._instance = instance
        self._cpu = cpu
        self._latency = instance.options["latency-format"]
        self._left = b""
        self._has_read = False

    def read(self, size: int, position: int) -> bytes:
        instance = self._instance
        if not self._left:
            if instance.buffer.is_empty(self._cpu):
                # the kernel gives the end only to who has read something, and never with O_NONBLOCK
                if not instance.tracing_on and self._has_read and not self.flags & os.O_NONBLOCK:
                    return b""
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self._has_read = True
            self._fill(min(size, _SEQ_LIMIT))
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    def _fill(self, wanted: int) -> None:
        renderer = Renderer(self._instance, self._latency, self._instance.started)
        lines: list[bytes] = []
        used = 0

        def take(entry: Entry) -> bool:
            nonlocal used
            if used >= wanted:
                return False
            line = renderer.line(entry, None, len(lines))
            if used + len(line) > _SEQ_LIMIT:
                if lines:
                    return False
                line = b"[LINE TOO BIG]\n"
                used = wanted
            lines.append(line)
            used += len(line)
            return True

        self._instance.consume(self._cpu, take)
        self._left = b"".join(lines)

    def poll(self) -> int:
        return 0 if self._instance.buffer.is_empty(self._cpu) else select.POLLIN | select.POLLRDNORM

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._instance.kernel.subscribe(callback)

    def release(self) -> None:
        self._instance.close_pipe(self._cpu)


class File(Node):
    """A file of the tree: a mode, and how it opens.

    `truncated` acts when the file is opened for writing with O_TRUNC, and may refuse the open.
    """

    def __init__(
        self, mode: int, opener: Callable[[int], OpenFile], truncated: Callable[[], None] | None = None
    ) -> None:
        super().__init__(mode)
        self._opener = opener
        self._truncated = truncated

    def open(self, flags: int) -> OpenFile:
        if self._truncated is not None and flags & os.O_TRUNC and flags & os.O_ACCMODE != os.O_RDONLY:
            self._truncated()
        return self._opener(flags)
