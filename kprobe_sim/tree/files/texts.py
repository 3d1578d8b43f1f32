"""Directories and files whose entries and texts come from functions."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import ClassVar

from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.tree.files.node import DirNode, Node, OpenFile, Seek


class Directory(DirNode):
    """A directory whose entries a function returns."""

    def __init__(self, mode: int, entries: Callable[[], dict[str, Node]]) -> None:
        super().__init__(mode)
        self._entries = entries

    def lookup(self, name: str) -> Node | None:
        return self._entries().get(name)

    def names(self) -> Iterable[str]:
        return list(self._entries())


class _OpenText(OpenFile):
    seek: ClassVar[Seek] = Seek.SEQ

    def __init__(self, flags: int, get: Callable[[], bytes]) -> None:
        super().__init__(flags)
        self._get = get
        self._text = b""

    def read(self, size: int, position: int) -> bytes:
        if position == 0:
            self._text = self._get()
        return self._text[position : position + size]


class TextFile(Node):
    """A file that shows what `get` returned at the last read from the start."""

    def __init__(self, get: Callable[[], bytes], mode: int = 0o444) -> None:
        super().__init__(mode)
        self._get = get

    def open(self, flags: int) -> OpenFile:
        return _OpenText(flags, self._get)


class Unknown(Node):
    """A file of unknown content: a read is ENOSYS.  An open isn't: after that, FUSE would open no file at all."""

    def __init__(self) -> None:
        super().__init__(0o444)

    def open(self, flags: int) -> OpenFile:
        return _OpenUnknown(flags)


class _OpenUnknown(OpenFile):
    def read(self, size: int, position: int) -> bytes:
        raise refuse(errno.ENOSYS)


class Missing(Node):
    """A file that the simulated kernel lacks and this machine has: an open is ENOENT."""

    def __init__(self) -> None:
        super().__init__(0o444)

    def open(self, flags: int) -> OpenFile:
        raise refuse(errno.ENOENT)
