"""The file `trace`: its header and its body, and the lines of any trace text."""

from __future__ import annotations

import os

from kprobe.kernel.denial import denied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kprobe.tracefs.tracefs import Tracefs
    from kprobe.tracing.remainder import Remainder


MORE = 2  # lines that an entry may have; usually one
SECONDS = 5.0  # seconds for reading a file that may keep growing


def read_trace(tracefs: Tracefs, path: str) -> bytes:
    """Return the text that the buffer holds now.  Raise `NotPermitted` or `Refused`."""
    try:
        return tracefs.read(path)
    except OSError as error:
        raise denied(tracefs, path, error) from error


def read_shared(tracefs: Tracefs, path: str, held: Remainder, clock: Callable[[], float]) -> bytes:
    """Return the text of a buffer with this much in it, which others may fill as fast as it is read.

    Lines are in the order of time: after some seconds, lines for as many entries are enough.
    """
    if not (held.is_counted and hasattr(tracefs, "open")):
        return read_trace(tracefs, path)
    end = clock() + SECONDS
    parts: list[bytes] = []
    lines = 0  # except lines of stacks
    try:
        handle = tracefs.open(path, os.O_RDONLY)
        try:
            while data := handle.read(1 << 16):
                parts.append(data)
                lines += data.count(b"\n") - data.count(b"\n =>")
                if lines > held.entries * MORE and clock() >= end:
                    return b"".join(parts).rpartition(b"\n")[0] + b"\n"
        finally:
            handle.close()
    except OSError as error:
        raise denied(tracefs, path, error) from error
    return b"".join(parts)


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a text that comes in pieces, each with its newline."""
    rest = b""
    for data in chunks:
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest


def split_header(data: bytes) -> tuple[bytes, bytes]:
    """Split the text of a `trace` file into its header lines ("#") and the rest."""
    end = 0
    while data.startswith(b"#", end):
        newline = data.find(b"\n", end)
        end = len(data) if newline < 0 else newline + 1
    return data[:end], data[end:]
