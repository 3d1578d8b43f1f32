"""Standard output and standard error of the command, which may be closed, full, or read by nobody any more."""

from __future__ import annotations

import os
import sys

OK, NO_OUTPUT = 0, 1
BROKEN_PIPE = 141  # 128 + SIGPIPE


def fill() -> bool:
    """Open what the process was started without (`>&-`), lest another file become it; return False without a stdout.

    What is opened is closed again in a command that is run: that begins as this process did.
    """
    has_output = sys.stdout is not None
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    if sys.stderr is None:  # print() would take standard output for it
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    return has_output


def say(text: str) -> None:
    """Say something on standard error; if nobody listens, that is no reason to fail."""
    if sys.stderr is None:  # print() would take standard output for it
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _give_up(2)


def show(text: str | bytes) -> int:
    """Write to standard output; return the exit status, which isn't 0 if that can't be."""
    try:
        if isinstance(text, bytes):
            sys.stdout.buffer.write(text)
        else:
            print(text)
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout.fileno())  # nothing more to say, at exit either
        if isinstance(error, BrokenPipeError):  # whoever read it has gone
            return BROKEN_PIPE
        say(f"kprobe-sim: standard output: {error.strerror}")
        return NO_OUTPUT
    return OK


def _give_up(number: int) -> None:
    opened = os.open(os.devnull, os.O_WRONLY)
    os.dup2(opened, number)
    os.close(opened)
