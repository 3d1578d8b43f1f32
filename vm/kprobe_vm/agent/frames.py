"""The frames that host and agent exchange: u32 payload length, u32 request id, u8 kind, payload; little endian.

The agent is the other reader and writer; `protocol.h` says what each side may expect.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

__all__ = [
    *("FRAME_CAP", "PROTOCOL", "WINDOW", "Data", "Decoder", "Frame", "Hello", "Op", "ProtocolError", "Reply", "encode")
]

PROTOCOL = 4
FRAME_CAP = 1 << 20  # bytes of payload that either side accepts
WINDOW = 256 * 1024  # bytes of DATA that the agent may send before it is given more credit
UTS_LENGTH = 64  # __NEW_UTS_LEN, include/uapi/linux/utsname.h
_HEADER = struct.Struct("<IIB")
_PLACE = re.compile(r"(/[\w.-]{1,64}){1,8}")


class Op(IntEnum):
    """What a request asks for."""

    PING = 1
    OPEN = 2
    CLOSE = 3
    READ = 4
    WRITE = 5
    LSEEK = 6
    POLL = 7
    LIST = 8
    STAT = 9
    MKDIR = 10
    RMDIR = 11
    TRUNCATE = 12
    UNLINK = 13
    WRITE_FILE = 14
    READ_FILE = 15
    STREAM = 16
    RUN = 17
    KILL = 18
    CANCEL = 19
    CREDIT = 20
    SET_CLOCK = 21
    READ_EACH = 22
    LOOK = 23
    INPUT = 24


class Reply(IntEnum):
    """What a frame from the agent is."""

    DONE = 0  # s64 result or minus the errno, then data; ends the request
    DATA = 1  # u8 which (enum Data), then bytes
    HELLO = 2


class Data(IntEnum):
    """What the bytes of a DATA frame are."""

    STARTED = 0  # of STREAM: it is open; of RUN: u32 pid
    OUT = 1
    ERR = 2


class ProtocolError(Exception):
    """The other side broke the protocol."""


class Frame(NamedTuple):
    """One frame as read."""

    id: int
    kind: int
    payload: bytes


class Hello(NamedTuple):
    """What the agent reports about itself and its kernel when it starts."""

    release: str  # uname -r
    version: str  # uname -v
    page_size: int
    cpus: int
    tracing: str = "/sys/kernel/tracing"  # the directory of the tracefs: before 4.1 below debugfs
    port: str = "virtio"  # the port that the agent uses, or "serial"

    @classmethod
    def parse(cls, payload: bytes) -> Hello:
        """Read a HELLO frame; raise `ProtocolError` if the agent speaks another protocol."""
        try:
            protocol, page_size, cpus, _window = struct.unpack_from("<IIII", payload)
        except struct.error as error:
            raise ProtocolError(f"unreadable hello {payload[:64]!r}") from error
        if protocol != PROTOCOL:
            raise ProtocolError(f"the agent speaks protocol {protocol}, not {PROTOCOL}")
        try:
            release, version, tracing, port, end = payload[16:].decode("ascii").split("\0")
        except ValueError as error:
            raise ProtocolError(f"unreadable hello {payload[:64]!r}") from error
        if end or not release or max(len(release), len(version)) > UTS_LENGTH or not (release + version).isprintable():
            raise ProtocolError(f"unreadable hello {payload[:64]!r}")
        if not _PLACE.fullmatch(tracing) or port not in ("virtio", "serial"):
            raise ProtocolError(f"unreadable hello {payload[:64]!r}")
        return cls(release, version, page_size, cpus, tracing, port)


def encode(request: int, kind: int, *parts: bytes) -> bytes:
    """Return one frame; raise `ValueError` if the payload is longer than the agent accepts."""
    length = sum(map(len, parts))
    if length > FRAME_CAP:
        raise ValueError(f"a frame of {length} bytes is longer than {FRAME_CAP}")
    return b"".join((_HEADER.pack(length, request, kind), *parts))


class Decoder:
    """Cuts what arrives into frames."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterable[Frame]:
        """Return the frames that are complete with these bytes; raise `ProtocolError` at one that is too long."""
        held = self._held
        held += data
        frames = []
        at = 0
        while len(held) - at >= _HEADER.size:
            length, request, kind = _HEADER.unpack_from(held, at)
            if length > FRAME_CAP + 16:
                raise ProtocolError(f"frame of {length} bytes, kind {kind}")
            end = at + _HEADER.size + length
            if len(held) < end:
                break
            frames.append(Frame(request, kind, bytes(held[at + _HEADER.size : end])))
            at = end
        del held[:at]
        return frames
