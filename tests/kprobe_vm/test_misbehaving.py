"""A guest's agent, or its console, that does what it never should: an error in time, and no memory of the host."""

from __future__ import annotations

import errno
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kprobe_vm.agent.channel import Channel
from kprobe_vm.agent.frames import WINDOW, Data, Op, ProtocolError
from kprobe_vm.agent.process import GuestProcess
from kprobe_vm.agent.tracefs import GuestTracefs
from kprobe_vm.errors import ChannelClosed, MachineDied
from kprobe_vm.machine.console import LONGEST, Console

from . import fake_agent
from .fake_agent import data, done, frame, hello


@pytest.fixture
def wire() -> Iterator[tuple[socket.socket, Channel]]:
    """The agent's end of a connection, and a channel that has been greeted."""

    def lost(reason: str) -> MachineDied:
        return ChannelClosed(reason)

    ours, theirs = socket.socketpair()
    channel = Channel(ours, lost=lost, stuck=lost, patience=(0.2, 0.2))
    with theirs:
        theirs.sendall(hello())
        channel.wait_hello(10)
        yield theirs, channel
        channel.fail(ChannelClosed("the test has ended"))
    channel.close()


STAT, READ_FILE, READ_EACH, LIST = Op.STAT, Op.READ_FILE, Op.READ_EACH, Op.LIST
RUN, STREAM, READ, LOOK = Op.RUN, Op.STREAM, Op.READ, Op.LOOK


@pytest.mark.parametrize(
    ("op", "answer", "words"),
    [
        (STAT, hello(), "a second hello"),
        (STAT, frame(1, 0, b"1234567"), "short DONE"),
        (STAT, done(1, 0, b"x" * 47), "STAT can't end with 0 and 47 bytes"),  # once struct.error
        (STAT, done(1, -(2**31) - 1), "STAT can't end with -2147483649 and 0 bytes"),  # once OverflowError
        (STAT, done(1, -4096), "STAT can't end with -4096"),
        (STAT, frame(1, 3), "frame of kind 3 for request 1"),
        (STAT, frame(2, 0, bytes(8)), "frame of kind 0 for request 2"),  # that was never made
        (STAT, data(1, Data.OUT, b"x"), "data of 2 bytes for STAT"),
        (READ_FILE, frame(1, 1), "data of 0 bytes for READ_FILE"),
        (READ_FILE, data(1, 3, b"x"), "data of kind 3"),
        (READ_FILE, data(1, Data.ERR, b"x"), "data of kind 2"),
        (READ_EACH, done(1, 1), "READ_EACH can't end with 1 and 0 bytes"),
        (READ_EACH, done(1, 0, bytes(8)), "READ_EACH can't end with 0 and 8 bytes"),  # none was asked for
        (READ_EACH, done(1, 0, b"x"), "READ_EACH can't end with 0 and 1 bytes"),
        (LIST, done(1, 2**31), "LIST can't end with 2147483648"),
        (RUN, data(1, Data.OUT, b"x"), "output of RUN before its start"),
        (RUN, data(1, Data.STARTED, b"123"), "a start of RUN with 3 bytes"),
        (RUN, data(1, Data.STARTED, struct.pack("<I", 2**31)), "process id 2147483648"),
        (RUN, data(1, Data.STARTED, b"\5\0\0\0") * 2, "an unexpected start of RUN"),
        (RUN, done(1, 0), "RUN can't end with 0"),  # without having begun
        (RUN, data(1, Data.STARTED, b"\5\0\0\0") + done(1, 2**40), "RUN can't end with 1099511627776"),
        (RUN, data(1, Data.STARTED, b"\5\0\0\0") + done(1, 0x137F), "RUN can't end with 4991"),  # stopped: no end
        (STREAM, data(1, Data.STARTED, b"") + data(1, Data.OUT, bytes(32768)) * 9, "more output of STREAM than"),
        (LOOK, done(1, 2), "LOOK can't end with 2 and 0 bytes"),
        (LOOK, done(1, 1), "LOOK can't end with 1 and 0 bytes"),  # of which no data came
        (LOOK, done(1, 0, b"x"), "LOOK can't end with 0 and 1 bytes"),
        (LOOK, data(1, Data.OUT, b"x"), "data of 2 bytes for LOOK"),
    ],
)
def test_an_answer_that_no_agent_gives(wire: tuple[socket.socket, Channel], op: Op, answer: bytes, words: str) -> None:
    agent, channel = wire
    request = channel.send(op, b"x\0")
    agent.sendall(answer)
    with request.changed:
        request.changed.wait_for(lambda: request.failure is not None, 10)
    with pytest.raises(ChannelClosed, match=f"^broken protocol: .*{words}") as caught:
        channel.wait(request, 10)
    assert isinstance(caught.value.__cause__, ProtocolError)


def test_more_than_was_asked_for(wire: tuple[socket.socket, Channel]) -> None:
    agent, channel = wire
    request = channel.send(READ, (7).to_bytes(4, "little"), (4).to_bytes(4, "little"))
    agent.sendall(done(1, 5, b"12345"))
    with pytest.raises(ChannelClosed, match="READ can't end with 5 and 5 bytes"):
        channel.wait(request, 10)


@pytest.mark.parametrize("words", [b"6.1\xff", b"6.1\x1b[2J", b"", b"6.1" + b"x" * 62])
def test_a_hello_that_no_kernel_says(words: bytes) -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, lost=ChannelClosed, stuck=ChannelClosed)
    with theirs:
        theirs.sendall(hello(words))
        with pytest.raises(ChannelClosed, match=r"^broken protocol: unreadable hello"):
            channel.wait_hello(10)
    channel.close()


def test_a_clone_says_no_hello() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, lost=ChannelClosed, stuck=ChannelClosed, greets=False)
    with theirs:
        theirs.sendall(hello())
        with pytest.raises(ChannelClosed, match="a second hello"):
            channel.wait_hello(10)
    channel.close()


def test_output_without_end_has_a_deadline_all_the_same(wire: tuple[socket.socket, Channel]) -> None:
    """Whose credit was renewed for ever, so that the deadline was never looked at."""
    agent, channel = wire
    agent.settimeout(10)

    def flood() -> None:
        try:
            while True:
                agent.sendall(data(1, Data.OUT, bytes(8192)))
                time.sleep(0.0005)
        except OSError:
            pass

    request_sent = threading.Thread(target=flood, daemon=True)
    files = GuestTracefs(channel, "/x", deadline=0.3)
    request_sent.start()
    with pytest.raises((TimeoutError, ChannelClosed)):  # or it would never come back
        files.read("trace")


def test_an_agent_that_takes_no_requests(wire: tuple[socket.socket, Channel]) -> None:
    _, channel = wire
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(1000):
                channel.send(Op.WRITE_FILE, bytes(500_000))
        except ChannelClosed as error:
            caught.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [str(error) for error in caught] == ["the guest has taken no request for 0 s"] * 8


def test_a_file_without_end_is_refused(wire: tuple[socket.socket, Channel], monkeypatch: pytest.MonkeyPatch) -> None:
    agent, channel = wire
    monkeypatch.setattr("kprobe_vm.agent.channel.LARGEST", WINDOW // 4)
    request = channel.send(READ_FILE, b"x\0")
    agent.sendall(data(1, Data.OUT, bytes(WINDOW // 2)))
    with pytest.raises(OSError, match="File too large"):
        channel.wait(request, 10)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([], "the look at f has not ended in 0 s, and could not be cancelled"),
        ([done(2, -errno.ESRCH)], "the reading of f has not ended, and could not be cancelled"),
        ([done(2, 1)], "broken protocol: LOOK can't end with 1 and 0 bytes"),
    ],
)
def test_a_look_is_never_taken_for_nothing(
    wire: tuple[socket.socket, Channel], answers: list[bytes], words: str
) -> None:
    """A `TimeoutError` would say that the kernel has no data."""
    agent, channel = wire

    def answer() -> None:
        agent.recv(65536)
        agent.sendall(data(1, Data.STARTED, b""))
        agent.recv(65536)
        agent.sendall(b"".join(answers))

    thread = threading.Thread(target=answer)
    thread.start()
    stream = GuestTracefs(channel, "/x", deadline=0.2).stream("f")
    with pytest.raises(ChannelClosed, match=words):
        stream.read(0)
    thread.join(10)


def test_a_killed_program_that_does_not_end(wire: tuple[socket.socket, Channel]) -> None:
    agent, channel = wire
    agent.sendall(b"")
    threading.Thread(target=lambda: (agent.recv(65536), agent.sendall(data(1, Data.STARTED, b"\5\0\0\0")))).start()
    process = GuestProcess(channel, ["sleep", "9"], deadline=10)
    with pytest.raises(ChannelClosed, match="sleep was killed and has not ended, and could not be cancelled"):
        process.settle()


@pytest.mark.slow
def test_frames_of_all_kinds() -> None:
    """Seeded: 40 agents that answer rightly, wrongly, twice, too much or not at all."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tally = fake_agent.campaign(20261122, sessions=40)
    assert tally["sessions"] == 40
    assert tally["frames"] > 200
    wrong = {name for name in tally if name.startswith(("raised", "a thread", "hung"))}
    assert wrong == set()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


# ---- the console ----


@pytest.fixture
def console(tmp_path: Path) -> Iterator[tuple[socket.socket, Console]]:
    ours, theirs = socket.socketpair()
    running = Console(ours, tmp_path / "console.log")
    with theirs:
        yield theirs, running
    running.close()


def test_a_flood_on_the_console_keeps_its_beginning_and_its_end(
    console: tuple[socket.socket, Console], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, running = console
    monkeypatch.setattr("kprobe_vm.machine.console.LOG_LARGEST", 1_000_000)
    theirs.sendall(b"the first line\n")
    line = b"x" * 999 + b"\n"
    for _ in range(5):
        theirs.sendall(line * 1000)
    theirs.sendall(b"the last line\n")
    theirs.close()
    assert running.ended.wait(60)
    kept = running.file.read_bytes()
    assert 500_000 < len(kept) <= 1_000_000
    assert kept.startswith(b"the first line\n")
    assert kept.endswith(b"x\nthe last line\n")
    assert b"bytes are left out here ...]\n" in kept


def test_a_line_without_end_is_cut(console: tuple[socket.socket, Console]) -> None:
    theirs, running = console
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(64):
        theirs.sendall(b"y" * 1_000_000)
    theirs.close()
    assert running.ended.wait(60)
    assert max(map(len, running.tail().splitlines())) <= LONGEST
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


def test_what_a_terminal_obeys_is_shown_escaped(console: tuple[socket.socket, Console]) -> None:
    theirs, running = console
    theirs.sendall(b"\x1b]0;owned\x07 caf\xc3\xa9\ttab\n")
    theirs.close()
    assert running.ended.wait(10)
    assert running.tail() == "\\x1b]0;owned\\x07 caf\u00e9\ttab"
    assert running.file.read_bytes() == b"\x1b]0;owned\x07 caf\xc3\xa9\ttab\n"


def test_words_like_an_oops_are_looked_through_quickly(console: tuple[socket.socket, Console]) -> None:
    theirs, running = console
    theirs.sendall((b"a b, " * 10_000 + b"\n") * 20)
    theirs.close()
    assert running.ended.wait(30)
    began = time.thread_time()
    running.tail()
    assert time.thread_time() - began < 5


def test_a_console_whose_file_can_not_be_written_is_read_on() -> None:
    ours, theirs = socket.socketpair()
    running = Console(ours, Path("/dev/full"))
    with theirs:
        theirs.sendall(b"one\ntwo\n")
    assert running.ended.wait(10)
    assert running.tail() == "one\ntwo"
    running.close()


def test_a_listener_that_fails_stops_nobody(console: tuple[socket.socket, Console]) -> None:
    theirs, running = console

    def broken(_data: bytes) -> None:
        raise BrokenPipeError

    with running.listen(broken):
        theirs.sendall(b"one\n")
        assert running.first_byte.wait(10)
        theirs.sendall(b"two\n")
        theirs.close()
        assert running.ended.wait(10)
    assert running.tail() == "one\ntwo"
