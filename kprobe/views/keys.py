"""Keys pressed on this process's terminal, each at once; Ctrl-C still sends its signal."""

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
    """Within `with`, reports the keys pressed; the terminal is restored at the end.

    Where standard input isn't a terminal, or belongs to another job of the shell, it sees no key and changes nothing.
    """

    def __init__(self, number: int = STDIN) -> None:
        self._number = number
        self._old: list[Any] | None = None

    def __enter__(self) -> Keys:
        try:
            if os.isatty(self._number) and os.tcgetpgrp(self._number) == os.getpgrp():
                self._old = termios.tcgetattr(self._number)
                tty.setcbreak(self._number, termios.TCSANOW)  # keep what was typed before
        except (OSError, termios.error):  # another session's terminal, or a closed one
            pass
        return self

    def __exit__(self, *_: object) -> None:
        if self._old is not None:
            with suppress(termios.error):  # the terminal is closed
                termios.tcsetattr(self._number, termios.TCSANOW, self._old)  # other reads would block

    @property
    def are_seen(self) -> bool:
        """True if keys are read."""
        return self._old is not None

    def pressed(self) -> bytes:
        """Return what was typed since the last call, without waiting."""
        if self._old is None or not select.select([self._number], [], [], 0)[0]:
            return b""
        try:
            return os.read(self._number, 64)
        except OSError:
            return b""
