"""The line over a serial port: the agent itself on a pseudo terminal, whose tty drops what comes too fast."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
import tty
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_vm import Machine
from kprobe_vm.agent.channel import Channel
from kprobe_vm.agent.frames import Op, ProtocolError
from kprobe_vm.agent.line import LINE_MOST, Either, SerialLine
from kprobe_vm.agent.tracefs import GuestTracefs
from kprobe_vm.errors import MachineClosed

from .conftest import Lost

EVERY_BYTE = bytes(range(256)) * 40  # what a terminal would take for a signal, an end, an erasure, among them


def packet(kind: int, payload: bytes = b"") -> bytes:
    checksum = zlib.crc32(struct.pack("<BH", kind, len(payload)) + payload)
    return struct.pack("<BBHI", 0x4B, kind, len(payload), checksum) + payload


def line() -> tuple[SerialLine, socket.socket]:
    ours, theirs = socket.socketpair()
    serial = SerialLine(ours)
    serial.settimeout(5)
    return serial, theirs


@given(st.lists(st.binary(min_size=1, max_size=LINE_MOST), max_size=5), st.data())
def test_packets_survive_any_cut(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(packet(1, payload) for payload in payloads)
    cut = data.draw(st.integers(0, len(stream)))
    serial, theirs = line()
    assert serial.take(stream[:cut]) + serial.take(stream[cut:]) == b"".join(payloads)
    serial.close()
    theirs.close()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"SeaBIOS (version 1.16.3)", "no packet on the serial port"),
        (packet(1, b"payload")[:-1] + b"D", "a packet of 7 bytes came damaged"),
        (packet(3, b"a packet came damaged to the guest"), "the guest says of the serial port: a packet came damaged"),
    ],
)
def test_what_is_no_packet_ends_the_line(sent: bytes, words: str) -> None:
    serial, theirs = line()
    theirs.sendall(sent)
    with pytest.raises(ProtocolError, match=words):
        serial.recv(65536)
    with pytest.raises(BrokenPipeError):
        serial.send(memoryview(b"x"))
    serial.close()
    theirs.close()


def test_a_packet_waits_for_the_answer_to_the_last() -> None:
    serial, theirs = line()
    assert serial.send(memoryview(bytes(5000))) == LINE_MOST
    serial.settimeout(0.01)
    with pytest.raises(TimeoutError):
        serial.send(memoryview(b"next"))
    theirs.sendall(packet(2) + packet(1, b"said"))
    assert serial.recv(65536) == b"said"
    assert serial.send(memoryview(b"next")) == 4
    assert theirs.recv(65536) == packet(1, bytes(LINE_MOST)) + packet(1, b"next")
    serial.close()
    theirs.close()


def test_who_speaks_first_is_the_line() -> None:
    virtio, guests_virtio = socket.socketpair()
    serial, guests_serial = socket.socketpair()
    both = Either(virtio, serial)
    both.settimeout(5)
    with pytest.raises(TimeoutError):
        both.send(memoryview(b"x"))
    guests_serial.sendall(packet(1, b"hello"))
    assert both.recv(65536) == b"hello"
    assert guests_virtio.recv(1) == b""  # the other is closed
    both.close()
    guests_serial.close()
    guests_virtio.close()


@pytest.fixture
def serial_channel(agent_program: Path) -> Iterator[Channel]:
    """A channel to an agent that runs here, on the other side of a tty."""
    master, slave = os.openpty()
    tty.setraw(slave)
    ours, theirs = socket.socketpair()

    def carry(source: int, target: int) -> None:
        try:
            while data := os.read(source, 4096):
                while data:
                    data = data[os.write(target, data) :]
        except OSError:
            pass

    with subprocess.Popen([agent_program, str(slave), "serial"], pass_fds=[slave]) as process:
        os.close(slave)
        threads = [
            threading.Thread(target=carry, args=ends, daemon=True)
            for ends in ((theirs.fileno(), master), (master, theirs.fileno()))
        ]
        for thread in threads:
            thread.start()
        notes = Lost()
        channel = Channel(SerialLine(ours), lost=notes.lost, stuck=notes.stuck)
        try:
            yield channel
        finally:
            channel.fail(MachineClosed("the test has ended"))
            channel.close()
            process.kill()
            process.wait(10)
            for thread in threads:
                thread.join(5)
            theirs.close()
            os.close(master)


def test_every_byte_comes_through_a_tty(serial_channel: Channel, tmp_path: Path) -> None:
    assert serial_channel.wait_hello(10).port == "serial"
    files = GuestTracefs(serial_channel, "/")
    path = str(tmp_path / "file")
    Path(path).touch()
    files.write(path, EVERY_BYTE)
    assert Path(path).read_bytes() == EVERY_BYTE
    assert files.read(path) == EVERY_BYTE


def test_many_requests_at_once_over_a_tty(serial_channel: Channel) -> None:
    serial_channel.wait_hello(10)
    requests = [serial_channel.send(Op.PING, bytes([number]) * 3000) for number in range(30)]
    for number, request in enumerate(requests):
        assert serial_channel.wait(request, 20)
        assert request.tail == bytes([number]) * 3000


def test_a_look_over_a_tty_comes_after_what_it_found(serial_channel: Channel, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    files = GuestTracefs(serial_channel, str(tmp_path))
    with files.open("fifo", os.O_RDWR) as writer, files.stream("fifo") as stream:
        for _ in range(10):
            writer.write(EVERY_BYTE)
            came = b""
            while len(came) < len(EVERY_BYTE):
                came += stream.read(0)
            assert came == EVERY_BYTE
            with pytest.raises(TimeoutError):
                stream.read(0)


@pytest.mark.vm
def test_a_machine_without_virtio(series: str) -> None:
    """Booted, and cloned from what was booted: the state of the port is in the template."""
    for _ in range(2):
        with Machine(series, virtio=False, template=True) as machine:
            assert machine.port == "serial"
            machine.put("tmp/bytes", EVERY_BYTE)
            assert machine.files.read("tmp/bytes") == EVERY_BYTE
            assert machine.run(["cat", "/tmp/bytes"]).stdout == EVERY_BYTE
            machine.tracefs.write("kprobe_events", b"p:one do_exit")
            assert b"p:kprobes/one do_exit\n" in machine.tracefs.read("kprobe_events")
