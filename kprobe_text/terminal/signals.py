"""Signals that end the command: noted while a trace runs, raised while it is set up."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from types import FrameType
else:
    import _signal  # signal would wrap it in enums, which takes longer than the rest of the command's beginning

# Every signal that ends a process unless it is handled, can be handled, and comes from outside it.
ENDING = (
    _signal.SIGHUP,
    _signal.SIGINT,
    _signal.SIGQUIT,
    _signal.SIGTERM,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
    _signal.SIGALRM,
    _signal.SIGVTALRM,
    _signal.SIGPROF,
    _signal.SIGXCPU,
    _signal.SIGIO,
    _signal.SIGPWR,
    _signal.SIGPIPE,
)


class Signalled(BaseException):
    """A signal that ends the command came while there was no trace to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(_signal.strsignal(number))
        self.number = number


class Signals:
    """Handles, within `with`, the signals that would silently end the process.

    Before `end_by` is called, the first signal raises `Signalled`; after it, a signal calls the function that `end_by`
    was given and interrupts nothing, so that no undo is cut in half.  `received` is the first signal, or 0.  Signals
    that are ignored (nohup) or handled elsewhere stay so; but SIGPIPE, which Python ignores, is handled.

    With `is_last` the process has nothing else to do: on exit such signals are ignored, not restored.
    """

    def __init__(self, *, is_last: bool = False) -> None:
        self.received = 0
        self.is_last = is_last
        self._stop: Callable[[], None] | None = None
        self._old: dict[int, object] = {}

    def __enter__(self) -> Signals:
        free = (_signal.SIG_DFL, _signal.default_int_handler)
        try:
            for number in ENDING:
                handler = _signal.getsignal(number)
                if handler in free or (number == _signal.SIGPIPE and handler == _signal.SIG_IGN):
                    self._old[number] = _signal.signal(number, self._handle)
        except ValueError:  # not the main thread: signals are somebody else's
            pass
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            _signal.signal(number, _signal.SIG_IGN if self.is_last else handler)  # type: ignore[arg-type]
        self._old.clear()

    def end_by(self, stop: Callable[[], None]) -> None:
        """Have signals call `stop` from now on; call it at once for a signal that came before and went unnoticed."""
        self._stop = stop
        if self.received:
            stop()

    def _handle(self, number: int, _: FrameType | None) -> None:
        first = not self.received
        self.received = self.received or number
        if self._stop is not None:
            self._stop()
        elif first:
            raise Signalled(number)
