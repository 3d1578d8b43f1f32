"""The simulator for Python code of this process that itself opens /sys/kernel/tracing.

    with patched(SimulatedKernel("6.1")) as kernel:
        with open("/sys/kernel/tracing/kprobe_events", "a") as file: ...

Within the block, open(), io, os, pathlib, shutil, glob, select and all that use them see the simulated machine's files:
its tracefs at /sys/kernel/tracing and /sys/kernel/debug/tracing, /sys/kernel/debug/kprobes, /proc/mounts,
/proc/kallsyms and /proc/PID of its tasks.  All other files are this machine's, or pyfakefs' if the block is entered
within its `fs`.

Not covered: other processes, C code, and functions bound earlier (`from os import open`).  Where Python can tell, they
fail with `NotCovered`, which names what does cover them: `kprobe-sim run`.
"""

from __future__ import annotations

import builtins
import errno
import glob
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kprobe_sim.expose.python import polling
from kprobe_sim.expose.python.calls import Calls
from kprobe_sim.expose.python.guard import GUARD, WAY, NotCovered
from kprobe_sim.expose.python.machine import MachineTree
from kprobe_sim.expose.python.paths import is_elsewhere
from kprobe_sim.expose.python.streams import OpenArguments, RawFile, open_stream
from kprobe_sim.language.primitives.refusal import refuse

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

__all__ = ["NotCovered", "patched"]

_REFUSED = {  # for paths, since the file system lacks the operation
    "unlink": errno.EPERM,
    "remove": errno.EPERM,
    "mknod": errno.EPERM,
    "mkfifo": errno.EPERM,
    "readlink": errno.EINVAL,
    "getxattr": errno.EOPNOTSUPP,
    "setxattr": errno.EOPNOTSUPP,
    "listxattr": errno.EOPNOTSUPP,
    "removexattr": errno.EOPNOTSUPP,
}
_REFUSED_PAIRS = {"rename": errno.EPERM, "replace": errno.EPERM, "link": errno.EPERM, "symlink": errno.EPERM}
_ACCEPTED = ("utime", "lchown")  # without effect
_REFUSED_FILES = {  # for open files
    "fsync": errno.EINVAL,
    "fdatasync": errno.EINVAL,
    "sendfile": errno.EINVAL,
    "splice": errno.EINVAL,
    "copy_file_range": errno.EINVAL,
    "posix_fallocate": errno.EOPNOTSUPP,
}
_COVERED = [name for name in dir(Calls) if not name.startswith("_") and hasattr(os, name)]


@contextmanager
def patched(kernel: SimulatedKernel | str = "", *, fs: Any = None) -> Iterator[SimulatedKernel]:
    """Let this process see the files of a simulated kernel, or of a new one by its name ("6.1").

    `fs` is pyfakefs' fake file system, if one is in use: the machine's other files are made in it (see `fakefs`).  Make
    the kernel before `fs`, or give its name.  Raises RuntimeError if a block is already open, ValueError for a name
    without a profile.
    """
    os_module: Any = sys.modules["os"]
    if fs is not None:
        fs.pause()
        try:  # modules imported within `fs` use its files and are forgotten later: import them outside
            import_module("kprobe_sim.kernel.simulated")
            fakefs = import_module("kprobe_sim.expose.python.fakefs")
            again = import_module(__name__).patched
        finally:
            fs.resume()
        if again is not patched:  # this module was forgotten, too
            with again(kernel, fs=fs) as simulated:
                yield simulated
            return
        os_module = fakefs.os_module(fs)
        with fakefs.paused(fs):
            kernel = _kernel(kernel)
            fakefs.load(kernel)
        fakefs.populate(fs, kernel)
    kernel = _kernel(kernel)
    names = {*dir(os_module), *dir(getattr(os_module, "os_module", os_module))}
    original = {name: getattr(os_module, name) for name in names if not name.startswith("_")}
    real_open = builtins.open
    here = fs is None and os.path.exists("/proc/self/mounts")
    machine = MachineTree(kernel, partial(_other_mounts, real_open)) if here else MachineTree(kernel)
    calls = Calls(kernel, machine, original, time.time())
    patches = _Patches()
    GUARD.enter(calls)
    try:
        for name in _COVERED:
            if hasattr(os_module, name):
                patches.set(os_module, name, _same_support(os_module, original[name], getattr(calls, name)))
        for name, function in _refusals(calls, original).items():
            patches.set(os_module, name, function)
        _limit_polls(patches, calls, kernel)
        opener = _opener(calls, real_open)
        patches.set(os_module, "fdopen", lambda fd, *arguments, **options: opener(fd, *arguments, **options))
        patches.set(subprocess.Popen, "__init__", _popen(calls))
        if fs is None:
            patches.set(builtins, "open", opener)
            patches.set(io, "open", opener)
            patches.set(io, "FileIO", _file_io(calls))
            for owner, name, function in list(_bound_by_glob(original)):
                patches.set(owner, name, staticmethod(getattr(os_module, function)))
        else:
            fakefs.patch(patches.set, opener, calls, fs)
        yield kernel
    finally:
        patches.undo()
        GUARD.leave()
        calls.descriptors.close_all()


def _limit_polls(patches: _Patches, calls: Calls, kernel: SimulatedKernel) -> None:
    """Limit the waits of select, poll and epoll like those of reads, if reads have a limit."""
    if calls.descriptors.patience is not None:
        polls = polling.LimitedWaits(kernel, calls.descriptors.table, calls.descriptors.patience)
        for target, name, function in list(polling.patches(polls)):
            patches.set(target, name, function)


def _bound_by_glob(original: dict[str, Any]) -> Iterator[tuple[type, str, str]]:
    """Yield the functions of os that glob's classes hold; pathlib's glob() of Python 3.13 uses them."""
    names = {original[name]: name for name in _COVERED if name in original}
    for owner in vars(glob).values():
        for name, value in vars(owner).items() if isinstance(owner, type) and owner.__module__ == "glob" else ():
            if isinstance(value, staticmethod) and value.__func__ in names:
                yield owner, name, names[value.__func__]


def _kernel(kernel: SimulatedKernel | str) -> SimulatedKernel:
    from kprobe_sim.kernel.simulated import SimulatedKernel

    return SimulatedKernel(kernel) if isinstance(kernel, str) else kernel


def _other_mounts(real_open: Any) -> bytes:
    """Return this machine's mount table without tracefs and debugfs."""
    with real_open("/proc/self/mounts", "rb") as file:
        lines: list[bytes] = file.read().splitlines(keepends=True)
    return b"".join(line for line in lines if line.split()[2] not in (b"tracefs", b"debugfs"))


class _Patches:
    """The patched attributes, with their old values."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any]] = []
        self._absent = object()

    def set(self, target: Any, name: str, value: Any) -> None:
        old = vars(target).get(name, self._absent) if hasattr(target, "__dict__") else getattr(target, name)
        self._old.append((target, name, old))
        setattr(target, name, value)

    def undo(self) -> None:
        for target, name, old in reversed(self._old):
            if old is self._absent:
                delattr(target, name)
            else:
                setattr(target, name, old)
        self._old.clear()


def _same_support(module: Any, original: Any, function: Any) -> Any:
    """Add the function to os.supports_fd and the like where these have the original."""
    for name in ("supports_fd", "supports_dir_fd", "supports_effective_ids", "supports_follow_symlinks"):
        known = getattr(module, name, None)
        if isinstance(known, set) and original in known:
            known.add(function)
    return function


def _opener(calls: Calls, real_open: Any) -> Any:
    def open(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        arguments = OpenArguments(mode, buffering, encoding, errors, newline, closefd, opener)
        if not is_elsewhere(file):
            try:
                simulated = calls.find(file)
            except OSError:  # no such simulated file: os.open raises the error
                return open_stream(calls, file, arguments)
            if simulated is not None:
                return open_stream(calls, file, arguments, simulated)
        return real_open(calls.elsewhere(file), *arguments)

    return open


def _popen(calls: Calls) -> Any:
    """Return a subprocess.Popen.__init__ that refuses to hand simulated files to another process."""
    original: Any = subprocess.Popen.__init__

    def init(self: Any, args: Any, *arguments: Any, **options: Any) -> None:
        given = [options.get(name) for name in ("stdin", "stdout", "stderr")]
        given += [*arguments[2:5], *options.get("pass_fds", ())]
        for file in given:
            number = file if isinstance(file, int) or file is None else file.fileno()
            if number is not None and calls.descriptor(number) is not None:
                raise NotCovered(f"descriptor {number} is a simulated file, which no other process can use: {WAY}")
        original(self, args, *arguments, **options)

    return init


def _file_io(calls: Calls) -> type:
    """Return a stand-in for io.FileIO that makes a RawFile for a simulated file."""
    real = io.FileIO

    class Meta(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real | RawFile)

        def __call__(cls, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> Any:
            if calls.inside(file):
                return RawFile(calls, file, mode, closefd, opener)
            return real(calls.elsewhere(file), mode, closefd, opener)

    return Meta("FileIO", (real,), {})


def _path_refused(calls: Calls, real: Any, name: str, number: int) -> Any:
    def function(path: Any, *arguments: Any, **options: Any) -> Any:
        if calls.find(path, options.get("dir_fd")) is None:
            return real(calls.elsewhere(path), *arguments, **options)
        raise calls.named(refuse(number), path)

    return function


def _pair_refused(calls: Calls, real: Any, name: str, number: int) -> Any:
    def function(src: Any, dst: Any, *arguments: Any, **options: Any) -> Any:
        first = None if name == "symlink" else calls.find(src, options.get("src_dir_fd"))
        second = calls.inside(dst, options.get("dst_dir_fd", options.get("dir_fd")))
        if first is None and not second:
            return real(calls.elsewhere(src), calls.elsewhere(dst), *arguments, **options)
        across = name != "symlink" and (first is None) is second
        raise calls.named(refuse(errno.EXDEV if across else number), src, dst)

    return function


def _file_refused(calls: Calls, real: Any, name: str, number: int) -> Any:
    def function(*arguments: Any, **options: Any) -> Any:
        numbers = [value for value in (*arguments[:2], *options.values()) if type(value) is int]
        if any(calls.descriptor(value) is not None for value in numbers):
            raise refuse(number)
        return real(*arguments, **options)

    return function


def _accepted(calls: Calls, real: Any) -> Any:
    def function(path: Any, *arguments: Any, **options: Any) -> Any:
        if calls.find(path, options.get("dir_fd")) is None:
            return real(calls.elsewhere(path), *arguments, **options)
        return None

    return function


def _refusals(calls: Calls, original: dict[str, Any]) -> dict[str, Any]:
    """Return stand-ins for the functions that simulated files refuse, and for those without effect on them."""
    functions: dict[str, Any] = {}
    tables = ((_REFUSED, _path_refused), (_REFUSED_PAIRS, _pair_refused), (_REFUSED_FILES, _file_refused))
    for table, make in tables:
        functions |= {
            name: make(calls, original[name], name, number) for name, number in table.items() if name in original
        }
    return functions | {name: _accepted(calls, original[name]) for name in _ACCEPTED if name in original}
