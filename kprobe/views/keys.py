"""Keys that are pressed on this process's terminal, each as it is pressed; Ctrl-C stays the signal that it is."""

from __future__ import annotations

import os
import select
import termios
import tty
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STDIN = 0


class Keys:
    """Within `with`, tells which keys were pressed; the terminal is left as it was found.

    Where standard input is no terminal, or belongs to another job of the shell, no key is seen, and nothing is changed.
    """

    def __init__(self, number: int = STDIN) -> None:
        self._number = number
        self._old: list[Any] | None = None

    def __enter__(self) -> Keys:
        try:
            if os.isatty(self._number) and os.tcgetpgrp(self._number) == os.getpgrp():
                self._old = termios.tcgetattr(self._number)
                tty.setcbreak(self._number, termios.TCSANOW)  # what was typed before counts
        except (OSError, termios.error):  # a terminal that isn't this session's, or is gone
            pass
        return self

    def __exit__(self, *_: object) -> None:
        if self._old is not None:
            with suppress(termios.error):  # it is gone
                termios.tcsetattr(self._number, termios.TCSANOW, self._old)  # others wait until somebody reads

    @property
    def are_seen(self) -> bool:
        """True if keys are read."""
        return self._old is not None

    def pressed(self) -> bytes:
        """Return what was typed since it was asked last, without waiting."""
        if self._old is None or not select.select([self._number], [], [], 0)[0]:
            return b""
        try:
            return os.read(self._number, 64)
        except OSError:
            return b""
