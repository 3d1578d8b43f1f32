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

CHUNK = select.PIPE_BUF  # bytes that a writable pipe takes without blocking
TICK = 0.1  # seconds between two checks of whether to stop
GRACE = 1.0  # seconds that we wait at the end for a reader who takes nothing


class Output:
    """Writes to a file without ever getting stuck in it: a reader that sleeps must not keep a probe in the kernel.

    Text for a terminal can't steer it (see `control_characters`); all other output is unchanged.  `encoding` is the
    terminal's, `name` what an error calls the file.
    """

    is_begun = True  # from now on
    _pipe = -1  # the pipe opened once more, so that writes don't block

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
        """Write our words, in which there may be those of others; with colours where the terminal has them."""
        if self._screen is None:
            return self._put(_bytes(text), is_stopping)
        from .colours import has_colours, headed

        data = self._screen.shown(_bytes(text))
        return self._put(headed(data.decode()).encode() if has_colours(os.environ) else data, is_stopping)

    def finish(self, is_stopping: Callable[[], bool]) -> bool:
        """Write what a terminal has not been given yet: the beginning of an unfinished character."""
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
        """True once nobody can read the output: the pipe's other end is closed, or the terminal is gone."""
        if self._descriptor < 0:
            return False
        return any(mask & (select.POLLERR | select.POLLHUP) for _, mask in self._poller.poll(0))

    def begin(self) -> None:
        """Prepare for output, now that some is certain to come."""

    def close(self) -> None:
        """Close what this object opened; standard output stays open."""
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
    """Writes to a file that the user named: it opens at once and keeps its contents until `begin`.

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
        """Close the file; remove it if this run created it and had nothing to write."""
        super().close()
        self._file.close()
        if self._is_new and not self.is_begun:
            os.unlink(self._path)


def _nonblocking(descriptor: int) -> int:
    """Open a pipe once more, so that a full pipe doesn't block; -1 if it isn't a pipe or can't be opened.

    O_NONBLOCK on the descriptor that we were given would apply to everybody who shares that pipe.
    """
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return -1
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


def note(text: str) -> None:
    """Print a message while a probe is in the kernel; wait at most a second for a reader who takes nothing."""
    say(text, GRACE)


def say(text: str, patience: float | None = None) -> None:
    """Print a message on stderr; don't fail or end if nobody reads it.

    With `patience`, give up if nobody reads any of it for that many seconds.

    Foreign text can't steer a terminal; elsewhere its bytes are unchanged.
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
    """Write all of it, without a SIGPIPE if nobody reads any more: that would end the command."""
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
    """Open the standard files that are closed (`>&-`), so that no file of a tracefs becomes stdout or stderr.

    Return False if it was started without a stdout.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    return sys.stdout is not None


class Progress:
    """Says every few seconds that slow work is still under way, from the third second on."""

    def __init__(self, what: str, first: float = 3.0, every: float = 5.0) -> None:
        from threading import Event, Thread  # slow to import; only slow work needs it

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
