"""`kprobe-sim mount`: the simulator on a directory, for every program of the machine."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
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
    unmount_with_helper,
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
    # the kernel lets nobody but the user who mounted it see what the helper mounts: the files are that user's
    server = FuseServer(kernel, mounted.descriptor, owner=(os.geteuid(), os.getegid()))
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
    return _Direct(calls, _Keeper(partial(_unmount, calls, directory)), directory, kernel.root.mode)


class _Helped:
    """A mount that fusermount3 made and takes away."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._keeper = _Keeper(partial(unmount_with_helper, directory))
        try:
            self.descriptor = mount_with_helper(directory)
        except BaseException:
            self._keeper.dismiss()
            raise

    def unmount(self) -> None:
        if _is_mounted(self._directory):
            unmount_with_helper(self._directory)
        self._keeper.dismiss()


class _Direct:
    """A mount of root's own."""

    def __init__(self, calls: SystemCalls, keeper: _Keeper, directory: str, root_mode: int) -> None:
        try:
            self.descriptor = open_device()
            try:
                mount_fuse(calls, self.descriptor, directory, root_mode)
            except OSError as error:
                os.close(self.descriptor)
                raise CannotMount(f"mounting on {directory}: {explain(error)}") from None
        except BaseException:
            keeper.dismiss()
            raise
        self._calls = calls
        self._keeper = keeper
        self._directory = directory

    def unmount(self) -> None:
        _unmount(self._calls, self._directory)
        self._keeper.dismiss()


class _Keeper:
    """A process that takes the mount away if this one is killed."""

    def __init__(self, unmount: Callable[[], None]) -> None:
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
                unmount()
        finally:
            os._exit(0)

    def dismiss(self) -> None:
        """The mount is gone."""
        os.write(self._pipe, b"1")
        os.close(self._pipe)
        os.waitpid(self._pid, 0)


def _unmount(calls: SystemCalls, directory: str) -> None:
    if not _is_mounted(directory):
        return
    try:
        calls.unmount(directory)
    except OSError as error:
        if error.errno != errno.EINVAL:  # somebody else has unmounted it
            raise


def _is_mounted(directory: str) -> bool:
    return any(point.directory == directory and point.kind == SUBTYPE for point in mount_table())
