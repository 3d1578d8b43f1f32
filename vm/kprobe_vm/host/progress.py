"""Progress messages on standard error: a line that changes on a terminal, plain lines elsewhere.

Whoever asks for something gives a function that takes a line (`Progress`).  Code that can tell more, such as the bytes
of a download, does so with `measured`, whatever that function is.  We use no library: two forms of one line are all
that is needed, and without a terminal libraries print their bars, or nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

Progress = Callable[[str], None]

TICK = 0.2  # seconds between two states on a terminal
PLAIN = 5.0  # and elsewhere
LATER = 1.0  # seconds after which a clone is worth a message
NAME = "kprobe-vm"


class Output(Protocol):
    """What a `ProgressPrinter` needs of a text file."""

    def write(self, text: str, /) -> object:
        """Write it."""

    def flush(self) -> object:
        """Flush it."""

    def isatty(self) -> bool:
        """Whether a line can be overwritten there."""


class ProgressPrinter:
    """A `Progress` that prints: a line for each step, and while one is measured how far it is.

    Steps that end within `after` seconds from now aren't printed, unless more follow.  Any thread may call its methods.
    """

    def __init__(
        self, out: Output | None = None, *, after: float = 0.0, tick: float | None = None, plain: float = PLAIN
    ) -> None:
        self._out = out
        self._is_live = (out or sys.stderr).isatty()
        self._tick = tick or (TICK if self._is_live else plain)
        self._quiet_until = time.monotonic() + after
        self._held: list[str] = []
        self._lock = threading.Lock()
        self._is_dirty = False

    def __call__(self, line: str) -> None:
        """Print a line that stays."""
        with self._lock:
            self._held.append(line)
            if self._quiet() <= 0:
                self._print_held()

    @contextlib.contextmanager
    def measured(self, line: str, state: Callable[[], str]) -> Iterator[None]:
        """Print the step; until the context ends, add what `state` says and how long it has taken."""
        began = time.monotonic()
        ended = threading.Event()
        if not self._is_live:
            self(line)

        def tell() -> None:
            pause = self._quiet() if self._quiet() > 0 else 0.0 if self._is_live else self._tick
            while not ended.wait(max(0.0, pause)):
                words = ", ".join(filter(None, [state(), f"{time.monotonic() - began:.0f} s"]))
                with self._lock:
                    if not self._print_held() or self._is_live:
                        self._print(f"{line}: {words}", stays=not self._is_live)
                pause = self._tick

        thread = threading.Thread(target=tell, name="kprobe-vm progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            if self._is_live:
                self(line)

    def _quiet(self) -> float:
        return self._quiet_until - time.monotonic()

    def _print_held(self) -> bool:
        held, self._held = self._held, []
        for line in held:
            self._print(line, stays=True)
        return bool(held)

    def _print(self, line: str, *, stays: bool) -> None:
        before, after = "\r\x1b[K" if self._is_dirty else "", "\n" if stays else ""
        out = self._out or sys.stderr
        text = f"{NAME}: {line}"
        if not stays:  # a line that wraps can't be overwritten
            text = text[: shutil.get_terminal_size().columns - 1]
        with contextlib.suppress(OSError, ValueError):  # there is no reader
            out.write(f"{before}{text}{after}")
            out.flush()
        self._is_dirty = not stays


def say(text: str) -> None:
    """Print why something fails; where that can't be written, the exit status says so alone."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:  # what it still holds goes nowhere: Python's own flush at the end would make the status 120
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@contextlib.contextmanager
def measured(progress: Progress, line: str, state: Callable[[], str] = str) -> Iterator[None]:
    """Report that a step begins, and how far it is if that can be shown, until the context ends."""
    if isinstance(progress, ProgressPrinter):
        with progress.measured(line, state):
            yield
    else:
        progress(line)
        yield


def bytes_of(done: float, total: float) -> str:
    """Return how far a download is: "12.3 of 26.6 MB"."""
    return f"{done / 1e6:.1f} of {total / 1e6:.1f} MB" if done else ""
