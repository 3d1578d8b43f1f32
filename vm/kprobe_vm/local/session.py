"""`kprobe-sim record-local`: records this machine's kernel once, and undoes all changes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from kprobe_vm.guest.workload import WorkloadTask
from kprobe_vm.host.progress import Progress
from kprobe_vm.local import task
from kprobe_vm.local.restored import Below, Restored
from kprobe_vm.local.survey import configuration, plan, survey
from kprobe_vm.local.tree import LocalFile, LocalTree
from kprobe_vm.recording.gates import UnknownAnswers, check
from kprobe_vm.recording.guest import TRACING, Tree
from kprobe_vm.recording.record import asked, write_down

__all__ = ["LocalGuest", "LocalRecording", "undone"]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_START = 30.0  # seconds within which the task must start


class LocalTask(WorkloadTask):
    """The task, running on this machine."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", task.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the recorder
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        requests = LocalFile(os.dup(self._process.stdin.fileno()), "the task's requests")
        answers = LocalFile(os.dup(self._process.stdout.fileno()), "the task's answers")
        self._process.stdin.close()
        self._process.stdout.close()
        super().__init__(self._process.pid, requests, answers)
        if len(answers.read(8, _START)) != 8:
            self.end()
            raise ProcessLookupError(f"the task that the recording needs ended with status {self._process.returncode}")

    def close(self) -> None:
        """End the task."""
        with contextlib.suppress(OSError):
            super().close()
        self.end()

    def end(self) -> None:
        """Kill its process, whatever its state."""
        self._process.kill()
        self._process.wait()


class LocalGuest(Restored):
    """This machine in the form that the recorder needs."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree)
        self.tracefs = Below(self, TRACING)
        self._tasks: list[LocalTask] = []

    def shell(self, script: str) -> bytes:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        done = subprocess.run(
            ["sh", "-c", script], env=environment, capture_output=True, start_new_session=True, check=False
        )
        if done.returncode:
            raise OSError(errno.EIO, done.stderr.decode(errors="replace").strip() or "it failed", script)
        return done.stdout

    def tasks(self) -> bytes:
        """Return process 1 and the kernel's threads: other processes are private."""
        lines = []
        for pid in sorted(filter(str.isdecimal, self.listdir("proc"))):
            with contextlib.suppress(OSError):  # it has ended
                parent = re.search(rb"^PPid:\s*(\d+)$", self.read(f"proc/{pid}/status"), re.MULTILINE)
                if pid in ("1", "2") or (parent and parent[1] == b"2"):
                    lines.append(pid.encode() + b" " + self.read(f"proc/{pid}/comm"))
        return b"".join(lines)

    def workload(self) -> LocalTask:
        started = LocalTask()
        self._tasks.append(started)
        return started

    def restore(self) -> list[str]:
        """End the tasks and undo all changes; return what could not be undone, one line each."""
        for started in self._tasks:
            started.close()
        return super().restore()


class LocalRecording:
    """The recording of `kprobe-sim record-local`, found through the entry point `local` of the group kprobe.recording.

    `cannot` and `tracing` are the reasons for a refusal, a line each; `plan` is what it would do, as lines below
    headings.
    """

    def __init__(self, tree: Tree | None = None) -> None:
        self._tree = tree or LocalTree()
        surveyed = survey(self._tree)
        self.cannot: list[str] = surveyed.cannot
        self.tracing: list[str] = surveyed.tracing
        self.plan: Mapping[str, list[str]] = {} if surveyed.cannot else plan(surveyed, self._tree)

    def record(self, into: Path, config: str | None, progress: Progress) -> tuple[Path, list[str]]:
        """Record into a directory below `into`; return it, and lines about what is wrong.

        Raise `KeyboardInterrupt` at SIGINT, `SystemExit` at another signal, `OSError` and `ValueError` for answers that
        no known kernel gives, always after restoring; the error's notes say what could not be restored.
        """
        guest = LocalGuest(self._tree)
        with _turn(self._tree):
            answers, left = undone(guest, lambda: asked(guest, progress), progress)
        text = config or configuration(self._tree) or None
        written = write_down(self._tree, answers.answers, into, text, progress)
        try:
            check(answers.differences)
        except UnknownAnswers as error:
            left.append(str(error))
        return written, left


Result = TypeVar("Result")


def undone(guest: Restored, work: Callable[[], Result], progress: Progress) -> tuple[Result, list[str]]:
    """Do some work on a guest and restore the guest on every way out; return the result, and what could not be
    restored.

    Signals that end a program end the work before its next operation on the guest.  Raise what the work does, and what
    `LocalRecording.record` says of signals.
    """
    with _Ending() as ending:
        guest.before_each = ending.raise_it
        try:
            result = work()
        except BaseException as error:
            for line in guest.restore():
                error.add_note(line)
            raise
        progress("putting back what was changed")
        left = guest.restore()
        ending.raise_it()
    return result, left


class _Ending:
    """A context in which the signals that end a program wait until `raise_it`."""

    def __init__(self) -> None:
        self._came: list[int] = []
        self._old: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Ending:
        self._old = {number: signal.signal(number, lambda number, _: self._came.append(number)) for number in _ENDING}
        return self

    def __exit__(self, *_: object) -> None:
        for number, was in self._old.items():
            signal.signal(number, was)

    def raise_it(self) -> None:
        """Raise `KeyboardInterrupt` or `SystemExit` if a signal has come."""
        if self._came:
            _end(self._came[0])


def _end(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _turn(tree: Tree) -> Iterator[None]:
    """Hold the lock by which this project's tracers take turns; another machine's tree has none."""
    if not isinstance(tree, LocalTree):
        yield
        return
    descriptor = os.open(f"/{TRACING}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(None, "somebody records it, or is about to trace", f"/{TRACING}") from None
        yield
    finally:
        os.close(descriptor)
