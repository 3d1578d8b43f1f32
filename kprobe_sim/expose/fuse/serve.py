"""`kprobe-sim mount`: the simulator on a directory, for every program on the machine."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kprobe_sim.expose.fuse.keeper import Keeper
from kprobe_sim.expose.fuse.mount import (
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
from kprobe_sim.expose.fuse.server import FuseServer

if TYPE_CHECKING:
    from kprobe_sim.kernel.simulated import SimulatedKernel

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(kernel: SimulatedKernel, directory: str, started: Callable[[], None] = lambda: None) -> int:
    """Mount on a directory and answer until SIGINT, SIGTERM, SIGHUP or an unmount; return 0.

    `started` is called when the files are there.  Raises CannotMount if this user may not mount here, or `directory`
    isn't a directory.
    """
    directory = os.path.realpath(directory)
    if not os.path.isdir(directory):
        raise CannotMount(f"{directory} is not a directory")
    # blocked until there is a handler; if a signal kills this process, the keeper unmounts
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        mounted = _Helped(directory) if os.geteuid() != 0 else _Direct(directory, kernel.root.mode)
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        raise
    # the kernel shows what the helper mounts only to the user who mounted it, so the files belong to that user
    server = FuseServer(kernel, mounted.descriptor, owner=(os.geteuid(), os.getegid()))
    old = {number: signal.signal(number, lambda *_: server.stop()) for number in _ENDING}
    old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: mounted.keeper.renew())
    thread = threading.Thread(target=server.serve, name="fuse", daemon=True)
    try:
        thread.start()
        started()
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        print(
            f"kprobe-sim: {kernel.release} on {directory}; interrupt (Ctrl-C) to unmount", file=sys.stderr, flush=True
        )
        thread.join()
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        mounted.unmount()
        mounted.keeper.dismiss()
        for number, handler in old.items():
            signal.signal(number, handler)
    return 0


class _Helped:
    """A mount that fusermount3 makes and unmounts."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._before = _mounts(directory)
        self.keeper = Keeper(self.unmount)
        try:
            self.descriptor = mount_with_helper(directory, self.keeper.pipe)
        except BaseException:
            self.unmount()
            self.keeper.dismiss()
            raise

    def unmount(self) -> None:
        """Unmount it, if it is mounted."""
        if _mounts(self._directory) > self._before:
            unmount_with_helper(self._directory)


class _Direct:
    """A mount that root makes and unmounts directly."""

    def __init__(self, directory: str, root_mode: int) -> None:
        self._calls = SystemCalls()
        self._directory = directory
        self._before = _mounts(directory)
        self.descriptor = open_device()
        self.keeper = Keeper(self.unmount)
        try:
            mount_fuse(self._calls, self.descriptor, directory, root_mode)
        except BaseException as error:
            os.close(self.descriptor)
            self.unmount()
            self.keeper.dismiss()
            if isinstance(error, OSError):
                raise CannotMount(f"mounting on {directory}: {explain(error)}") from None
            raise

    def unmount(self) -> None:
        """Unmount it, if it is mounted."""
        if _mounts(self._directory) <= self._before:
            return
        try:
            self._calls.unmount(self._directory)
        except OSError as error:
            if error.errno != errno.EINVAL:  # somebody else has unmounted it
                raise


def _mounts(directory: str) -> int:
    """Return how many simulators are mounted on a directory, one over another."""
    return sum(point.directory == directory and point.kind == SUBTYPE for point in mount_table())
