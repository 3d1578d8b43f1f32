"""The effects of opening a file of definitions, before anything is written to it.

- Truncating it (`>`, `"w"`, O_TRUNC) removes all probes that are in it, whoever added them (`probes_open()` in
  kernel/trace/trace_kprobe.c; `dyn_event_open()`; `synth_events_open()`).
- Seeking to its end is EINVAL on every kernel (`seq_lseek()` in fs/seq_file.c knows no SEEK_END).  Python does so for
  the mode "a" (`_io_FileIO___init___impl` in Modules/_io/fileio.c), and so does fopen() of glibc.
"""

from __future__ import annotations

import errno

from kprobe_check.sources.lists import definitions_file
from kprobe_check.statement import APPENDING, TRUNCATING, Position, Statement

LOST = "it first removes all probes that are in the file, whoever added them"
SOUGHT = "whoever opens it so seeks to its end, and the file has none to seek to"

KEEPS = "it adds to what is there, and needs no end"


def truncation(path: str, position: Position, text: str, instead: str) -> Statement:
    """Return the statement for an opening that empties a file of definitions."""
    return Statement(TRUNCATING, text, definitions_file(path), position, instead=instead)


def appending(path: str, position: Position, text: str, instead: str) -> Statement:
    """Return the statement for an opening of a file of definitions that seeks to its end."""
    return Statement(APPENDING, text, definitions_file(path), position, instead=instead)


def opened(statement: Statement) -> tuple[int, str]:
    """Return every kernel's errno and reason for a way to open a file; 0 and "" if it works."""
    return (errno.EINVAL, SOUGHT) if statement.kind == APPENDING else (0, "")
