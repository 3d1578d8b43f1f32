"""Words as trace_get_user() takes them from a write: blanks skipped, one word at a time."""

from __future__ import annotations

import errno

from kprobe_sim.language.primitives.kstrto import kstrtoul
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.named_tuple import NamedTuple

_NUMBER_SIZE = 66  # kstrtoul_from_user copies no more
BLANKS = b" \t\n\v\f\r"


class Word(NamedTuple):
    """The next word of a write, and the bytes consumed with it, including the blank that ends it."""

    text: bytes  # b"" if only blanks were written
    consumed: int


def next_word(data: bytes, limit: int) -> Word:
    """Take the next word from `data`; raise OSError EINVAL if it is longer than `limit` bytes."""
    start = 0
    while start < len(data) - 1 and data[start] in BLANKS:
        start += 1
    if not data or data[start] in BLANKS or not data[start]:
        return Word(b"", start + 1)
    end = start
    while end < len(data) and data[end] not in BLANKS and data[end]:
        end += 1
    if end - start > limit:
        raise refuse(errno.EINVAL)
    return Word(data[start:end], min(end + 1, len(data)))


def number_from_user(data: bytes) -> int:
    """Read a write as one decimal number (kstrtoul_from_user); raise OSError EINVAL or ERANGE."""
    return kstrtoul(data[:_NUMBER_SIZE].split(b"\0", 1)[0].decode("latin-1"), 10)


def as_file(name: str) -> str:
    """Return the file name, as os.fsdecode gives it, of a name in the kernel's text, read as latin-1: the same bytes.

    A name in kprobe_events may have the letters of latin-1 above 0x7f (include/linux/ctype.h, lib/ctype.c).
    """
    return name if name.isascii() else name.encode("latin-1").decode("utf-8", "surrogateescape")


def of_file(name: str) -> str:
    """Return the name of which `as_file` made a file name; any other name is returned as it is."""
    if name.isascii():
        return name
    try:
        return name.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:  # a lone surrogate, which stands for no byte
        return name
