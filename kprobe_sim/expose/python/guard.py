"""Errors for calls that the patches don't cover, where Python's audit events reveal them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Protocol

from kprobe_sim.expose.python.real import REAL

_MOUNT_POINTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_PATH_EVENTS = frozenset(
    [
        *("open", "os.listdir", "os.scandir", "os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.chmod", "os.chown"),
        *("os.truncate", "os.link", "os.symlink", "sqlite3.connect", "ctypes.dlopen"),
    ]
)
_PROCESS_EVENTS = frozenset(["subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"])
WAY = "run the whole test inside 'kprobe-sim run -- COMMAND', where every program sees the simulated files"

FORKED = f"a forked process has only a copy of the simulated machine, which no other process sees: {WAY}"


class NotCovered(RuntimeError):
    """An operation meant for the simulated tracefs would reach this machine's, or none."""


class Patched(Protocol):
    """What the guard needs of the patches."""

    @property
    def in_simulated_directory(self) -> bool: ...

    def refuse_all(self) -> None: ...


class Guard:
    """Watches for calls that bypass the patches while these are in place."""

    def __init__(self) -> None:
        self._calls: Patched | None = None
        self._pid = 0
        self._hooked = False

    def enter(self, calls: Patched) -> None:
        """Start watching."""
        if self._calls is not None:
            raise RuntimeError("patched() is in use already: its blocks can't be nested")
        if not self._hooked:
            self._hooked = True
            sys.addaudithook(self._audit)
            os.register_at_fork(after_in_child=self._forked)
        self._pid = REAL.getpid()
        self._calls = calls

    def leave(self) -> None:
        """Stop watching."""
        self._calls = None

    def _forked(self) -> None:
        if self._calls is not None:
            self._calls.refuse_all()

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._calls is None or REAL.getpid() != self._pid:
            return
        if event in _PATH_EVENTS:
            if arguments and _is_in_tracefs(arguments[0]):
                raise NotCovered(
                    f"a call for {arguments[0]!r} bypassed the patched functions (C code, or a function bound before "
                    f"patched() was entered, as by 'from os import open'): {WAY}"
                )
        elif event in _PROCESS_EVENTS:
            self._check_process(arguments)

    def _check_process(self, arguments: tuple[Any, ...]) -> None:
        if self._calls is not None and self._calls.in_simulated_directory:
            raise NotCovered(f"a process can't be started in a simulated directory: {WAY}")
        if any(_mentions_tracefs(argument) for argument in arguments):
            raise NotCovered(f"another process would see the machine's own files: {WAY}")


def _is_in_tracefs(path: Any) -> bool:
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    return isinstance(path, str) and path.startswith(_MOUNT_POINTS)


def _mentions_tracefs(argument: Any) -> bool:
    if isinstance(argument, str):
        return any(path in argument for path in _MOUNT_POINTS)
    if isinstance(argument, bytes):
        return any(path.encode() in argument for path in _MOUNT_POINTS)
    if isinstance(argument, os.PathLike):
        return _mentions_tracefs(os.fspath(argument))
    return isinstance(argument, Sequence) and any(_mentions_tracefs(part) for part in argument)


class Gone(dict[int, Any]):
    """The open files of another process; looking one up is an error."""

    def get(self, key: int, default: Any = None) -> Any:
        if key in self:
            raise NotCovered(FORKED)
        return default


GUARD = Guard()  # one for the process: an audit hook can't be removed
