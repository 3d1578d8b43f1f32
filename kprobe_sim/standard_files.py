"""Standard output and standard error of the command, which may be closed, full, or a pipe without a reader."""

from __future__ import annotations

import os
import sys

OK, NO_OUTPUT = 0, 1
BROKEN_PIPE = 141  # 128 + SIGPIPE


def fill() -> bool:
    """Open the standard files that the process lacks (`>&-`), so that no other file takes their numbers.

    Returns False without a standard output.  A command that is run has them closed, as this process had.
    """
    has_output = sys.stdout is not None
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest free number
    if sys.stderr is None:  # print() would use standard output instead
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    return has_output


def say(text: str) -> None:
    """Print a text on standard error, and ignore errors."""
    if sys.stderr is None:  # print() would use standard output instead
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _give_up(2)


def show(text: str | bytes) -> int:
    """Write to standard output; return the exit status, which isn't 0 if that fails."""
    try:
        if isinstance(text, bytes):
            sys.stdout.buffer.write(text)
        else:
            print(text)
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout.fileno())  # nothing more will be printed, not at exit either
        if isinstance(error, BrokenPipeError):  # the reader is gone
            return BROKEN_PIPE
        say(f"kprobe-sim: standard output: {error.strerror}")
        return NO_OUTPUT
    return OK


def _give_up(number: int) -> None:
    opened = os.open(os.devnull, os.O_WRONLY)
    os.dup2(opened, number)
    os.close(opened)
