"""How long the kernel may remember what a file looks like: what the FUSE server replies, on a socket for its device."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from kprobe_sim import SimulatedKernel
from kprobe_sim.expose.fuse.server import FuseServer

LOOKUP, GETATTR, OPEN, RELEASE, INIT = 1, 3, 14, 18, 26
ROOT = 1
STORE, INVALIDATE = 4, 2  # notices
SINCE, BEFORE = 35, 31  # minor versions of the protocol


class Peer:
    """The kernel's end."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.notices: list[int] = []

    def ask(self, opcode: int, node: int, body: bytes = b"") -> bytes:
        """Send a request; return the body of its reply, and note the notices that come before it."""
        header = struct.pack("<IIQQIIIHH", 40 + len(body), opcode, 2, node, 0, 0, os.getpid(), 0, 0)
        self._end.send(header + body)
        self.notices = []
        while True:
            message = self._end.recv(1 << 16)
            _, error, unique = struct.unpack_from("<IiQ", message)
            if unique:
                assert error == 0
                return message[16:]
            self.notices.append(error)

    def find(self, path: str) -> tuple[int, int]:
        """Look a path up; return its node, and the seconds for which its attributes may be remembered."""
        node, seconds = ROOT, 0
        for name in path.split("/"):
            node, _, _, seconds = struct.unpack_from("<QQQQ", self.ask(LOOKUP, node, name.encode() + b"\0"))
        return node, seconds

    def seconds(self, node: int) -> int:
        """Ask for attributes; return for how long they may be remembered."""
        (seconds,) = struct.unpack_from("<Q", self.ask(GETATTR, node, bytes(16)))
        return int(seconds)

    def open(self, node: int, flags: int) -> int:
        """Open a node; return the handle."""
        (handle,) = struct.unpack_from("<Q", self.ask(OPEN, node, struct.pack("<II", flags, 0)))
        return int(handle)

    def close(self, node: int, handle: int) -> None:
        """Release a handle."""
        self.ask(RELEASE, node, struct.pack("<QIIQ", handle, 0, 0, 0))


@pytest.fixture
def minor() -> int:
    return SINCE


@pytest.fixture
def peer(minor: int) -> Iterator[Peer]:
    device, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kernel = SimulatedKernel("6.1")
    kernel.tracefs.write("kprobe_events", b"p:probe do_sys_openat2\n")
    server = FuseServer(kernel, device.detach())
    thread = threading.Thread(target=server.serve)
    thread.start()
    with end:
        found = Peer(end)
        found.ask(INIT, 0, struct.pack("<IIII", 7, minor, 0, 0))
        yield found
        server.stop()
        thread.join()


def test_a_file_that_stays(peer: Peer) -> None:
    node, seconds = peer.find("tracing_on")
    assert (seconds, peer.seconds(node)) == (3600, 3600)
    handle = peer.open(node, os.O_WRONLY)
    assert (peer.notices, peer.seconds(node)) == ([], 3600)
    peer.close(node, handle)


@pytest.mark.parametrize("path", ["events/kprobes/probe/enable", "events/sched/enable"])
def test_a_file_that_may_go_with_its_directory(peer: Peer, path: str) -> None:
    assert peer.find(path)[1] == 0


@pytest.mark.parametrize("minor", [BEFORE])
def test_a_kernel_that_takes_no_news_of_sizes(peer: Peer) -> None:
    assert peer.find("tracing_on")[1] == 0


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY])
def test_the_end_of_a_seq_file_is_asked_for(peer: Peer, flags: int) -> None:
    node, _ = peer.find("kprobe_events")
    peer.open(node, flags)
    assert peer.notices == [STORE]
    peer.seconds(node)
    assert peer.notices == [STORE]  # the answer is older than it: the kernel doesn't keep it


def test_the_end_of_one_that_is_appended_to_is_asked_for(peer: Peer) -> None:
    node, _ = peer.find("kprobe_events")
    handle = peer.open(node, os.O_WRONLY | os.O_APPEND)
    assert (peer.notices, peer.seconds(node)) == ([INVALIDATE], 0)
    peer.close(node, handle)
    assert peer.seconds(node) == 3600
