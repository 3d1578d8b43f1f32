"""One request to the agent, and the replies that it may get; anything else breaks the protocol.

All replies are checked here, so that no odd one gets beyond the channel.
"""

from __future__ import annotations

import os
import struct
import threading

from kprobe_vm.agent.frames import WINDOW, Data, Op, ProtocolError, Reply
from kprobe_vm.errors import MachineDied

LARGEST = 256 << 20  # bytes of output that are collected for one request
STAT_SIZE = 48
_RESULT = struct.Struct("<q")
_MAX_ERRNO = 4095  # include/linux/err.h
_INT_MAX = 2**31 - 1
_POLL_MASK = 0x7FFF
_WITH_OUTPUT = (Op.READ_FILE, Op.READ_EACH, Op.LIST, Op.STREAM, Op.RUN)
_WITH_TAIL = (Op.READ_FILE, Op.READ_EACH, Op.STREAM, Op.READ, Op.STAT, Op.PING)


class Request:
    """One request that was sent, and what has come back so far.

    `payload` limits the reply: a READ's is no longer than requested, a READ_EACH's has as many files.  `stream` is the
    stream of a LOOK: both wake the thread that waits for the look, which must go on giving the stream credit.
    """

    __slots__ = (
        *("changed", "done", "eager", "failure", "id", "op", "out", "received", "result", "started", "stream", "tail"),
        *("texts", "uncredited", "_most"),
    )

    def __init__(self, number: int, op: Op, payload: bytes = b"", stream: Request | None = None) -> None:
        self.id = number
        self.op = op
        self.eager = op is Op.STREAM  # whether somebody waits for each piece of output
        self.stream = stream
        self.changed: threading.Condition = threading.Condition() if stream is None else stream.changed
        self.done = False
        self.result = 0
        self.tail = b""  # the data of the DONE frame
        self.out: dict[int, bytearray] = {}  # by enum Data
        self.started: bytes | None = None
        self.received = 0  # bytes of output so far
        self.uncredited = 0  # bytes received and not yet credited
        self.failure: MachineDied | None = None
        self.texts: list[bytes | None] = []  # of a READ_EACH that has ended: None for a file that was refused
        self._most = 0  # bytes or files requested; of a LOOK, what its stream had received before
        if op is Op.READ:
            self._most = int.from_bytes(payload[4:8], "little")
        elif op is Op.READ_EACH:
            self._most = payload.count(b"\0", 4)
        elif stream is not None:
            self._most = stream.received

    @property
    def held(self) -> int:
        """The number of bytes of output that nobody has taken yet."""
        return sum(map(len, self.out.values()))

    @property
    def is_due(self) -> bool:
        """Whether enough was received to give the agent credit again."""
        return self.uncredited >= WINDOW // 2 and not self.done

    def take(self, kind: int, payload: bytes) -> bool:
        """Take a frame; return whether anyone may wait for it.  Raise `ProtocolError`.  The caller holds `changed`."""
        if kind == Reply.DONE:
            self._take_done(payload)
            return True
        if len(payload) < 1 or self.op not in _WITH_OUTPUT:
            raise ProtocolError(f"data of {len(payload)} bytes for {self.op.name}")
        which = payload[0]
        if which == Data.STARTED:
            self._take_started(payload[1:])
            return True
        if which not in (Data.OUT, Data.ERR) or (which == Data.ERR and self.op is not Op.RUN) or len(payload) < 2:
            raise ProtocolError(f"{len(payload) - 1} bytes of data of kind {which} for {self.op.name}")
        if self.op in (Op.STREAM, Op.RUN) and self.started is None:
            raise ProtocolError(f"output of {self.op.name} before its start")
        self.received += len(payload) - 1
        self.uncredited += len(payload) - 1
        if self.uncredited > WINDOW:
            raise ProtocolError(f"more output of {self.op.name} than the {WINDOW} bytes that it had credit for")
        self.out.setdefault(which, bytearray()).extend(memoryview(payload)[1:])
        return self.eager or self.uncredited >= WINDOW // 2  # otherwise nobody needs to wake up

    def _take_started(self, pid: bytes) -> None:
        if self.op not in (Op.STREAM, Op.RUN) or self.started is not None:
            raise ProtocolError(f"an unexpected start of {self.op.name}")
        if len(pid) != (4 if self.op is Op.RUN else 0):
            raise ProtocolError(f"a start of {self.op.name} with {len(pid)} bytes")
        if self.op is Op.RUN and not 0 < int.from_bytes(pid, "little") <= _INT_MAX:
            raise ProtocolError(f"process id {int.from_bytes(pid, 'little')}")
        self.started = pid

    def _take_done(self, payload: bytes) -> None:
        if len(payload) < _RESULT.size:
            raise ProtocolError("short DONE")
        (result,) = _RESULT.unpack_from(payload)
        tail = payload[_RESULT.size :]
        if not self._is_possible(result, tail):
            raise ProtocolError(f"{self.op.name} can't end with {result} and {len(tail)} bytes")
        self.result = result
        self.tail = tail
        self.done = True

    def _is_possible(self, result: int, tail: bytes) -> bool:
        if result < 0:
            return result >= -_MAX_ERRNO and not tail
        return (not tail or self.op in _WITH_TAIL) and self._fits(result, tail)

    def _fits(self, result: int, tail: bytes) -> bool:
        match self.op:
            case Op.READ:
                return result == len(tail) <= self._most
            case Op.READ_EACH:
                texts = _texts(bytes(self.out.get(Data.OUT, b"")) + tail)
                self.texts = texts or []
                return texts is not None and result == len(texts) == self._most
            case Op.STAT:
                return result == 0 and len(tail) == STAT_SIZE
            case Op.OPEN | Op.LIST | Op.WRITE | Op.WRITE_FILE:
                return result <= _INT_MAX
            case Op.POLL:
                return result <= _POLL_MASK
            case Op.RUN:
                return self.started is not None and result < 2**16 and (os.WIFEXITED(result) or os.WIFSIGNALED(result))
            case Op.LOOK:  # 1 comes after the data that it reports
                return result == 0 or (result == 1 and self.stream is not None and self.stream.received > self._most)
            case Op.LSEEK:
                return True
            case _:
                return result == 0


def _texts(answer: bytes) -> list[bytes | None] | None:
    """Split a READ_EACH's reply: texts after their lengths; a negative errno has no text.  None if it is incomplete."""
    texts: list[bytes | None] = []
    at = 0
    while at < len(answer):
        length = int.from_bytes(answer[at : at + 8], "little", signed=True)
        at += 8
        texts.append(answer[at : at + length] if length >= 0 else None)
        at += max(length, 0)
    return texts if at == len(answer) else None
