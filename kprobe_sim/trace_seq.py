"""The kernel's buffer for the text of an entry (struct trace_seq).

What doesn't fit is left out, and so is all that follows; the reader then adds a note, if that fits.  Sources:
trace_seq_printf() in kernel/trace/trace_seq.c, s_show() and tracing_read_pipe() in kernel/trace/trace.c of 5.10.262 and
6.1.190.
"""

from __future__ import annotations

from collections.abc import Iterable

_NOTE = b"[LINE TOO BIG]\n"


class Cut(bytes):
    """What fitted of an entry that didn't fit whole."""


def cut(pieces: Iterable[bytes], limit: int) -> Cut:
    """Return what fits into `limit` bytes; a piece is written whole or not at all."""
    text = b""
    for piece in pieces:
        if len(text) + len(piece) > limit:
            break
        text += piece
    return Cut(text + _NOTE if len(text) + len(_NOTE) <= limit else text)
