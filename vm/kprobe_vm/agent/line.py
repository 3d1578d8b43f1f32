"""The line to the agent: QEMU's virtio port, or its second serial port where the guest's kernel has no virtio port.

The agent chooses one of them; the one that speaks first is the line.  The serial port carries packets, which
`protocol.h` describes: the guest's tty drops what it has no room for, so each packet waits for the answer to the last
one, and each has a checksum.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import zlib
from typing import Protocol

from kprobe_vm.agent.frames import ProtocolError

LINE_MOST = 2048  # bytes of a packet's payload: the guest's tty has room for 4096
_MAGIC = 0x4B
_DATA, _ACK, _BAD = 1, 2, 3
_HEAD = struct.Struct("<BBHI")


class Connection(Protocol):
    """What a channel needs of a socket."""

    def settimeout(self, value: float | None, /) -> None: ...
    def send(self, data: memoryview, /) -> int: ...
    def recv(self, size: int, /) -> bytes: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


def _packet(kind: int, payload: bytes) -> bytes:
    head = struct.pack("<BH", kind, len(payload))
    return _HEAD.pack(_MAGIC, kind, len(payload), zlib.crc32(payload, zlib.crc32(head))) + payload


class SerialLine:
    """A serial port as a socket: `send` and `recv` carry the payloads of packets.

    One thread calls `recv` continuously, as only it sees the answers; one thread at a time calls `send`.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._timeout: float | None = None
        self._held = bytearray()
        self._answered = threading.Condition()
        self._waits = False  # a packet has no answer yet
        self._over = False

    def settimeout(self, value: float | None, /) -> None:
        """Set the seconds that `send` and `recv` wait before they raise `TimeoutError`."""
        self._timeout = value
        self._socket.settimeout(value)

    def send(self, data: memoryview, /) -> int:
        """Send as much as fits a packet, once the last one was answered; return how much that is."""
        with self._answered:
            if not self._answered.wait_for(lambda: not self._waits or self._over, self._timeout):
                raise TimeoutError("the guest has not taken the last packet")
            if self._over:
                raise BrokenPipeError("the serial port is closed")
            self._waits = True
        part = bytes(data[:LINE_MOST])
        self._socket.sendall(_packet(_DATA, part))
        return len(part)

    def recv(self, size: int, /) -> bytes:
        """Return what arrived, b"" at the end; raise `ProtocolError` for a damaged packet, in either direction."""
        while True:
            try:
                data = self._socket.recv(size)
            except TimeoutError:
                raise
            except OSError:
                self._end()
                raise
            if not data:
                self._end()
                return b""
            try:
                if payload := self.take(data):
                    return payload
            except ProtocolError:
                self._end()
                raise

    def take(self, data: bytes) -> bytes:
        """Return the payloads of packets that these bytes complete; raise `ProtocolError` at a damaged one."""
        self._held += data
        payload = b""
        at = 0
        while len(self._held) - at >= _HEAD.size:
            magic, kind, length, checksum = _HEAD.unpack_from(self._held, at)
            if magic != _MAGIC or kind not in (_DATA, _ACK, _BAD) or length > LINE_MOST:
                raise ProtocolError(f"no packet on the serial port: {bytes(self._held[at : at + 32])!r}")
            end = at + _HEAD.size + length
            if len(self._held) < end:
                break
            part = bytes(self._held[at + _HEAD.size : end])
            if zlib.crc32(part, zlib.crc32(self._held[at + 1 : at + 4])) != checksum:
                raise ProtocolError(f"a packet of {length} bytes came damaged through the serial port")
            if kind == _BAD:
                raise ProtocolError(f"the guest says of the serial port: {part.decode('ascii', 'replace')}")
            if kind == _ACK:
                with self._answered:
                    self._waits = False
                    self._answered.notify()
            payload += part
            at = end
        del self._held[:at]
        return payload

    def shutdown(self, how: int, /) -> None:
        """End it both ways."""
        self._end()
        self._socket.shutdown(how)

    def close(self) -> None:
        """Close the port."""
        self._socket.close()

    def _end(self) -> None:
        with self._answered:
            self._over = True
            self._answered.notify_all()


class Either:
    """The two ports that a guest may have; the first that speaks becomes the line, and the other is closed.

    `port` names the line if it is known in advance, so that it can be used at once.
    """

    def __init__(self, virtio: socket.socket | None, serial: socket.socket, *, port: str = "") -> None:
        self._candidates: dict[str, socket.socket] = {"serial": serial}
        if virtio is not None:
            self._candidates["virtio"] = virtio
        self._timeout: float | None = None
        self._chosen: Connection | None = None
        self._lock = threading.Lock()
        if port:
            self._choose(port)

    def settimeout(self, value: float | None, /) -> None:
        """Set the seconds that `send` and `recv` wait before they raise `TimeoutError`."""
        self._timeout = value
        if self._chosen is not None:
            self._chosen.settimeout(value)

    def send(self, data: memoryview, /) -> int:
        """Send some of it; return how much.  Raise `TimeoutError` before either port has spoken."""
        if self._chosen is None:
            raise TimeoutError("the agent has not spoken yet")
        return self._chosen.send(data)

    def recv(self, size: int, /) -> bytes:
        """Return what arrived, b"" at the end."""
        while self._chosen is None:
            with self._lock:
                waiting = {end.fileno(): name for name, end in self._candidates.items() if end.fileno() >= 0}
            if not waiting:
                return b""
            poll = select.poll()
            for number in waiting:
                poll.register(number, select.POLLIN)
            came = poll.poll(None if self._timeout is None else self._timeout * 1000)
            if not came:
                raise TimeoutError
            self._choose(waiting[came[0][0]])
        return self._chosen.recv(size)

    def shutdown(self, how: int, /) -> None:
        """End it both ways."""
        if self._chosen is not None:
            self._chosen.shutdown(how)
            return
        for end in self._candidates.values():
            with contextlib.suppress(OSError):
                end.shutdown(how)

    def close(self) -> None:
        """Close what is left of both."""
        with self._lock:
            for end in self._candidates.values():
                end.close()

    def _choose(self, port: str) -> None:
        with self._lock:
            chosen = self._candidates[port]
            for name, end in self._candidates.items():
                if name != port:
                    end.close()
        line: Connection = SerialLine(chosen) if port == "serial" else chosen
        line.settimeout(self._timeout)
        self._chosen = line
