"""`kprobe-sim replay`: the listings of the documents, shown as their authors saw them."""

from __future__ import annotations

import sys

from kprobe_sim.replays.listing import Listing, documents, find, listings
from kprobe_sim.replays.player import play

_OK, _DIFFERENT, _USAGE = 0, 1, 2


def replay(document: str | None, name: str | None, *, is_fast: bool) -> int:
    """Show the listings of a document, or the one of that name; return the exit status.

    Without a document list them all.  1 if one isn't shown as the document has it; 2 for names that there aren't.
    """
    try:
        if document is None:
            for each in documents():
                for listing in listings(each):
                    print(_row(listing))
            return _OK
        chosen = listings(document) if name is None else [find(document, name)]
    except ValueError as error:
        print(f"kprobe-sim: replay: {error}", file=sys.stderr)
        return _USAGE
    status = _OK
    for place, listing in enumerate(chosen):
        if place:
            print()
        status = max(status, _show(listing, is_fast=is_fast))
    return status


def _row(listing: Listing) -> str:
    differs = f" (differs: {listing.differs})" if listing.differs else ""
    return f"{listing.path:<42} sim:{listing.kernel:<9} {listing.title}{differs}"


def _show(listing: Listing, *, is_fast: bool) -> int:
    output = sys.stdout.buffer
    print(f"## {listing.path}: {listing.title} ({listing.where})", flush=True)
    for line in listing.commands:
        print(f"# {line}", flush=True)
    shown = bytearray()

    def write(data: bytes) -> None:
        shown.extend(data)
        output.write(data)
        output.flush()

    try:
        play(listing, write, is_fast=is_fast)
    except (OSError, ValueError) as error:
        print(f"kprobe-sim: replay: {listing.path}: {error}", file=sys.stderr)
        return _DIFFERENT
    if shown == listing.expected.encode():
        return _OK
    print(f"kprobe-sim: replay: {listing.path}: not what the document shows", file=sys.stderr)
    return _DIFFERENT
