"""Output: the kernel's bytes, unchanged, and messages for the user on stderr."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
    from typing import BinaryIO, Self

    from .control_characters import Screen
else:
    import _signal  # see signals

CHUNK = select.PIPE_BUF  # a writable pipe takes this much without blocking
TICK = 0.1  # seconds between two looks at whether to stop
GRACE = 1.0  # seconds that a reader who takes nothing holds up the end


class Output:
    """Writes to a file without ever getting stuck in it: a reader that sleeps must not keep a probe in the kernel.

    What goes to a terminal can't steer it (see `terminal`); what goes anywhere else goes as it is.  `encoding` is the
    terminal's, `name` what an error calls the file.
    """

    is_begun = True  # what is written now is wanted there
    _pipe = -1  # a pipe's other way in, which doesn't block

    def __init__(self, file: BinaryIO, encoding: str = "utf-8", name: str = "standard output") -> None:
        self._file = file
        self._name = name
        self._poller = select.poll()
        self._screen: Screen | None = None
        try:
            self._descriptor = file.fileno()
            file.flush()
            self._poller.register(self._descriptor, select.POLLOUT)
            self._pipe = _nonblocking(self._descriptor)
            if file.isatty():
                from .control_characters import Screen

                self._screen = Screen(encoding)
        except (OSError, ValueError):  # a file of Python's own, as in tests
            self._descriptor = -1

    def write(self, data: bytes, is_stopping: Callable[[], bool]) -> bool:
        """Write all of it; False if `is_stopping` and nobody took it for a second.

        Raise `BrokenPipeError` if nobody ever will, and `OSError` (a full disk).
        """
        return self._put(data if self._screen is None else self._screen.shown(data), is_stopping)

    def tell(self, text: str, is_stopping: Callable[[], bool]) -> bool:
        """Write words of our own, in which there may be those of others; with colours where the terminal has them."""
        if self._screen is None:
            return self._put(_bytes(text), is_stopping)
        from .colours import has_colours, headed

        data = self._screen.shown(_bytes(text))
        return self._put(headed(data.decode()).encode() if has_colours(os.environ) else data, is_stopping)

    def finish(self, is_stopping: Callable[[], bool]) -> bool:
        """Write what a terminal has not seen yet: the beginning of a character without an end."""
        rest = b"" if self._screen is None else self._screen.shown(b"", is_last=True)
        return self._put(rest, is_stopping)

    def _put(self, data: bytes, is_stopping: Callable[[], bool]) -> bool:
        if self._descriptor < 0:
            self._file.write(data)
            self._file.flush()
            return True
        into, most = (self._pipe, len(data)) if self._pipe >= 0 else (self._descriptor, CHUNK)
        rest = memoryview(data)
        if self._pipe >= 0:
            rest = rest[self._write(into, rest) :]
        stuck = 0.0
        while rest:
            if self._poller.poll(TICK * 1000):
                rest = rest[self._write(into, rest[:most]) :]
                stuck = 0.0
            elif is_stopping():
                stuck += TICK
                if stuck > GRACE:
                    return False
        return True

    def _write(self, descriptor: int, data: bytes | memoryview) -> int:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno == errno.EIO and stat.S_ISCHR(os.fstat(descriptor).st_mode):  # the terminal has gone
                raise BrokenPipeError(error.errno, error.strerror) from error
            if isinstance(error, BrokenPipeError):
                raise
            raise OSError(error.errno, error.strerror, self._name) from error

    def is_broken(self) -> bool:
        """True once nobody can read any more (the other end of the pipe is closed, the terminal is gone)."""
        if self._descriptor < 0:
            return False
        return any(mask & (select.POLLERR | select.POLLHUP) for _, mask in self._poller.poll(0))

    def begin(self) -> None:
        """Get ready for what will be written, now that it is sure to come."""

    def close(self) -> None:
        """End the use of what was opened for it; standard output stays open."""
        self._close_pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_pipe(self) -> None:
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)

    def __del__(self) -> None:
        self._close_pipe()


class FileOutput(Output):
    """Writes to a file that the user named, which is opened at once and stays what it was until `begin`.

    Raise `OSError` if it can't be opened.
    """

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        self.is_begun = False
        self._is_new = True
        try:
            descriptor = os.open(path, flags | os.O_EXCL, 0o666)
        except FileExistsError:
            self._is_new = False
            descriptor = os.open(path, flags, 0o666)
        self._path = path
        super().__init__(os.fdopen(descriptor, "wb", 0), name=path)

    def begin(self) -> None:
        """Empty the file, if it can hold anything."""
        self.is_begun = True
        try:
            os.truncate(self._file.fileno(), 0)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a pipe, a terminal
                raise OSError(error.errno, error.strerror, self._path) from error

    def close(self) -> None:
        """Close the file, and remove it if there was none before and nothing was to be written."""
        super().close()
        self._file.close()
        if self._is_new and not self.is_begun:
            os.unlink(self._path)


def _nonblocking(descriptor: int) -> int:
    """Open a pipe once more, such that what it has no room for isn't waited for; -1 if it is none, or can't be.

    O_NONBLOCK on the descriptor that we were given would be on for everybody who has that pipe from our parent.
    """
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return -1
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def note(text: str) -> None:
    """Say something while there is a probe in the kernel: whoever takes nothing of it holds that up for a second."""
    say(text, GRACE)


def say(text: str, patience: float | None = None) -> None:
    """Say something to the user, on stderr; if nobody listens, that is no reason to fail, nor to end.

    With `patience` it is given up if nobody takes any of it for so many seconds.

    On a terminal the words of others can't steer it; elsewhere their bytes are as they were.
    """
    stream = sys.stderr
    if stream is None:  # closed when we started
        return
    try:
        if stream.isatty():
            from .colours import has_colours, marked
            from .control_characters import shown

            seen = shown(text + "\n")
            data = (marked(seen) if has_colours(os.environ) else seen).encode(stream.encoding, "backslashreplace")
        else:
            data = _bytes(text + "\n")
        stream.flush()
        _write_quietly(stream.fileno(), data, patience)
    except io.UnsupportedOperation:  # a file of Python's own, as in tests
        stream.write(text + "\n")
    except (OSError, ValueError):
        pass


def _bytes(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")


def _write_quietly(descriptor: int, data: bytes, patience: float | None) -> None:
    """Write all of it; that nobody reads there any more must not be reported by SIGPIPE, which ends the command."""
    old = _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGPIPE,))
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    try:
        while data and poller.poll(None if patience is None else patience * 1000):
            data = data[os.write(descriptor, data[:CHUNK]) :]
    except BrokenPipeError:
        _signal.sigtimedwait((_signal.SIGPIPE,), 0)
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, old)


def fill_standard_files() -> bool:
    """Open what the process was started without (`>&-`), lest a file of a tracefs become its stdout or stderr.

    Return False if it was started without a stdout.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    return sys.stdout is not None


class Progress:
    """Says every few seconds that something slow is still under way, from the third second on."""

    def __init__(self, what: str, first: float = 3.0, every: float = 5.0) -> None:
        from threading import Event, Thread  # slow to import; only slow work has need of it

        self._what = what
        self._first = first
        self._every = every
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        passed, wait = 0.0, self._first
        while not self._over.wait(wait):
            passed += wait
            wait = self._every
            say(f"{self._what} ... {passed:.0f} s", GRACE)
