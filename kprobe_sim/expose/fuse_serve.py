"""`kprobe-sim mount`: the simulator on a directory, for every program of the machine."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kprobe_sim.expose.fuse import FuseServer
from kprobe_sim.expose.fuse_mount import (
    SUBTYPE,
    CannotMount,
    SystemCalls,
    explain,
    mount_fuse,
    mount_table,
    mount_with_helper,
    open_device,
)

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Mounted(Protocol):
    descriptor: int

    def unmount(self) -> None: ...


def serve(kernel: SimulatedKernel, directory: str, started: Callable[[], None] = lambda: None) -> int:
    """Mount on a directory and answer until SIGINT, SIGTERM, SIGHUP or until it is unmounted; return 0.

    `started` is called when the files are there.  Raises CannotMount if this user may not mount here, or the
    directory is no directory.
    """
    directory = os.path.realpath(directory)
    if not os.path.isdir(directory):
        raise CannotMount(f"{directory} is not a directory")
    mounted = _mount(kernel, directory)
    server = FuseServer(kernel, mounted.descriptor)
    old = {number: signal.signal(number, lambda *_: server.stop()) for number in _ENDING}
    thread = threading.Thread(target=server.serve, name="fuse", daemon=True)
    try:
        thread.start()
        started()
        print(
            f"kprobe-sim: {kernel.release} on {directory}; interrupt (Ctrl-C) to unmount", file=sys.stderr, flush=True
        )
        thread.join()
    finally:
        mounted.unmount()
        for number, handler in old.items():
            signal.signal(number, handler)
    return 0


def _mount(kernel: SimulatedKernel, directory: str) -> _Mounted:
    if os.geteuid() != 0:
        return _Helped(directory)
    calls = SystemCalls()
    keeper = _Keeper(calls, directory)
    try:
        return _Direct(calls, keeper, open_device(), directory, kernel.root.mode)
    except BaseException:
        keeper.dismiss()
        raise


class _Helped:
    """A mount that fusermount3 made and takes away."""

    def __init__(self, directory: str) -> None:
        self.descriptor, self._keeper = mount_with_helper(directory)

    def unmount(self) -> None:
        self._keeper.close()


class _Direct:
    """A mount of root's own."""

    def __init__(self, calls: SystemCalls, keeper: _Keeper, descriptor: int, directory: str, root_mode: int) -> None:
        try:
            mount_fuse(calls, descriptor, directory, root_mode)
        except OSError as error:
            os.close(descriptor)
            raise CannotMount(f"mounting on {directory}: {explain(error)}") from None
        self.descriptor = descriptor
        self._calls = calls
        self._keeper = keeper
        self._directory = directory

    def unmount(self) -> None:
        _unmount(self._calls, self._directory)
        self._keeper.dismiss()


class _Keeper:
    """A process that takes the mount away if this one is killed."""

    def __init__(self, calls: SystemCalls, directory: str) -> None:
        waits, self._pipe = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(waits)
            return
        try:
            os.setsid()  # the terminal's signals aren't for it
            for number in _ENDING:
                signal.signal(number, signal.SIG_IGN)
            os.close(self._pipe)
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # nobody shall wait for its end of a pipe
            os.dup2(1, 2)
            os.dup2(1, 0)
            if not os.read(waits, 1):
                _unmount(calls, directory)
        finally:
            os._exit(0)

    def dismiss(self) -> None:
        """The mount is gone."""
        os.write(self._pipe, b"1")
        os.close(self._pipe)
        os.waitpid(self._pid, 0)


def _unmount(calls: SystemCalls, directory: str) -> None:
    if not any(point.directory == directory and point.kind == SUBTYPE for point in mount_table()):
        return
    try:
        calls.unmount(directory)
    except OSError as error:
        if error.errno != errno.EINVAL:  # somebody else has unmounted it
            raise
