"""Signals that end the command: noted while a trace runs, raised while it is being set up."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signalled(BaseException):
    """A signal that ends the command came while there was no trace to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.number = number


class Signals:
    """Handles SIGINT, SIGTERM and SIGHUP within `with`.

    Once `stop` is set, a signal calls it and interrupts nothing, so that no undo is cut in half; before, the first one
    raises `Signalled`.  `received` is the first signal that came, or 0.  One that is ignored (nohup) stays ignored.
    """

    def __init__(self) -> None:
        self.received = 0
        self.stop: Callable[[], None] | None = None
        self._old: dict[int, object] = {}

    def __enter__(self) -> Signals:
        try:
            for number in ENDING:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._old[number] = signal.signal(number, self._handle)
        except ValueError:  # not the main thread: signals are somebody else's
            pass
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._old.clear()

    def _handle(self, number: int, _: FrameType | None) -> None:
        first = not self.received
        self.received = self.received or number
        if self.stop is not None:
            self.stop()
        elif first:
            raise Signalled(number)
