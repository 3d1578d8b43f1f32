"""The kernel's buffer for the text of an entry (struct trace_seq).

A piece that doesn't fit is left out, with all that follows; the reader then adds a note, if that fits.  Sources:
trace_seq_printf() and trace_seq_putc() in kernel/trace/trace_seq.c, s_show() and tracing_read_pipe() in
kernel/trace/trace.c of 5.10.262 and 6.1.190.
"""

from __future__ import annotations

from collections.abc import Iterable


class Put(bytes):
    """A piece that may fill the buffer to its end; a formatted one leaves a byte for its NUL."""


class Cut(bytes):
    """The part of an entry that fitted."""


_NOTE = Put(b"[LINE TOO BIG]\n")


def _fits(used: int, piece: bytes, size: int) -> bool:
    return used + len(piece) <= size - (not isinstance(piece, Put))


def cut(pieces: Iterable[bytes], size: int) -> bytes:
    """Return what fits into a buffer of `size` bytes, as a `Cut` if something doesn't; pieces are never split."""
    text = b""
    for piece in pieces:
        if not _fits(len(text), piece, size):
            return Cut(text + _NOTE if _fits(len(text), _NOTE, size) else text)
        text += piece
    return text
