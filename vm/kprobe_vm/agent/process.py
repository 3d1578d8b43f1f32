"""Programs that run in the guest."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence

from kprobe_vm.agent.channel import Channel
from kprobe_vm.agent.frames import Data, Op
from kprobe_vm.agent.tracefs import refuse

ENVIRONMENT = {"PATH": "/bin:/sbin:/usr/bin:/usr/sbin", "HOME": "/root", "TERM": "dumb", "LC_ALL": "C"}
START_DEADLINE = 60.0
_CAPTURE, _PIPED = 1, 2


class GuestProcess:
    """A program that was started in the guest; `pid` is its process id there.

    Its standard input is a file of the guest, or None for what `feed` is given.  Processes that it leaves behind go on,
    but nothing waits for them.  With `capture` its output is collected during `wait`; a program that writes more than
    256 KiB while nobody waits for it blocks, as with a pipe.
    """

    def __init__(
        self,
        channel: Channel,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str | None = "/dev/null",
        capture: bool = True,
        deadline: float = START_DEADLINE,
    ) -> None:
        """Start it; raise `TimeoutError` after `deadline` seconds, `OSError` if the guest's kernel refuses."""
        self.args = list(argv)
        self._deadline = deadline
        self._channel = channel
        environment = {**ENVIRONMENT, **(env or {})}
        strings = [cwd or "/", stdin or "", *self.args, *(f"{name}={value}" for name, value in environment.items())]
        if not self.args or any("\0" in text for text in strings):
            raise ValueError("an empty command, or a null byte in it")
        self._request = channel.send(
            Op.RUN,
            struct.pack("<III", _CAPTURE * capture | _PIPED * (stdin is None), len(self.args), len(environment)),
            b"".join(os.fsencode(text) + b"\0" for text in strings),
        )
        if not channel.wait_started(self._request, deadline):
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), self.args[0])
        if self._request.started is None:
            refuse(self._request, self.args[0])
        self.pid = int.from_bytes(self._request.started, "little")

    @property
    def returncode(self) -> int | None:
        """The exit status, minus the signal that ended it, or None while it runs."""
        if not self._request.done:
            return None
        if self._request.result < 0:  # cancelled before it was reaped
            return -int(signal.SIGKILL)
        return os.waitstatus_to_exitcode(self._request.result)

    @property
    def stdout(self) -> bytes:
        """What it has written to its standard output so far."""
        return self._output(Data.OUT)

    @property
    def stderr(self) -> bytes:
        """What it has written to its standard error so far."""
        return self._output(Data.ERR)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return `returncode`; raise `subprocess.TimeoutExpired`."""
        if not self._channel.wait(self._request, timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0, self.stdout, self.stderr)
        status = self.returncode
        assert status is not None
        return status

    def relay(self, out: Callable[[bytes], object], err: Callable[[bytes], object]) -> int:
        """Hand on the output as it comes, until the end; return `returncode`."""
        request = self._request
        while True:
            with request.changed:
                request.eager = True
                request.changed.wait_for(lambda: request.out or request.done or request.failure is not None)
                pieces = {which: bytes(data) for which, data in request.out.items()}
                request.out.clear()
            for which, data in pieces.items():
                (err if which == Data.ERR else out)(data)
            if not pieces:
                return self.wait()
            self._channel.give_credit(request)

    def feed(self, data: bytes) -> None:
        """Write to its standard input, or end it with b""; return once the pipe has taken all of it.

        Raise `BrokenPipeError` if nobody reads it any more.
        """
        request = self._channel.send(Op.INPUT, self._request.id.to_bytes(4, "little"), data)
        self._channel.wait(request, None)
        if request.result < 0:
            refuse(request, self.args[0])

    def kill(self, signal_number: int = signal.SIGKILL) -> None:
        """Send a signal to its process group; do nothing if it has ended."""
        request = self._channel.call(
            Op.KILL, struct.pack("<Ii", self._request.id, signal_number), deadline=self._deadline
        )
        if request.result < 0 and request.result != -errno.ESRCH:
            refuse(request, self.args[0])

    def settle(self) -> None:
        """Wait for the end of a killed program, and ignore its further replies."""
        self._channel.settle(self._request, f"{self.args[0]} was killed and has not ended")

    def _output(self, which: Data) -> bytes:
        with self._request.changed:
            return bytes(self._request.out.get(which, b""))
