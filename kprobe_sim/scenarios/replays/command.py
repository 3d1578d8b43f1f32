"""`kprobe-sim replay`: the listings of the documents, shown as their authors saw them."""

from __future__ import annotations

import errno
import os
import sys

from kprobe_sim.scenarios.replays.listing import Listing, documents, find, listings
from kprobe_sim.scenarios.replays.player import play
from kprobe_sim.standard_files import say

_OK, _DIFFERENT, _USAGE, _NO_OUTPUT, _INTERRUPTED, _BROKEN_PIPE = 0, 1, 2, 1, 130, 141


def replay(document: str | None, name: str | None, *, is_list: bool = False, is_fast: bool = False) -> int:
    """Show the listings of a document, or only the named one; return the exit status.

    With `is_list` only list them, those of all documents if none is given.  The status is 1 if a listing differs from
    the document or can't be printed, 2 for an unknown name, 130 after Ctrl-C, 141 when the output's reader is gone.
    """
    try:
        chosen = _chosen(document, name)
    except ValueError as error:
        return _say(str(error), _USAGE)
    terminal = _Terminal()
    try:
        if is_list:
            terminal.write("".join(f"{_row(listing)}\n" for listing in chosen).encode())
            return _OK
        return _show_all(chosen, terminal, is_fast=is_fast)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        if error is not terminal.error:
            raise
        terminal.give_up()
        if isinstance(error, BrokenPipeError):
            return _BROKEN_PIPE
        return _say(f"standard output: {error.strerror}", _NO_OUTPUT)


class _Terminal:
    """Standard output; `error` is the reason why it can no longer be written."""

    def __init__(self) -> None:
        self.error: OSError | None = None

    def write(self, data: bytes) -> None:
        """Write all of it now."""
        try:
            if sys.__stdout__ is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            sys.__stdout__.buffer.write(data)
            sys.__stdout__.flush()
        except OSError as error:
            self.error = error
            raise

    def give_up(self) -> None:
        """Discard what would be written at exit."""
        if sys.__stdout__ is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


def _chosen(document: str | None, name: str | None) -> list[Listing]:
    if document is None:
        return [listing for each in documents() for listing in listings(each)]
    return listings(document) if name is None else [find(document, name)]


def _row(listing: Listing) -> str:
    restored = f" (restored: {', '.join(listing.restored)})" if listing.restored else ""
    differs = f" (differs: {listing.differs})" if listing.differs else ""
    return f"{listing.path:<42} sim:{listing.kernel:<14} {listing.title}{restored}{differs}"


def _show_all(chosen: list[Listing], terminal: _Terminal, *, is_fast: bool) -> int:
    status = _OK
    for number, listing in enumerate(chosen):
        if number:
            terminal.write(b"\n")
        status = max(status, _show(listing, terminal, is_fast=is_fast))
    return status


def _show(listing: Listing, terminal: _Terminal, *, is_fast: bool) -> int:
    terminal.write(f"## {listing.path}: {listing.title} ({listing.where})\n".encode())
    shown = bytearray()

    def write(data: bytes) -> None:
        shown.extend(data)
        terminal.write(data)

    try:
        play(listing, write, lambda line: terminal.write(f"# {line}\n".encode()), is_fast=is_fast)
    except (OSError, ValueError) as error:
        if terminal.error is None:
            return _say(f"{listing.path}: {error}", _DIFFERENT)
    if terminal.error is not None:  # it makes `kprobe` end silently
        raise terminal.error
    if shown == listing.expected.encode():
        return _OK
    return _say(f"{listing.path}: not what the document shows{_why(listing)}", _DIFFERENT)


def _why(listing: Listing) -> str:
    return f": {listing.differs}" if listing.differs else ""


def _say(text: str, status: int) -> int:
    say(f"kprobe-sim: replay: {text}")
    return status
