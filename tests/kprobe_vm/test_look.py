"""A stream that is only looked at, `read(0)`: what the kernel holds comes, and nothing is said of what it doesn't."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from kprobe_vm.agent.channel import Channel
from kprobe_vm.agent.frames import WINDOW, Op
from kprobe_vm.agent.request import Request
from kprobe_vm.agent.tracefs import GuestStream, GuestTracefs


@pytest.fixture
def files(local_channel: Channel, tmp_path: Path) -> GuestTracefs:
    os.mkfifo(tmp_path / "fifo")
    return GuestTracefs(local_channel, str(tmp_path), deadline=10)


def look(channel: Channel, stream: GuestStream) -> Request:
    """Send a look without waiting for its answer."""
    return channel.send(Op.LOOK, stream._request.id.to_bytes(4, "little"), stream=stream._request)


def stopped(channel: Channel, files: GuestTracefs, tmp_path: Path) -> GuestStream:
    """A stream whose thread waits for credit, as all that it may send is here unread."""
    (tmp_path / "long").write_bytes(bytes(4 * WINDOW))
    stream = files.stream("long")
    request = stream._request
    with request.changed:
        assert request.changed.wait_for(lambda: request.uncredited == WINDOW, 10)
    return stream


def test_what_was_written_is_there(files: GuestTracefs) -> None:
    with files.open("fifo", os.O_RDWR) as writer, files.stream("fifo") as stream:
        for turn in range(300):
            text = b"line %d\n" % turn
            writer.write(text)
            assert stream.read(0) == text
            with pytest.raises(TimeoutError):
                stream.read(0)
        writer.write(b"and it is read on")
        assert stream.read(10) == b"and it is read on"


def test_the_end_is_there(files: GuestTracefs, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"all of it")
    with files.stream("f") as stream:
        assert stream.read(0) == b"all of it"
        assert stream.read(0) == b""
        assert stream.read(0) == b""


def test_a_refused_read_is_told(files: GuestTracefs, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(IsADirectoryError), files.stream("d") as stream:  # by the opening, if that is slow
        stream.read(0)


def test_more_than_the_window_comes_by_looks_alone(files: GuestTracefs, tmp_path: Path) -> None:
    content = os.urandom(8 * WINDOW + 1)
    (tmp_path / "long").write_bytes(content)
    came = b""
    with files.stream("long") as stream:
        while data := stream.read(0):
            came += data
    assert came == content


def test_a_look_gives_credit_while_it_waits(local_channel: Channel, files: GuestTracefs, tmp_path: Path) -> None:
    """Or it would wait for ever for a thread that waits for credit."""
    with stopped(local_channel, files, tmp_path) as stream:
        request = stream._request
        asked = look(local_channel, stream)
        assert local_channel.wait(asked, 10)
        assert asked.result == 1
        assert request.held > WINDOW


def test_the_second_of_two_looks_is_the_one_that_counts(
    local_channel: Channel, files: GuestTracefs, tmp_path: Path
) -> None:
    with stopped(local_channel, files, tmp_path) as stream:
        first, second = look(local_channel, stream), look(local_channel, stream)
        with first.changed:
            assert first.changed.wait_for(lambda: first.done, 10)
        assert (first.result, second.done) == (-errno.EBUSY, False)
        assert local_channel.wait(second, 10)
        assert second.result == 1


def test_a_look_that_nobody_waits_for_any_more_spoils_no_other(files: GuestTracefs, local_channel: Channel) -> None:
    with files.open("fifo", os.O_RDWR) as writer, files.stream("fifo") as stream:
        for _ in range(50):
            local_channel.forget(look(local_channel, stream))
            writer.write(b"x")
            assert stream.read(0) == b"x"
        with pytest.raises(TimeoutError):
            stream.read(0)


def test_a_stream_that_is_cancelled_answers_its_look(
    local_channel: Channel, files: GuestTracefs, tmp_path: Path
) -> None:
    stream = stopped(local_channel, files, tmp_path)
    asked = look(local_channel, stream)
    stream.close()
    with asked.changed:
        assert asked.changed.wait_for(lambda: asked.done, 10)
    assert asked.result == -errno.ESRCH
    assert not local_channel.is_awaited


def test_a_close_ends_the_looks_of_another_thread(files: GuestTracefs) -> None:
    with files.open("fifo", os.O_RDWR):
        for _ in range(30):
            stream = files.stream("fifo")
            got: list[bytes] = []
            began = threading.Event()

            def read(stream: GuestStream = stream, got: list[bytes] = got, began: threading.Event = began) -> None:
                while not got:
                    try:
                        got.append(stream.read(0))
                    except TimeoutError:
                        began.set()

            thread = threading.Thread(target=read)
            thread.start()
            assert began.wait(10)
            stream.close()
            thread.join(10)
            assert got == [b""]


def test_many_threads_look_at_one_stream(files: GuestTracefs, tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(bytes(4 * WINDOW))
    counts: list[int] = []

    def read() -> None:
        taken = 0
        while data := stream.read(0):
            taken += len(data)
        counts.append(taken)

    with files.stream("long") as stream:
        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert (len(counts), sum(counts)) == (8, 4 * WINDOW)


def test_a_look_at_what_is_no_stream(local_channel: Channel, files: GuestTracefs, tmp_path: Path) -> None:
    with files.open("fifo", os.O_RDWR) as reader:
        blocked = local_channel.send(Op.READ, reader._fd, (1).to_bytes(4, "little"))
        for number in (blocked.id, 9999):
            asked = local_channel.call(Op.LOOK, number.to_bytes(4, "little"), deadline=10)
            assert asked.result == -errno.ESRCH
        assert local_channel.call(Op.LOOK, b"abc", deadline=10).result == -errno.ESRCH
        local_channel.settle(blocked, "the read")
        assert blocked.result == -errno.EINTR
