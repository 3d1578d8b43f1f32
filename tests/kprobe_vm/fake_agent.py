"""An agent that misbehaves: it answers a channel's requests with frames that are right, mutated or made up.

python tests/kprobe_vm/fake_agent.py SECONDS [SEED]     says what became of that
"""

from __future__ import annotations

import collections
import contextlib
import random
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

from kprobe_vm.agent.channel import Channel
from kprobe_vm.agent.frames import PROTOCOL, WINDOW, Data, Op, Reply
from kprobe_vm.agent.process import GuestProcess
from kprobe_vm.agent.tracefs import GuestTracefs
from kprobe_vm.errors import ChannelClosed, MachineDied

HEADER = struct.Struct("<IIB")
PATIENCE = 0.2  # seconds of each deadline
HANG = 8.0  # seconds after which a call that should have ended long ago is called hung
ODD = (-1, 0, 1, -22, -4095, -4096, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63))


def frame(number: int, kind: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(len(payload), number & 0xFFFFFFFF, kind & 0xFF) + payload


def done(number: int, result: int, tail: bytes = b"") -> bytes:
    return frame(number, Reply.DONE, struct.pack("<q", result) + tail)


def data(number: int, which: int, content: bytes) -> bytes:
    return frame(number, Reply.DATA, bytes([which]) + content)


def hello(release: bytes = b"6.1.0-54-cloud-amd64", version: bytes = b"#1 SMP") -> bytes:
    return frame(
        0, Reply.HELLO, struct.pack("<IIII", PROTOCOL, 4096, 1, WINDOW) + release + b"\0" + version + b"\0/t\0virtio\0"
    )


def right(number: int, op: int, about: int) -> list[bytes]:  # noqa: C901 - one case for each operation
    """What an agent answers; `about` is the request that a LOOK or a CANCEL names.  Every other stream goes on."""
    match op:
        case Op.STAT:
            return [done(number, 0, bytes(48))]
        case Op.READ:
            return [done(number, 5, b"hello")]
        case Op.OPEN:
            return [done(number, 7)]
        case Op.READ_FILE:
            return [data(number, Data.OUT, b"x" * 100), done(number, 0, b"rest")]
        case Op.READ_EACH:
            refused, text = struct.pack("<q", -2), struct.pack("<q", 4) + b"text"
            return [data(number, Data.OUT, refused), done(number, 2, text)]
        case Op.LIST:
            return [data(number, Data.OUT, b"one\0two\0"), done(number, 2)]
        case Op.STREAM:
            start = [data(number, Data.STARTED, b""), data(number, Data.OUT, b"a line\n")]
            return start if number % 2 else [*start, done(number, 0, b"end")]
        case Op.LOOK:
            return [data(about, Data.OUT, b"late\n"), done(number, 1)] if number % 3 else [done(number, 0)]
        case Op.CANCEL:
            return [done(about, -4), done(number, 0)]
        case Op.RUN:
            start, out = data(number, Data.STARTED, struct.pack("<I", 99)), data(number, Data.OUT, b"out")
            return [start, out, data(number, Data.ERR, b"err"), done(number, 256)]
        case Op.CREDIT:
            return []
        case _:
            return [done(number, 0)]


class FakeAgent:
    """Serves one end of a socket pair until the other is closed; `sent` counts its frames."""

    def __init__(self, end: socket.socket, choices: random.Random) -> None:
        self.sent = 0
        self._end = end
        self._end.settimeout(5)
        self._random = choices
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        try:
            self._send(hello() if self._random.random() < 0.9 else self._mutated(hello()))
            held = b""
            while piece := self._end.recv(65536):
                held += piece
                while len(held) >= HEADER.size and len(held) >= HEADER.size + HEADER.unpack_from(held)[0]:
                    length, number, op = HEADER.unpack_from(held)
                    payload, held = held[HEADER.size : HEADER.size + length], held[HEADER.size + length :]
                    for one in self._answer(number, op, int.from_bytes(payload[:4], "little")):
                        self._send(one)
        except OSError:
            pass
        finally:
            self._end.close()

    def _send(self, one: bytes) -> None:
        self._end.sendall(one)
        self.sent += 1

    def _answer(self, number: int, op: int, about: int) -> Iterator[bytes]:  # noqa: C901 - one case for each way to answer
        choices = self._random
        frames = right(number, op, about)
        match choices.choices(
            ("right", "mutated", "odd", "silent", "twice", "hello", "flood", "random", "shuffled", "stall"),
            (60, 14, 6, 2, 3, 1, 2, 4, 4, 1),
        )[0]:
            case "right":
                yield from frames
            case "mutated":
                for one in frames:
                    yield self._mutated(one) if choices.random() < 0.6 else one
            case "odd":
                yield from frames[:-1]
                yield done(number, choices.choice(ODD), choices.randbytes(choices.choice((0, 0, 1, 47, 48, 500))))
            case "silent":
                pass
            case "twice":
                yield from frames
                yield from frames
            case "hello":
                yield hello(choices.randbytes(6), choices.randbytes(6))
                yield from frames
            case "flood":
                yield from frames[:-1]
                for _ in range(400):
                    yield data(number, choices.choice((1, 1, 1, 2)), bytes(choices.choice((1, 32768, 262144))))
            case "random":
                for _ in range(choices.randrange(1, 6)):
                    content = choices.randbytes(choices.choice((0, 1, 7, 8, 9, 60)))
                    yield frame(choices.choice((number, 0, number + 1, 2**32 - 1)), choices.randrange(6), content)
            case "shuffled":
                choices.shuffle(frames)
                yield from frames
            case "stall":
                yield b"".join(frames)[: -choices.randrange(1, 5)]

    def _mutated(self, one: bytes) -> bytes:
        choices = self._random
        changed = bytearray(one)
        match choices.randrange(5):
            case 0:
                changed[choices.randrange(len(changed))] ^= 1 << choices.randrange(8)
            case 1:
                for _ in range(choices.randrange(1, 9)):
                    changed[choices.randrange(len(changed))] = choices.randrange(256)
            case 2:  # shorter, with the length that fits
                payload = one[HEADER.size :][: choices.randrange(len(one))]
                return HEADER.pack(len(payload), *HEADER.unpack_from(one)[1:]) + payload[: len(payload)]
            case 3:  # longer
                payload = one[HEADER.size :] + choices.randbytes(choices.choice((1, 8, 4096, 2**20)))
                return HEADER.pack(len(payload), *HEADER.unpack_from(one)[1:]) + payload
            case _:
                changed[8] = choices.randrange(256)
        return bytes(changed)


class Session:
    """Calls on a channel to such an agent; counts what they end in."""

    def __init__(self, seed: int, tally: collections.Counter[str]) -> None:
        self._random = random.Random(seed)
        self._tally = tally
        ours, theirs = socket.socketpair()
        self.agent = FakeAgent(theirs, random.Random(seed + 1))
        self.channel = self._channel(ours)
        self._files = GuestTracefs(self.channel, "/x", deadline=PATIENCE)

    def _channel(self, ours: socket.socket) -> Channel:
        def end(reason: str) -> MachineDied:
            return ChannelClosed(reason)

        return Channel(ours, lost=end, stuck=end, patience=(PATIENCE, PATIENCE))

    def run(self) -> None:
        """Do some calls; each ends in time, as a call may end."""
        self._ended(lambda: self.channel.wait_hello(PATIENCE))
        calls = (self._whole, self._open_file, self._stream, self._process)
        for _ in range(self._random.randrange(1, 12)):
            if not self._ended(self._random.choice(calls)):
                break
        self.channel.fail(ChannelClosed("over"))
        self.channel.close()
        self.agent.thread.join(10)
        self._tally["frames"] += self.agent.sent

    def _whole(self) -> None:
        files = self._files
        calls: list[Callable[[], object]] = [
            *(lambda: files.read("f"), lambda: files.write("f", b"data"), lambda: files.listdir("")),
            lambda: sorted(files.read_each(["f", "g"]).items()),
            *(lambda: files.exists("f"), lambda: files.mkdir("d"), lambda: files.rmdir("d"), files.ping),
            *(lambda: files.unlink("f"), lambda: files.truncate("f"), lambda: files.stat("f").size),
        ]
        self._random.choice(calls)()

    def _open_file(self) -> None:
        with self._files.open("f", 0) as file:
            assert len(file.read(100, PATIENCE)) <= 100
            file.write(b"data", PATIENCE)
            file.lseek(0)
            file.poll(0)

    def _stream(self) -> None:
        with self._files.stream("trace_pipe") as stream:
            time.sleep(self._random.choice((0, 0, 0, 0.02)))  # unread: what comes waits here
            for timeout in (PATIENCE, 0, 0, PATIENCE):
                with contextlib.suppress(TimeoutError):
                    stream.read(timeout)

    def _process(self) -> None:
        process = GuestProcess(self.channel, ["true"], deadline=PATIENCE)
        assert process.pid > 0
        process.wait(PATIENCE)
        assert process.returncode is not None
        process.kill()

    def _ended(self, call: Callable[[], object]) -> bool:
        """Whether a call has ended; if in anything but an answer, a refusal or the machine's end, count that."""

        def perform() -> None:
            try:
                call()
            except (OSError, MachineDied, subprocess.TimeoutExpired):
                pass
            except Exception as error:
                self._tally[f"raised {type(error).__name__}"] += 1

        thread = threading.Thread(target=perform, daemon=True)
        began = time.monotonic()
        thread.start()
        thread.join(HANG)
        self._tally["calls"] += 1
        self._tally["longest ms"] = max(self._tally["longest ms"], int((time.monotonic() - began) * 1000))
        if thread.is_alive():
            self._tally["hung"] += 1
            return False
        return True


def campaign(seed: int, *, seconds: float = 1e9, sessions: int = 1 << 30) -> collections.Counter[str]:
    """Run sessions until so many are over, or so many seconds; return what was counted."""
    tally: collections.Counter[str] = collections.Counter()
    hook = threading.excepthook

    def note(told: threading.ExceptHookArgs) -> None:
        tally[f"a thread died of {told.exc_type.__name__}"] += 1

    threading.excepthook = note
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end and tally["sessions"] < sessions:
            Session(seed + 2 * tally["sessions"], tally).run()
            tally["sessions"] += 1
    finally:
        threading.excepthook = hook
    return tally


if __name__ == "__main__":
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = campaign(int((sys.argv[2:] or ["1"])[0]), seconds=float(sys.argv[1]))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(dict(result), f"memory at most {after / 1024:.0f} MiB, {before / 1024:.0f} at the start")
