import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_vm.agent.frames import FRAME_CAP, Decoder, Frame, Hello, Op, ProtocolError, encode


def test_a_frame_is_length_id_kind_payload() -> None:
    assert encode(7, Op.PING, b"ab", b"c") == b"\x03\0\0\0\x07\0\0\0\x01abc"


def test_a_payload_over_the_cap_is_refused_here() -> None:
    encode(1, Op.WRITE, bytes(FRAME_CAP))
    with pytest.raises(ValueError, match="longer than 1048576"):
        encode(1, Op.WRITE, bytes(FRAME_CAP + 1))


def test_a_frame_over_the_cap_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolError, match="4294967295"):
        Decoder().feed(b"\xff" * 9)


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=50))), st.data())
def test_frames_survive_any_cut(frames: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(encode(number, kind, payload) for number, kind, payload in frames)
    cut = data.draw(st.integers(0, len(stream)))
    decoder = Decoder()
    read = [*decoder.feed(stream[:cut]), *decoder.feed(stream[cut:])]
    assert read == [Frame(*frame) for frame in frames]


def test_a_hello_tells_the_kernel() -> None:
    numbers = struct.pack("<IIII", 4, 4096, 2, 256 * 1024)
    payload = numbers + b"4.0.0\0#1 SMP\0/sys/kernel/debug/tracing\0serial\0"
    assert Hello.parse(payload) == Hello("4.0.0", "#1 SMP", 4096, 2, "/sys/kernel/debug/tracing", "serial")
    with pytest.raises(ProtocolError, match="unreadable hello"):
        Hello.parse(numbers + b"4.0.0\0#1 SMP\0/sys/kernel/../tracing \0serial\0")


def test_another_protocol_is_refused() -> None:
    with pytest.raises(ProtocolError, match="speaks protocol 1, not 4"):
        Hello.parse(b"\x01\0\0\0" + bytes(12) + b"a\0b\0")
    with pytest.raises(ProtocolError, match="unreadable"):
        Hello.parse(b"\x01")
