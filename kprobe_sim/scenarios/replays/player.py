"""The playing of a listing: runs its commands on its machine, and shows them as on a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kprobe_sim.scenarios.replays.listing import CUT, Listing
from kprobe_sim.scenarios.replays.machine import ListingTracefs
from kprobe_sim.scenarios.replays.shell import Command, Shell

_COUNTS = re.compile(rb"^\d+ events?, \d+ (?:or more )?lost.*\n", re.MULTILINE)
_INTERRUPT = b"^C"  # as a terminal echoes it


class Interrupts:
    """Counts, within `with`, each SIGINT that a Python handler took: `kprobe` handles it and doesn't report it.

    Only the main thread can count; for others `count` stays 0.
    """

    def __init__(self) -> None:
        self._is_main = threading.current_thread() is threading.main_thread()
        self._count = 0

    def __enter__(self) -> Interrupts:
        if self._is_main:
            self._source, sink = os.pipe()
            os.set_blocking(self._source, False)
            os.set_blocking(sink, False)
            self._before = signal.set_wakeup_fd(sink, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_main:
            os.close(signal.set_wakeup_fd(self._before))
            os.close(self._source)

    @property
    def count(self) -> int:
        """The number so far."""
        if self._is_main:
            with contextlib.suppress(BlockingIOError):  # none since the last count
                self._count += os.read(self._source, 1 << 16).count(signal.SIGINT)
        return self._count


class Screen(io.RawIOBase):
    """What a terminal shows: everything written from a listing's first line to its last.

    `unseen` counts the lines after the last.
    """

    def __init__(self, listing: Listing, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._skip = listing.skip
        body = listing.expected.removesuffix(CUT)
        self._left = body.count("\n") if listing.ends == "cut" else None
        self._says_cut = body != listing.expected
        self._pending = b""  # a line without its end
        self.is_over = False
        self.unseen = 0

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: Any) -> int:
        """Show bytes."""
        text = bytes(data)
        if self.is_over:
            return len(text)
        if self._left is None and not self._skip:
            self._write(text)
            return len(text)
        *lines, self._pending = (self._pending + text).split(b"\n")
        for line in lines:
            self._line(line + b"\n")
        return len(text)

    def _line(self, line: bytes) -> None:
        if self._skip:
            self._skip -= 1
        elif self._left is None:
            self._write(line)
        elif self._left:
            self._left -= 1
            self._write(line)
            if not self._left and self._says_cut:
                self._write(CUT.encode())
        else:
            self.unseen += 1


class _Words(io.RawIOBase):
    """What `kprobe` prints besides the trace, without the counts at the end, which the documents' script lacks."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: Any) -> int:
        """Show bytes."""
        text = bytes(data)
        self._screen.write(_COUNTS.sub(b"", text))
        return len(text)


def _text(buffer: Any) -> io.TextIOWrapper:
    """Return a text file that writes through to a binary one."""
    return io.TextIOWrapper(buffer, "utf-8", "surrogateescape", write_through=True)


def play(
    listing: Listing,
    write: Callable[[bytes], None],
    typed: Callable[[str], None] = lambda _: None,
    *,
    is_fast: bool = True,
) -> int:
    """Play a listing; `write` gets what its terminal shows.  Return the number of lines after the listing's end.

    `typed` gets each command before it runs, or all of them first if something else runs in their place.  With
    `is_fast` the listing plays at once, else at the pace of its times.  Raises ValueError if its kernel can't be
    simulated, and KeyboardInterrupt when SIGINT came, even if `kprobe` ended its trace by that.
    """
    screen = Screen(listing, write)
    is_kprobe = listing.run[-1].startswith("./kprobe")
    sent = 0

    def end() -> None:
        nonlocal sent
        if listing.ends == "^C":
            screen.write(_INTERRUPT)
            if listing.expected.endswith("^C\n"):  # the document omits what the program prints then
                screen.write(b"\n")
                screen.is_over = True
        elif listing.ends == "cut":
            screen.is_over = True
        if listing.ends and is_kprobe:
            sent += 1
            os.kill(os.getpid(), signal.SIGINT)

    tracefs = ListingTracefs(listing, end, is_fast=is_fast)
    shell = Shell(tracefs, screen.write, _kprobe, listing.made)
    out, err = _text(screen), _text(_Words(screen))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), Interrupts() as interrupts:
        for line in _lines(listing, tracefs, typed):
            shell.run(line)
            if interrupts.count > sent:  # from somebody else, and `kprobe` ended by it
                raise KeyboardInterrupt
    return screen.unseen


def _lines(listing: Listing, tracefs: ListingTracefs, typed: Callable[[str], None]) -> Iterator[str]:
    """Yield the lines to run; the activity continues after the line that the listing names."""
    is_typed = listing.run == listing.commands
    for line in () if is_typed else listing.commands:
        typed(line)
    for number, line in enumerate(listing.run, 1):
        if is_typed:
            typed(line)
        yield line
        if number == listing.plays:
            while tracefs.go_on():
                pass


def _kprobe() -> Command:
    """Return the command kprobe of this installation.  Raises ValueError if there is none."""
    from importlib.metadata import entry_points

    for point in entry_points(group="kprobe.program", name="main"):
        command: Command = point.load()
        return command
    raise ValueError("the command kprobe isn't installed")
