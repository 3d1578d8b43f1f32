"""A Python function as a parser's command: `python -m kprobe_corpus.parsers.adapter MODULE:FUNCTION`.

Other programs' environments may hold this package only for this module, so it imports no others.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, BinaryIO

    Read = Callable[[bytes], Iterable[Mapping[str, Any]]]

STAYS = "KPROBE_STAYS"  # is set if the command answers one text after the other: kprobe test-parser --stay
CRASHED = "crashed"  # the type of a line by which a staying command reports that it failed on a text
# Variables in a command's environment -> the file of the entry
FILES = {
    "KPROBE_TRACE": "trace.txt",
    "KPROBE_FORMATS": "formats",
    "KPROBE_EVENTS": "kprobe_events",
    "KPROBE_DAT": "trace.dat",
}


def answer(read: Read) -> None:
    """Answer with `read`, which returns a text's records as mappings: docs/reference/reader-schema.md.

    The text comes on standard input.  With --stay, each line of standard input names a directory, whose text is
    answered and followed by an empty line.  The variables KPROBE_FORMATS and KPROBE_EVENTS are set anew for each.  An
    exception of `read` ends the program; with --stay it is reported, and the next text is read.
    """
    out = sys.stdout.buffer
    if STAYS not in os.environ:
        _put(out, read(sys.stdin.buffer.read()))
        return
    for line in sys.stdin.buffer:
        directory = os.fsdecode(line.rstrip(b"\n"))
        os.environ.update(files(directory))
        with open(os.path.join(directory, "trace.txt"), "rb") as file:
            text = file.read()
        try:
            _put(out, read(text))
        except Exception as error:  # any exception of a reader: restarting it would take time
            _put(out, [{"type": CRASHED, "text": f"{type(error).__name__}: {error}"}])
        out.write(b"\n")
        out.flush()


def files(directory: str) -> dict[str, str]:
    """Return the variables with an entry's files for a command; missing ones are empty."""
    paths = {name: os.path.join(directory, file) for name, file in FILES.items()}
    return {name: path if os.path.exists(path) else "" for name, path in paths.items()}


def _put(out: BinaryIO, records: Iterable[Mapping[str, Any]]) -> None:
    encode = json.JSONEncoder(separators=(",", ":")).encode
    for record in records:
        out.write(encode(record).encode() + b"\n")


def _main(words: list[str]) -> int:
    module, colon, name = words[0].partition(":") if len(words) == 1 else ("", "", "")
    if not (module and colon and name):
        sys.stderr.write("USAGE: python -m kprobe_corpus.parsers.adapter MODULE:FUNCTION\n")
        return 2
    sys.path.insert(0, os.getcwd())
    answer(getattr(import_module(module), name))
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
