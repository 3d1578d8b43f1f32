"""Files whose text is made anew for each read, and their nodes (simple_read_from_buffer() in fs/libfs.c)."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import ClassVar

from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.tree.files.node import Holder, Node, OpenFile, Seek

Get = Callable[[], bytes]
PutBytes = Callable[[bytes], int | None]  # bytes consumed; None means all of them


class Simple(OpenFile):
    """A file whose text is made anew for each read (simple_read_from_buffer); lseek is default_llseek."""

    def __init__(self, flags: int, get: Get | None, put: PutBytes | None = None) -> None:
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


class Generic(Simple):
    """The same with generic_file_llseek."""

    seek: ClassVar[Seek] = Seek.GENERIC


class Fixed(Simple):
    """A file whose position a write doesn't move."""

    def after_write(self, position: int, written: int) -> int:
        return position


class FixedGeneric(Fixed):
    """The same with generic_file_llseek."""

    seek: ClassVar[Seek] = Seek.GENERIC


class RbSimple(Simple):
    """A switch or a percentage; a write moves the position by one (rb_simple_write, buffer_percent_write)."""

    def after_write(self, position: int, written: int) -> int:
        return position + 1


class Once(Simple):
    """A file that gives its text to a read at position 0, and nothing to any other (event_filter_read, show_header)."""

    def read(self, size: int, position: int) -> bytes:
        return super().read(size, position) if not position else b""


class Unseekable(Simple):
    """A file opened as a stream, or one without llseek: lseek is ESPIPE (trace_marker, saved_cmdlines_size)."""

    seek: ClassVar[Seek] = Seek.NONE


class File(Node):
    """A file of the tree: a mode, and how it opens.

    `truncated` is called when the file is opened for writing with O_TRUNC, and may refuse the open; `holder` counts its
    open files.
    """

    def __init__(
        self, mode: int, opener: Callable[[int], OpenFile], truncated: Callable[[], None] | None, holder: Holder
    ) -> None:
        self.mode = mode
        self._opener = opener
        self._truncated = truncated
        self._holder = holder

    def open(self, flags: int) -> OpenFile:
        if self._truncated is not None and flags & os.O_TRUNC and flags & os.O_ACCMODE != os.O_RDONLY:
            self._truncated()
        opened = self._opener(flags)
        opened.holder = self._holder
        self._holder.open_files += 1
        return opened
