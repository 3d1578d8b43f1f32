"""The sources of traces: files or standard input; text, compressed with gzip or zstd or not, or a trace.dat."""

from __future__ import annotations

import errno
import os
import stat
import sys
import zlib
from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from kprobe_text.pages.dat.cursor import FileBytes

PIECE = 1 << 16  # bytes that are read at once, at most
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
STEP = 4096  # bytes that are unpacked at once: zstd can turn them into a thousand times as many
TRACE_DAT = b"\x17\x08\x44tracing"
UTF_16 = (b"\xff\xfe#\0", b"\xff\xfe \0", b"\xfe\xff\0#", b"\xfe\xff\0 ")  # either order, before # or a blank
OTHERS = {  # files that aren't text -> what to do with them
    b"PERFILE2": "is a perf.data: perf script -i FILE | kprobe parse",
    b"\xfd7zXZ": "is packed by xz: xzcat FILE | kprobe parse",
    **dict.fromkeys(UTF_16, "is UTF-16: iconv -f UTF-16 -t UTF-8 FILE | kprobe parse"),
}

MAGIC = (GZIP, ZSTD, TRACE_DAT, *OTHERS)


class NotText(Exception):
    """A file that isn't trace text; the text says what it is."""


class Source:
    """A file to read; `name` is "-" for standard input.  Raise `OSError` if it can't be opened.

    `is_live` if it is a pipe or the like, where a read returns what has been written so far.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        if name == "-" and sys.stdin is None:
            raise OSError(errno.EBADF, "it is closed", "standard input")
        self._descriptor = sys.stdin.fileno() if name == "-" else os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        self._took = 0
        self._all = 0  # bytes that were read
        self._start = 0
        self.is_live = not stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._first: bytes | None = None
        self._ahead: Iterator[bytes] | None = None  # text that was examined in part
        self._copy: IO[bytes] | None = None  # copies of what can't be read in any order
        if name == "-" and not self.is_live:
            self._start = os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def rewind(self) -> None:
        """Go back to where a file that isn't live began."""
        os.lseek(self._descriptor, self._start, os.SEEK_SET)
        self._first, self._ahead, self._took = None, None, 0

    def opening(self) -> bytes:
        """Return the beginning of the unpacked text of a file that isn't live; b"" if it can't be read."""
        try:
            return next(self.pieces(), b"")
        except (OSError, NotText):
            return b""
        finally:
            self.rewind()

    @property
    def took(self) -> int:
        """Return the number of bytes read since the last call."""
        took, self._took = self._took, 0
        return took

    def _read(self) -> bytes:
        piece = os.read(self._descriptor, PIECE)
        self._took += len(piece)
        self._all += len(piece)
        return piece

    def close(self) -> None:
        """Close the file."""
        if self._copy is not None:
            self._copy.close()
        if self.name != "-":
            os.close(self._descriptor)

    def trace_dat(self) -> FileBytes | None:
        """Return the bytes of the file if it is a trace.dat, packed or not, else None; raise `OSError`, `NotText`.

        They can be read until this is closed.  Those of a pipe, or packed ones, are in a temporary file until then.
        """
        first = self._opening()
        if first.startswith((GZIP, ZSTD)):
            found = self._packed_dat()
            return None if found is None else _bytes(self._copied(found, is_packed=True), self._all)
        if not first.startswith(TRACE_DAT):
            return None
        try:
            if not self.is_live and os.lseek(self._descriptor, 0, os.SEEK_CUR) == len(first):
                return _bytes(self._descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.name) from error
        return _bytes(self._copied(self._pieces(), is_packed=False))

    def _copied(self, pieces: Iterator[bytes], *, is_packed: bool) -> int:
        """Write pieces to a file without a name, and return its descriptor."""
        from tempfile import TemporaryFile, gettempdir

        from kprobe_text.pages.bounds import BESIDES, TIMES

        self._copy = TemporaryFile()  # noqa: SIM115 - it is closed with this
        size = 0
        for piece in pieces:
            size += len(piece)
            if is_packed and size > BESIDES + TIMES * self._all:
                words = f"would become more than {size} bytes, of {self._all}"
                raise NotText(f"{self.name} {words}: it may be {TIMES} times as long, and {BESIDES} bytes besides")
            try:
                self._copy.write(piece)
            except OSError as error:
                raise OSError(error.errno, error.strerror, f"{self.name}, for a copy in {gettempdir()}") from error
        self._copy.flush()
        return self._copy.fileno()

    def _packed_dat(self) -> Iterator[bytes] | None:
        pieces = self._pieces()
        begun = next(pieces, b"")
        while TRACE_DAT.startswith(begun) and (piece := next(pieces, b"")):
            begun += piece
        if begun.startswith(TRACE_DAT):
            return chain((begun,), pieces)
        self._ahead = chain((begun,), pieces)
        return None

    def _opening(self) -> bytes:
        if self._first is None:
            try:
                first = self._read()
                while any(magic.startswith(first) and magic != first for magic in MAGIC) and (more := self._read()):
                    first += more
                self._first = first
            except OSError as error:
                raise OSError(error.errno, error.strerror, self.name) from error
        return self._first

    def pieces(self) -> Iterator[bytes]:
        """Yield the text as it comes; raise `OSError`, and `NotText`, also where packed text breaks off."""
        return self._pieces() if self._ahead is None else self._ahead

    def _pieces(self) -> Iterator[bytes]:
        first = self._opening()
        try:
            for magic, words in OTHERS.items():
                if first.startswith(magic):
                    raise NotText(f"{self.name} {words}")
            if first[:2] == GZIP:
                yield from self._unpacked(first)
                return
            if first[:4] == ZSTD:
                yield from self._expanded(first)
                return
            while first:
                yield first
                first = self._read()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.name) from error

    def _unpacked(self, packed: bytes) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(31)
        try:
            while packed:
                if unpacker.eof:  # another member follows
                    unpacker = zlib.decompressobj(31)
                if piece := unpacker.decompress(packed, PIECE):
                    yield piece
                packed = unpacker.unconsumed_tail or unpacker.unused_data or self._read()
        except zlib.error as error:
            raise NotText(f"{self.name} isn't whole gzip: {error}") from error
        if not unpacker.eof:
            raise NotText(f"{self.name} breaks off: its gzip has no end")

    def _expanded(self, packed: bytes) -> Iterator[bytes]:
        try:
            import zstandard
        except ImportError:
            raise NotText(
                f"{self.name} is packed by zstd: zstdcat {self.name} | kprobe parse, or pip install 'kprobe-sim[bulk]'"
            ) from None
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        try:
            while packed:
                if unpacker.eof:  # another frame follows
                    unpacker = zstandard.ZstdDecompressor().decompressobj()
                if piece := unpacker.decompress(packed[:STEP]):
                    yield piece
                packed = unpacker.unused_data + packed[STEP:] or self._read()
        except zstandard.ZstdError as error:
            raise NotText(f"{self.name} isn't whole zstd: {error}") from error
        if not unpacker.eof:
            raise NotText(f"{self.name} breaks off: its zstd has no end")


def _bytes(descriptor: int, packed: int | None = None) -> FileBytes:
    from kprobe_text.pages.dat.cursor import FileBytes

    return FileBytes(descriptor, packed)
