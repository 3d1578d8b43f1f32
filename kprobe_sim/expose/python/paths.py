"""The simulated paths of this process, including its working directory."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kprobe_sim.expose.python.descriptors import Descriptors
from kprobe_sim.expose.python.guard import FORKED, Gone, NotCovered
from kprobe_sim.expose.python.machine import DEBUG, TRACING, MachineTree, normal, walk
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.tree.files.node import DirNode, Node

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

_OURS = ("/sys/kernel/", "/proc/", "/sys/bus/event_source/")
_BELOW = TRACING + "/"


def is_elsewhere(path: Any) -> bool:
    """Return True for a path that surely isn't simulated, like most, without a lookup in the tree."""
    return (
        type(path) is str
        and path[:1] == "/"
        and not path.startswith(_OURS)
        and "/." not in path
        and "//" not in path
        and path not in ("/sys/kernel", "/proc", "/sys/bus/event_source")
    )


class Paths:
    """Looks up paths, and replaces the working directory functions of `os`; `original` has the unpatched functions."""

    def __init__(
        self,
        kernel: SimulatedKernel,
        machine: MachineTree,
        original: Mapping[str, Callable[..., Any]],
        started: float = 0.0,
    ) -> None:
        self._kernel = kernel
        self._acquire, self._release = kernel.condition.acquire, kernel.condition.release
        self._is_forked = False
        self._machine = machine
        self._original = original
        self.descriptors = Descriptors(kernel)
        self._table = self.descriptors.table
        self._directory: str | None = None  # the working directory, if it is simulated
        self._changed: dict[str, tuple[int, int, int]] = {}
        self._births: WeakKeyDictionary[object, int] = WeakKeyDictionary()  # numbers of directories
        self._numbers = count(1)
        self._time = started

    def absolute(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Return a path as an absolute str; None for a descriptor, or a path that can't be simulated."""
        if type(path) is not str:
            if isinstance(path, int):
                return None
            path = os.fsdecode(path)
        text: str = path
        if text[:1] == "/":
            return text
        if dir_fd is not None:
            held = self._table.get(dir_fd)
            return None if held is None else f"{held.path}/{path}"
        if self._directory is not None:
            return f"{self._directory}/{path}"
        if "kernel" in path or "proc" in path:
            return f"{self._original['getcwd']()}/{path}"
        return None

    def find(self, path: Any, dir_fd: int | None = None) -> tuple[str, Node] | None:
        """Return (absolute path, node) of a simulated file; None for any other path."""
        if (
            type(path) is str
            and path.startswith(_BELOW)
            and path[-1] != "/"
            and not ("/." in path or "//" in path or "\0" in path)
        ):
            if self._is_forked:
                raise NotCovered(FORKED)
            self._acquire()
            try:
                return path, walk(self._kernel.root, path[len(_BELOW) :])
            except OSError as error:
                error.filename = path
                raise
            finally:
                self._release()
        if is_elsewhere(path):
            return None
        if isinstance(path, int):
            held = self._table.get(path)
            return None if held is None else (held.path, held.node)
        absolute = self.absolute(path, dir_fd)
        if not absolute or "\0" in absolute:
            return None
        try:
            if self._is_forked:  # a thread of the parent may hold the lock
                if self._machine.find(absolute) is not None:
                    raise NotCovered(FORKED)
                return None
            with self._kernel.condition:
                node = self._machine.find(absolute)
        except OSError as error:
            error.filename = path
            raise
        return None if node is None else (normal(absolute), node)

    def refuse_all(self) -> None:
        """Refuse everything from now on in a forked process: no other process would see what it does here."""
        self._table = Gone(self._table)
        self._is_forked = True

    def inside(self, path: Any, dir_fd: int | None = None) -> bool:
        """Return whether a path is inside the simulator; the file needn't exist."""
        try:
            return self.find(path, dir_fd) is not None
        except OSError:
            return True

    def is_mount_point(self, path: Any) -> bool:
        """Return whether tracefs or debugfs is mounted at a path."""
        absolute = self.absolute(path)
        return absolute is not None and normal(absolute) in (TRACING, DEBUG, f"{DEBUG}/tracing")

    @property
    def in_simulated_directory(self) -> bool:
        """Whether the working directory is simulated."""
        return self._directory is not None

    def elsewhere(self, path: Any) -> Any:
        """Return the path for an original function; a path relative to a simulated directory becomes absolute."""
        if self._directory is None or isinstance(path, int):
            return path
        absolute = self.absolute(path)
        return path if absolute is None else normal(absolute)

    def _parent(self, path: Any, dir_fd: int | None) -> tuple[DirNode, str] | None:
        """Return (directory, name) for a simulated path whose last part needn't exist."""
        absolute = None if isinstance(path, int) else self.absolute(path, dir_fd)
        if not absolute:
            return None
        directory, name = posixpath.split(normal(absolute))
        with self._kernel.condition:
            node = self._machine.find(directory)
        if node is None:
            return None
        if not isinstance(node, DirNode):
            raise refuse(errno.ENOTDIR)
        return node, name

    def named(self, error: OSError, path: Any, other: Any = None) -> OSError:
        """Return a copy of the error with the path as the caller wrote it."""
        if other is None:
            return OSError(error.errno, error.strerror, path)
        return OSError(error.errno, error.strerror, path, None, other)

    # the working directory

    def chdir(self, path: Any) -> None:
        file = self.find(path)
        if file is None:
            self._original["chdir"](self.elsewhere(path))
            self._directory = None
        elif not file[1].is_dir:
            raise self.named(refuse(errno.ENOTDIR), path)
        else:
            self._directory = file[0]

    def fchdir(self, fd: int) -> None:
        if fd in self._table:
            self.chdir(fd)
        else:
            self._original["fchdir"](fd)
            self._directory = None

    def getcwd(self) -> str:
        return self._original["getcwd"]() if self._directory is None else self._directory

    def getcwdb(self) -> bytes:
        return os.fsencode(self.getcwd())
