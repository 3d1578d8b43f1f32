"""The file `trace`: its header and its body, and the lines of any trace text."""

from __future__ import annotations

from kprobe.answers.denial import denied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kprobe.tracefs.tracefs import Tracefs


def read_trace(tracefs: Tracefs, path: str) -> bytes:
    """Return the text that the buffer holds now.  Raise `NotPermitted` or `Refused`."""
    try:
        return tracefs.read(path)
    except OSError as error:
        raise denied(tracefs, path, error) from error


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
