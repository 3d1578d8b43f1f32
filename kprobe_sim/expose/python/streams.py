"""open() for simulated files: CPython's own buffering and text layers over a raw file that calls the simulator.

So an error surfaces at write, flush or close exactly where it does on a real file.
"""

from __future__ import annotations

import errno
import functools
import io
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kprobe_sim.named_tuple import NamedTuple

if TYPE_CHECKING:
    from kprobe_sim.expose.python.calls import Calls
    from kprobe_sim.tree.files.node import Node

_BLOCK_SIZE = 4096  # st_blksize of tracefs
_LARGE_BUFFERS = 1 << 17  # io.DEFAULT_BUFFER_SIZE of Pythons that use the larger of the two
_BUFFER_SIZE = max(_BLOCK_SIZE, io.DEFAULT_BUFFER_SIZE) if io.DEFAULT_BUFFER_SIZE >= _LARGE_BUFFERS else _BLOCK_SIZE

Opener = Callable[[Any, int], int]


class OpenArguments(NamedTuple):
    """The arguments of open() after the file."""

    mode: str
    buffering: int
    encoding: str | None
    errors: str | None
    newline: str | None
    closefd: bool
    opener: Opener | None


class RawFile(io.RawIOBase):
    """The counterpart of io.FileIO for simulated files."""

    def __init__(
        self,
        calls: Calls,
        file: Any,
        mode: str = "r",
        closefd: bool = True,
        opener: Opener | None = None,
        known: tuple[str, Node] | None = None,
    ) -> None:
        self._calls = calls
        self._seekable: bool | None = None
        self._fd = -1
        self._is_simulated = True
        self._closefd = closefd
        self._reads, self._writes, flags = _flags(mode)
        self._appends = "a" in mode
        self._creates = "x" in mode
        self.name = file
        if isinstance(file, int):
            self._fd = file
        elif not closefd:
            raise ValueError("Cannot use closefd=False with file name")
        elif opener is None and known is not None:
            self._fd = calls.open_node(file, known, flags)
            if not self._appends and not known[1].is_dir:
                return
        elif opener is None:
            self._fd = calls.open(file, flags, 0o666)
        else:
            self._fd = opener(file, flags)
        try:
            if self._is_directory():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
            if self._appends:
                self._to_end()
        except BaseException:
            if closefd and not isinstance(file, int):
                calls.close(self._fd)
            self._fd = -1
            raise

    def _is_directory(self) -> bool:
        held = self._calls.descriptor(self._fd)  # an opener may return a real file's descriptor
        self._is_simulated = held is not None
        return held.node.is_dir if held is not None else stat.S_ISDIR(self._calls.fstat(self._fd).st_mode)

    def _to_end(self) -> None:
        try:
            self._calls.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            if error.errno != errno.ESPIPE:
                raise

    @property
    def mode(self) -> str:
        """The mode, as io.FileIO shows it."""
        plus = "+" if self._reads and self._writes else ""
        if self._creates:
            return "xb" + plus
        if self._appends:
            return "ab" + plus
        return "rb+" if plus else "rb" if self._reads else "wb"

    @property
    def closefd(self) -> bool:
        """Whether closing this closes the descriptor."""
        return self._closefd

    def readable(self) -> bool:
        if self._fd < 0:
            self._refuse()
        return self._reads

    def writable(self) -> bool:
        if self._fd < 0:
            self._refuse()
        return self._writes

    def seekable(self) -> bool:
        if self._fd < 0:
            self._refuse()
        if self._seekable is None:
            try:
                self._calls.lseek(self._fd, 0, os.SEEK_CUR)
            except OSError:
                self._seekable = False
            else:
                self._seekable = True
        return self._seekable

    def fileno(self) -> int:
        if self._fd < 0:
            self._refuse()
        return self._fd

    def isatty(self) -> bool:
        if self._fd < 0:
            self._refuse()
        return False

    def readinto(self, buffer: Any) -> int | None:
        if self._fd < 0:
            self._refuse()
        if not self._reads:
            raise io.UnsupportedOperation("File not open for reading")
        with memoryview(buffer) as view, view.cast("B") as octets:
            try:
                data = self._calls.read(self._fd, len(octets))
            except BlockingIOError:
                return None
            octets[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int | None:
        if self._fd < 0:
            self._refuse()
        if not self._writes:
            raise io.UnsupportedOperation("File not open for writing")
        try:
            return self._calls.write(self._fd, data)
        except BlockingIOError:
            return None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if self._fd < 0:
            self._refuse()
        return self._calls.lseek(self._fd, offset, whence)

    def tell(self) -> int:
        if self._fd < 0:
            self._refuse()
        return self._calls.lseek(self._fd, 0, os.SEEK_CUR)

    def truncate(self, size: int | None = None) -> int:
        if self._fd < 0:
            self._refuse()
        if not self._writes:
            raise io.UnsupportedOperation("File not open for writing")
        length = self.tell() if size is None else size
        self._calls.ftruncate(self._fd, length)
        return length

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
        finally:
            descriptor, self._fd = self._fd, -1
            # undoing the patches closed the descriptor; its number may now belong to another file
            if descriptor >= 0 and self._closefd and not (self._is_simulated and self._calls.descriptors.is_over):
                self._calls.close(descriptor)

    def __repr__(self) -> str:
        if self.closed:
            return "<_io.FileIO [closed]>"
        return f"<_io.FileIO name={self.name!r} mode={self.mode!r} closefd={self._closefd}>"

    def _refuse(self) -> None:
        raise ValueError("I/O operation on closed file")


@functools.cache
def _flags(mode: str) -> tuple[bool, bool, int]:
    """Return (reads, writes, flags of open(2)) for a mode of FileIO.  Raises ValueError for an invalid mode."""
    letters = set(mode) - {"b"}
    kinds = letters & set("rwax")
    if len(kinds) != 1 or letters - set("rwax+") or len(mode) != len(set(mode)):
        raise ValueError(f"invalid mode: {mode}")
    kind, plus = kinds.pop(), "+" in mode
    reads, writes = plus or kind == "r", plus or kind != "r"
    flags = os.O_CLOEXEC | (os.O_RDWR if plus else os.O_RDONLY if kind == "r" else os.O_WRONLY)
    flags |= {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}[kind]
    return reads, writes, flags


@functools.cache
def _is_binary(mode: str) -> bool:
    """Return whether a mode of open() is binary.  Raises ValueError for an invalid mode."""
    text, binary = "t" in mode, "b" in mode
    if set(mode) - set("rwaxbt+") or len(set(mode)) != len(mode):
        raise ValueError(f"invalid mode: {mode!r}")
    if text and binary:
        raise ValueError("can't have text and binary mode at once")
    if len(set(mode) & set("rwax")) != 1:
        raise ValueError("must have exactly one of create/read/write/append mode")
    return binary


def _refuse_text_arguments(encoding: str | None, errors: str | None, newline: str | None) -> None:
    """Raise ValueError for arguments of open() that are only for text."""
    for name, value in (("an encoding", encoding), ("an errors", errors), ("a newline", newline)):
        if value is not None:
            raise ValueError(f"binary mode doesn't take {name} argument")


def _buffered(raw: Any, mode: str, size: int) -> io.BufferedIOBase:
    if "+" in mode:
        return io.BufferedRandom(raw, size)
    return io.BufferedReader(raw, size) if "r" in mode else io.BufferedWriter(raw, size)


def open_stream(calls: Calls, file: Any, arguments: OpenArguments, known: tuple[str, Node] | None = None) -> io.IOBase:
    """Do what io.open() does, on a raw file of the simulator; `known` is what `Calls.find` returned for it."""
    mode, buffering, encoding, errors, newline, closefd, opener = arguments
    binary = _is_binary(mode)
    if binary:
        _refuse_text_arguments(encoding, errors, newline)
    raw: Any = RawFile(calls, file, mode.replace("t", ""), closefd, opener, known)
    result: Any = raw
    try:
        line_buffering = buffering == 1 and not binary
        if buffering < 0 or buffering == 1:
            buffering = _BUFFER_SIZE
        if buffering == 0:
            if binary:
                return raw  # type: ignore[no-any-return]
            raise ValueError("can't have unbuffered text I/O")
        result = _buffered(raw, mode, buffering)
        if binary:
            return result  # type: ignore[no-any-return]
        result = io.TextIOWrapper(result, io.text_encoding(encoding, 3), errors, newline, line_buffering)
        result.mode = mode
        return result  # type: ignore[no-any-return]
    except BaseException:
        result.close()
        raise
