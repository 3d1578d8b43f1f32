"""Requests to the guest's agent and their replies, from any number of threads at once."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from errno import EINTR

from kprobe_vm.errors import ChannelClosed, MachineDied
from kprobe_vm.frames import WINDOW, Broken, Data, Decoder, Frame, Hello, Op, Reply, encode

__all__ = ["Channel", "Request"]

CANCEL_DEADLINE = 10.0  # seconds in which an interruptible system call must have ended after a cancel
SEND_DEADLINE = 20.0  # seconds that the guest may take no bytes
_RESULT = struct.Struct("<q")


class Request:
    """One request that was sent, and what has come back so far."""

    __slots__ = ("changed", "done", "eager", "failure", "id", "op", "out", "result", "started", "tail", "uncredited")

    def __init__(self, number: int, op: Op) -> None:
        self.id = number
        self.op = op
        self.eager = op is Op.STREAM  # whether somebody waits for each piece of output
        self.changed = threading.Condition()
        self.done = False
        self.result = 0
        self.tail = b""  # the data of the DONE frame
        self.out: dict[int, bytearray] = {}  # by enum Data
        self.started: bytes | None = None
        self.uncredited = 0  # bytes that were received and not yet given back as credit
        self.failure: MachineDied | None = None


class Channel:
    """The one connection to an agent.

    `lost` is called by the reading thread when the other side has closed, and returns the error that says why; all
    waiting requests and all later ones raise that.  `stuck` is called when a system call can't be interrupted.
    """

    def __init__(
        self,
        connection: socket.socket,
        *,
        lost: Callable[[str], MachineDied],
        stuck: Callable[[str], MachineDied],
    ) -> None:
        self._socket = connection
        self._socket.settimeout(SEND_DEADLINE)
        self._lost = lost
        self._stuck = stuck
        self._numbers = itertools.count(1)
        self._pending: dict[int, Request] = {}
        self._lock = threading.Lock()  # of _pending and failure
        self._sending = threading.Lock()
        self._greeted = threading.Condition()
        self.hello: Hello | None = None
        self.failure: MachineDied | None = None
        self.heard = time.monotonic()  # when the last frame came
        self._reader = threading.Thread(target=self._read, name="kprobe-vm channel", daemon=True)
        self._reader.start()

    # ---- for those who ask ----

    def wait_hello(self, deadline: float) -> Hello:
        """Wait for the agent's first words; raise `TimeoutError` after `deadline` seconds, or the failure."""
        with self._greeted:
            self._greeted.wait_for(lambda: self.hello is not None or self.failure is not None, deadline)
        if self.failure is not None:
            raise self.failure.again()
        if self.hello is None:
            raise TimeoutError
        return self.hello

    def call(self, op: Op, *parts: bytes, deadline: float | None = None) -> Request:
        """Send a request and wait for its end; `result` may be minus an errno.

        Raise `TimeoutError` if the deadline (seconds) passes and the call could be cancelled, else what `stuck` says.
        """
        request = self.send(op, *parts)
        if not self.wait(request, deadline):
            self._interrupt(request, f"{op.name.lower()} has not ended in {deadline:.0f} s")
            raise TimeoutError(f"{op.name.lower()} was cancelled after {deadline:.0f} s")
        return request

    def send(self, op: Op, *parts: bytes) -> Request:
        """Send a request without waiting for anything; raise the failure if there is one."""
        request = Request(next(self._numbers) & 0xFFFFFFFF, op)
        frame = encode(request.id, op, *parts)
        with self._lock:
            if self.failure is not None:
                raise self.failure.again()
            self._pending[request.id] = request
        try:
            self._transmit(frame)
        except BaseException:
            self.forget(request)
            raise
        return request

    def wait(self, request: Request, timeout: float | None) -> bool:
        """Wait for a request's end, taking in its output; return whether it has ended.  Interrupted: cancel it."""
        end = None if timeout is None else time.monotonic() + timeout
        try:
            while True:
                with request.changed:
                    request.changed.wait_for(
                        lambda: request.done or request.failure is not None or request.uncredited >= WINDOW // 2,
                        None if end is None else max(0.0, end - time.monotonic()),
                    )
                    done, failure = request.done, request.failure
                if done:
                    return True
                if failure is not None:
                    raise failure.again()
                if not self.give_credit(request) and end is not None and time.monotonic() >= end:
                    return False
        except BaseException:  # Ctrl-C in the waiting thread as well
            self.forget(request)
            with contextlib.suppress(MachineDied, OSError):
                self.cancel(request)
            raise

    def wait_started(self, request: Request, timeout: float) -> bool:
        """Wait until a stream is open or a process runs (or the request has ended); return whether it came to that."""
        with request.changed:
            came = request.changed.wait_for(
                lambda: request.done or request.failure is not None or request.started is not None, timeout
            )
        if request.failure is not None:
            raise request.failure.again()
        if not came:
            self._interrupt(request, f"{request.op.name.lower()} has not begun in {timeout:.0f} s")
        return came

    def give_credit(self, request: Request, least: int = WINDOW // 2) -> bool:
        """Let the agent send as much again as was received, if that is at least `least` bytes."""
        with request.changed:
            amount = request.uncredited
            if amount < least or request.done:
                return False
            request.uncredited = 0
        self._transmit(encode(request.id, Op.CREDIT, amount.to_bytes(4, "little")))
        return True

    def cancel(self, request: Request) -> None:
        """Interrupt a request: its system call gives EINTR, its process is killed.  Return without waiting."""
        if not request.done:
            self._transmit(encode(next(self._numbers) & 0xFFFFFFFF, Op.CANCEL, request.id.to_bytes(4, "little")))

    def forget(self, request: Request) -> None:
        """Ignore whatever else comes for a request."""
        with self._lock:
            self._pending.pop(request.id, None)

    @property
    def is_awaited(self) -> bool:
        """Whether any request is under way."""
        return bool(self._pending)

    def fail(self, error: MachineDied) -> None:
        """Make every waiting and every later request raise this error; the first failure stands."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure = error
            pending = list(self._pending.values())
            self._pending.clear()
        for request in pending:
            with request.changed:
                request.failure = error
                request.changed.notify_all()
        with self._greeted:
            self._greeted.notify_all()

    def close(self) -> None:
        """Close the connection; the caller has called `fail` before."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._reader:
            self._reader.join(5)
        self._socket.close()

    # ---- within ----

    def _interrupt(self, request: Request, what: str) -> None:
        self.cancel(request)
        with request.changed:
            ended = request.changed.wait_for(lambda: request.done or request.failure is not None, CANCEL_DEADLINE)
        self.forget(request)
        if request.failure is not None:
            raise request.failure.again()
        if not ended:
            raise self._stuck(f"{what}, and could not be cancelled")

    def _transmit(self, frame: bytes) -> None:
        try:
            with self._sending:
                self._socket.sendall(frame)
        except TimeoutError as error:
            raise self._stuck(f"the guest has taken no request for {SEND_DEADLINE:.0f} s") from error
        except OSError as error:
            # the reader sees the same end and knows why
            self._reader.join(10)
            raise (self.failure.again() if self.failure else ChannelClosed(str(error))) from error

    def _read(self) -> None:
        decoder = Decoder()
        reason = ""
        while True:
            try:
                data = self._socket.recv(262144)
            except TimeoutError:
                continue
            except OSError as error:
                data, reason = b"", os.strerror(error.errno or 0)
            if not data:
                break
            self.heard = time.monotonic()
            try:
                for frame in decoder.feed(data):
                    self._take(frame)
            except Broken as error:
                reason = f"broken protocol: {error}"
                break
        if self.failure is None:
            self.fail(self._lost(reason))

    def _take(self, frame: Frame) -> None:
        if frame.kind == Reply.HELLO:
            hello = Hello.parse(frame.payload)
            with self._greeted:
                self.hello = hello
                self._greeted.notify_all()
            return
        with self._lock:
            request = self._pending.pop(frame.id, None) if frame.kind == Reply.DONE else self._pending.get(frame.id)
        if request is None:
            return  # late: nobody waits for it any more
        with request.changed:
            if frame.kind == Reply.DONE:
                if len(frame.payload) < 8:
                    raise Broken("short DONE")
                (request.result,) = _RESULT.unpack_from(frame.payload)
                request.tail = frame.payload[8:]
                request.done = True
            elif frame.kind == Reply.DATA and frame.payload:
                which = frame.payload[0]
                if which == Data.STARTED:
                    request.started = frame.payload[1:]
                else:
                    request.out.setdefault(which, bytearray()).extend(memoryview(frame.payload)[1:])
                    request.uncredited += len(frame.payload) - 1
                    if request.uncredited < WINDOW // 2 and not request.eager:
                        return  # nobody need wake for that
            else:
                raise Broken(f"frame of kind {frame.kind}")
            request.changed.notify_all()


def was_interrupted(request: Request) -> bool:
    """Whether a request ended because it was cancelled."""
    return request.done and request.result == -EINTR
