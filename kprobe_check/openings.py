"""What opening a file of definitions does before anything is written to it.

- Truncating it (`>`, `"w"`, O_TRUNC) removes all probes that are in it, whoever added them (`probes_open()` in
  kernel/trace/trace_kprobe.c; `dyn_event_open()`; `synth_events_open()`).
- Seeking to its end is EINVAL on every kernel (`seq_lseek()` in fs/seq_file.c knows no SEEK_END).  Python does so for
  the mode "a" (`_io_FileIO___init___impl` in Modules/_io/fileio.c), and so does fopen() of glibc.
"""

from __future__ import annotations

import errno

from kprobe_check.lists import definitions_file
from kprobe_check.statement import APPENDING, TRUNCATING, Position, Statement

LOST = "it first removes all probes that are in the file, whoever added them"
SOUGHT = "whoever opens it so seeks to its end, and the file has none to seek to"

KEEPS = "it adds to what is there, and needs no end"


def truncation(path: str, position: Position, text: str, instead: str) -> Statement:
    """Return the statement that a file of definitions is opened so that it loses what is in it."""
    return Statement(TRUNCATING, text, definitions_file(path), position, instead=instead)


def appending(path: str, position: Position, text: str, instead: str) -> Statement:
    """Return the statement that a file of definitions is opened by what seeks to its end."""
    return Statement(APPENDING, text, definitions_file(path), position, instead=instead)


def opened(statement: Statement) -> tuple[int, str]:
    """Return every kernel's errno and its reason for how a file is opened; 0 and "" if it can be."""
    return (errno.EINVAL, SOUGHT) if statement.kind == APPENDING else (0, "")
