"""Requests to the guest's agent and their replies, from any number of threads at once."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable
from errno import EFBIG

from kprobe_vm.agent.frames import WINDOW, Decoder, Frame, Hello, Op, ProtocolError, Reply, encode
from kprobe_vm.agent.line import Connection
from kprobe_vm.agent.request import LARGEST, Request
from kprobe_vm.errors import ChannelClosed, MachineDied
from kprobe_vm.host.pace import Deadline, Pace

__all__ = ["CANCEL_DEADLINE", "Channel", "Request"]

# Seconds, counted as the guest gets them:
CANCEL_DEADLINE = 10.0  # within which an interruptible system call must end after a cancel
SEND_DEADLINE = 20.0  # for which the guest may accept no bytes
_NUMBERS = 0xFFFFFFFF
TURN = 0.5  # after which a waiting sender or receiver looks at the state again


class Channel:
    """The one connection to an agent.

    `lost` is called by the reading thread when the other side has closed, and returns the error that says why; all
    waiting requests and all later ones raise that.  Bytes that no agent sends end the connection too, and the error's
    cause says what they were.  `stuck` is called when a system call can't be interrupted.  `patience` is how many
    seconds the guest may take to end a call that was cancelled, and to take any bytes; all deadlines count as `pace`
    does.  `greets` is false where the agent has said hello to somebody before.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        lost: Callable[[str], MachineDied],
        stuck: Callable[[str], MachineDied],
        pace: Pace | None = None,
        patience: tuple[float, float] = (CANCEL_DEADLINE, SEND_DEADLINE),
        greets: bool = True,
    ) -> None:
        self._socket = connection
        self._socket.settimeout(TURN)
        self._pace = pace or Pace()
        self._cancel_deadline, self._send_deadline = patience
        self._greets = greets
        self._last = 0  # the highest number of a request that was sent
        self._lost = lost
        self._stuck = stuck
        self._numbers = itertools.count(1)
        self._pending: dict[int, Request] = {}
        self._lock = threading.Lock()  # of _pending and failure
        self._sending = threading.Lock()
        self._greeted = threading.Condition()
        self.hello: Hello | None = None
        self.failure: MachineDied | None = None
        self.last_frame = time.monotonic()  # when the last frame came
        self._reader = threading.Thread(target=self._read, name="kprobe-vm channel", daemon=True)
        self._reader.start()

    # ---- requests ----

    def wait_hello(self, deadline: float) -> Hello:
        """Wait for the agent's first words; raise `TimeoutError` after `deadline` seconds, or the failure."""
        end = Deadline(self._pace, deadline)
        with self._greeted:
            while self.hello is None and self.failure is None and (left := end.left()) > 0:
                self._greeted.wait(left)
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
        if not self._wait(request, Deadline(self._pace, deadline).left if deadline is not None else None):
            self.settle(request, f"{op.name.lower()} has not ended in {deadline:.0f} s")
            raise TimeoutError(f"{op.name.lower()} was cancelled after {deadline:.0f} s")
        return request

    def send(self, op: Op, *parts: bytes, stream: Request | None = None) -> Request:
        """Send a request, a LOOK for a stream, without waiting for anything; raise the failure if there is one."""
        payload = b"".join(parts)
        request = Request(self._number(), op, payload, stream)
        frame = encode(request.id, op, payload)
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
        """Wait for a request's end, taking in its output; return whether it has ended.  Interrupted: cancel it.

        Raise `OSError` (EFBIG) if the output is more than 256 MiB.
        """
        if timeout is None:
            return self._wait(request, None)
        end = time.monotonic() + timeout
        return self._wait(request, lambda: end - time.monotonic())

    def wait_patiently(self, request: Request, deadline: float) -> bool:
        """Wait as `wait` does; the deadline counts seconds as the guest gets them."""
        return self._wait(request, Deadline(self._pace, deadline).left)

    def wait_started(self, request: Request, timeout: float) -> bool:
        """Wait until a stream is open or a process runs; return whether it does, or the request has ended."""
        end = Deadline(self._pace, timeout)

        def came() -> bool:
            return request.done or request.failure is not None or request.started is not None

        with request.changed:
            while not came() and (left := end.left()) > 0:
                request.changed.wait(left)
        if request.failure is not None:
            raise request.failure.again()
        if not came():
            self.settle(request, f"{request.op.name.lower()} has not begun in {timeout:.0f} s")
        return came()

    def give_credit(self, request: Request, least: int = WINDOW // 2) -> bool:
        """Give the agent credit for the bytes received, if they are at least `least`."""
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
            self._transmit(encode(self._number(), Op.CANCEL, request.id.to_bytes(4, "little")))

    def settle(self, request: Request, what: str) -> None:
        """Cancel a request, and wait for its end; if it doesn't end, forget it and raise what `stuck` says."""
        self.cancel(request)
        end = Deadline(self._pace, self._cancel_deadline)
        with request.changed:
            while not (request.done or request.failure is not None) and (left := end.left()) > 0:
                request.changed.wait(left)
            ended = request.done
        self.forget(request)
        if request.failure is not None:
            raise request.failure.again()
        if not ended:
            raise self._given_up(self._stuck(f"{what}, and could not be cancelled"))

    def forget(self, request: Request) -> None:
        """Ignore all further replies to a request."""
        with self._lock:
            self._pending.pop(request.id, None)

    @property
    def is_awaited(self) -> bool:
        """Whether any request is under way."""
        return bool(self._pending)

    def fail(self, error: MachineDied) -> None:
        """Make every waiting and every later request raise this error; the first failure counts."""
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

    # ---- internals ----

    def _wait(self, request: Request, left: Callable[[], float] | None) -> bool:
        source = request.stream or request
        try:
            while True:
                with request.changed:
                    while not (request.done or request.failure is not None or source.is_due):
                        seconds = None if left is None else left()
                        if seconds is not None and seconds <= 0:
                            break
                        request.changed.wait(seconds)
                    done, failure, held = request.done, request.failure, source.held
                if done:
                    return True
                if failure is not None:
                    raise failure.again()
                if held > LARGEST:
                    raise OSError(EFBIG, os.strerror(EFBIG))
                # endless output doesn't extend the deadline
                if left is not None and left() <= 0:
                    return False
                self.give_credit(source)
        except BaseException:  # Ctrl-C in the waiting thread as well
            self.forget(request)
            with contextlib.suppress(MachineDied, OSError):
                self.cancel(request)
            raise

    def _number(self) -> int:
        with self._lock:
            self._last = number = next(self._numbers)
        return number & _NUMBERS

    def _given_up(self, error: MachineDied) -> MachineDied:
        self.fail(error)
        return error

    def _transmit(self, frame: bytes) -> None:
        try:
            with self._sending:
                if self.failure is not None:
                    raise self.failure.again()
                self._send_all(frame)
        except TimeoutError as error:
            words = f"the guest has taken no request for {self._send_deadline:.0f} s"
            raise self._given_up(self._stuck(words)) from error
        except OSError as error:
            # the reader sees the same end and knows why
            self._reader.join(10)
            raise (self.failure.again() if self.failure else ChannelClosed(str(error))) from error

    def _send_all(self, frame: bytes) -> None:
        unsent = memoryview(frame)
        end = Deadline(self._pace, self._send_deadline)
        while unsent:
            try:
                unsent = unsent[self._socket.send(unsent) :]
            except TimeoutError:
                if end.left() <= 0:
                    raise

    def _read(self) -> None:
        self._pace.count(threading.get_native_id())
        reason = ""
        cause: Exception | None = None
        try:
            self._read_frames()
        except ProtocolError as error:
            reason, cause = f"broken protocol: {error}", error
        except OSError as error:
            reason, cause = os.strerror(error.errno or 0), error
        except Exception as error:  # after any error nobody must go on waiting
            reason, cause = f"broken protocol: {error!r}", error
        if self.failure is None:
            try:
                failure = self._lost(reason)
            except Exception as error:
                failure = ChannelClosed(f"the connection to the guest's agent was lost: {reason or error!r}")
            failure.__cause__ = failure.__cause__ or cause
            self.fail(failure)

    def _read_frames(self) -> None:
        decoder = Decoder()
        while True:
            try:
                data = self._socket.recv(262144)
            except TimeoutError:
                continue
            if not data:
                return
            self.last_frame = time.monotonic()
            for frame in decoder.feed(data):
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        if frame.kind == Reply.HELLO:
            self._take_hello(frame)
            return
        if frame.kind not in (Reply.DONE, Reply.DATA) or not frame.id <= min(self._last, _NUMBERS):
            raise ProtocolError(f"frame of kind {frame.kind} for request {frame.id}")
        with self._lock:
            request = self._pending.get(frame.id)
        if request is None:
            return  # late: nobody waits for this reply any more
        with request.changed:
            is_awaited = request.take(frame.kind, frame.payload)
            if request.done:
                self.forget(request)
            if is_awaited:
                request.changed.notify_all()

    def _take_hello(self, frame: Frame) -> None:
        if not self._greets or self.hello is not None or frame.id:
            raise ProtocolError("a second hello")
        hello = Hello.parse(frame.payload)
        with self._greeted:
            self.hello = hello
            self._greeted.notify_all()
