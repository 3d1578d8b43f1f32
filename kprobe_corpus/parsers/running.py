"""Runs a parser's command: once for each text, or once for all texts in turn."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, NamedTuple

from kprobe_corpus.parsers.adapter import CRASHED, STAYS, files
from kprobe_corpus.parsers.answers import record_of

ANSWERED, HUNG = "answered", "hung"
PIECE = 1 << 16  # bytes that are read at once
LEAST, TIMES = 16 << 20, 64  # most bytes of an answer: this many, plus this many for each byte of the text
LAST = 1 << 16  # bytes of a command's stderr that are read, from the end
LINE = 300  # characters of a crashed command's last words


class NotStarted(Exception):
    """The command can't be started; the text says why."""


class Outcome(NamedTuple):
    """The outcome of a run: the command's output, and how it ended, in words after a failure."""

    state: str
    output: bytes
    words: str
    seconds: float


class Program:
    """A command that is run once for each text."""

    def __init__(self, argv: Sequence[str], limit: float, file: str = "trace.txt") -> None:
        self._argv = list(argv)
        self._file = file
        self._limit = limit

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def most(self, directory: str) -> int:
        """Return how many bytes an answer about a directory's text may have: longer output may be endless."""
        return max(LEAST, TIMES * os.path.getsize(os.path.join(directory, self._file)))

    def close(self) -> None:
        """End commands that still run."""

    def ask(self, directory: str, about: Mapping[str, str]) -> Outcome:
        """Return the command's answer to the text in a directory; `about` are further variables for it."""
        begun = time.monotonic()
        until, most = begun + self._limit, self.most(directory)
        with open(os.path.join(directory, self._file), "rb") as text, tempfile.TemporaryFile() as errors:
            with _start(self._argv, text, {**files(directory), **about}, errors) as process:
                assert process.stdout is not None
                output = bytearray()
                try:
                    for piece in _pieces(process.stdout.fileno(), until):
                        output += piece
                        if len(output) > most:
                            break
                    status = process.wait(max(0, until - time.monotonic())) if len(output) <= most else None
                except subprocess.TimeoutExpired:
                    status = None
                except BaseException:
                    _kill(process)
                    raise
                if status is None:
                    _kill(process)
            took = time.monotonic() - begun
            if status is None:
                return _endless(output, most, self._limit, took)
            state, words = (CRASHED, _ending(status, errors)) if status else (ANSWERED, "")
            return Outcome(state, bytes(output), words, took)


class StayingProgram(Program):
    """A command that stays: it reads a directory per line, and ends each answer with an empty line.

    If it ended, or took too long, it is started again for the next text.
    """

    def __init__(self, argv: Sequence[str], limit: float) -> None:
        super().__init__(argv, limit)
        self._process: subprocess.Popen[bytes] | None = None
        self._asks: socket.socket | None = None
        self._errors: IO[bytes] | None = None

    def close(self) -> None:
        """End the command."""
        if self._process is not None:
            _kill(self._process)
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
        for file in (self._asks, self._errors):
            if file is not None:
                file.close()
        self._process = self._asks = self._errors = None

    def ask(self, directory: str, about: Mapping[str, str]) -> Outcome:
        """Return the command's answer to the text in a directory; `about` are variables at its start."""
        begun = time.monotonic()
        process, asks, errors = self._started(about)
        most = self.most(directory)
        with contextlib.suppress(OSError):  # the end of its output shows that a command has ended
            asks.sendall(os.fsencode(directory) + b"\n", socket.MSG_NOSIGNAL)
        assert process.stdout is not None
        output = bytearray()
        for piece in _pieces(process.stdout.fileno(), begun + self._limit):
            output += piece
            if output.endswith(b"\n\n") or output == b"\n":
                state, words = _told(bytes(output))
                return Outcome(state, bytes(output), words, time.monotonic() - begun)
            if len(output) > most:
                break
        took = time.monotonic() - begun
        status = None
        if len(output) <= most:
            # a command that closed its output may go on
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(max(0, self._limit - took))
        words = "" if status is None else _ending(status, errors)
        self.close()
        took = time.monotonic() - begun
        if status is None:
            return _endless(output, most, self._limit, took)
        return Outcome(CRASHED, bytes(output), words, took)

    def _started(self, about: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], socket.socket, IO[bytes]]:
        if self._process is None:
            # a pipe whose reader has gone would send SIGPIPE, which ends this process
            self._asks, theirs = socket.socketpair()
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the command
            with theirs:
                self._process = _start(self._argv, theirs, {**about, STAYS: "1"}, self._errors)
        assert self._asks is not None
        assert self._errors is not None
        return self._process, self._asks, self._errors


def _start(
    argv: list[str], stdin: IO[bytes] | socket.socket, more: Mapping[str, str], errors: IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=stdin,  # type: ignore[arg-type]  # a socket has a descriptor, and that is all that is asked for
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **more},
            start_new_session=True,
        )
    except OSError as error:
        raise NotStarted(f"{argv[0]} can't be started: {error.strerror}{_hint(argv[0], error.errno)}") from error


def _hint(program: str, number: int | None) -> str:
    """Return a hint for a program that can't be started; "" if there is none."""
    if not os.path.isfile(program):
        return ""
    if number == errno.ENOENT:
        return "; the interpreter after its #! isn't there" if "/" in program else f"; give it as ./{program}"
    if number in (errno.EACCES, errno.ENOEXEC):
        needs = "isn't executable" if number == errno.EACCES else "has no #! line"
        return f"; it {needs}: name its interpreter first, as in -- python3 {program}"
    return ""


def _pieces(descriptor: int, until: float) -> Iterator[bytes]:
    """Yield the written data, until its end or a time limit."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        if poller.poll(left * 1000):
            piece = os.read(descriptor, PIECE)
            if not piece:
                return
            yield piece


def _told(output: bytes) -> tuple[str, str]:
    """Return how a staying command reports its end: whether its last line has the type "crashed"."""
    last = record_of(output.rstrip(b"\n").rpartition(b"\n")[2] or b"{}")
    return (CRASHED, str(last.get("text", ""))[:LINE]) if last["type"] == CRASHED else (ANSWERED, "")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the command with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _endless(output: bytearray, most: int, limit: float, took: float) -> Outcome:
    """Return the outcome of a command that we ended; an endless answer isn't compared."""
    if len(output) > most:
        return Outcome(HUNG, b"", f"no end after {most >> 20} MiB", took)
    return Outcome(HUNG, bytes(output), f"no end after {limit:g} s", took)


def _ending(status: int, errors: IO[bytes]) -> str:
    """Say how a command ended, with its last words."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - LAST))
    said = errors.read().decode("utf-8", "backslashreplace")
    lines = [line for line in said.splitlines() if line.strip()]
    how = f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"
    return f"{how}: {lines[-1].strip()[:LINE]}" if lines else how
