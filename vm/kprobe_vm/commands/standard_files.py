"""Connects our standard input, output and errors to a program in the guest."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from kprobe_vm.errors import MachineError

if TYPE_CHECKING:
    from kprobe_vm.agent.process import GuestProcess


STDIN, STDOUT, STDERR = range(3)
PIECE = 32768
_NAMES = {STDOUT: "standard output", STDERR: "standard error"}


def relayed(process: GuestProcess) -> int:
    """Relay the input and output of a program, started with `stdin=None`, until its end; return its status."""
    threading.Thread(target=_feed, args=(process,), name="kprobe-vm stdin", daemon=True).start()
    return process.relay(_write_to(STDOUT), _write_to(STDERR))


def _feed(process: GuestProcess) -> None:
    """Feed it our input as it comes, but not from a terminal that belongs to another job."""
    with suppress(OSError, MachineError):  # there is no reader there, or ours can't be read
        if not os.isatty(STDIN) or os.tcgetpgrp(STDIN) == os.getpgrp():
            while data := os.read(STDIN, PIECE):
                process.feed(data)
        process.feed(b"")


class _write_to:  # noqa: N801 - a function with its descriptor bound
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __call__(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, _NAMES[self.descriptor]) from error
