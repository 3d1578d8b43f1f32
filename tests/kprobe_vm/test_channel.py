"""Host and agent against each other: the agent runs here as an ordinary process, so no guest is needed."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from kprobe_vm.agent.channel import Channel
from kprobe_vm.agent.frames import FRAME_CAP, WINDOW, Data, Op
from kprobe_vm.agent.process import GuestProcess
from kprobe_vm.agent.tracefs import GuestTracefs
from kprobe_vm.errors import MachineClosed, MachineDied

from .conftest import Lost


@pytest.fixture
def files(local_channel: Channel, tmp_path: Path) -> GuestTracefs:
    return GuestTracefs(local_channel, str(tmp_path), deadline=10)


def refused(number: int, path: str) -> pytest.RaisesExc[OSError]:
    return pytest.RaisesExc(OSError, check=lambda error: (error.errno, error.filename) == (number, path))


def test_the_agent_says_hello(local_channel: Channel) -> None:
    hello = local_channel.wait_hello(10)
    assert hello.release == os.uname().release
    assert hello.page_size == os.sysconf("SC_PAGESIZE")


def test_files_are_read_and_written(files: GuestTracefs, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    files.write("f", b"ab")
    assert files.read("f") == b"ab23456789"
    files.write("f", b"ab", truncate=True)
    assert (tmp_path / "f").read_bytes() == b"ab"
    files.mkdir("d")
    assert files.listdir("") == ["d", "f"]
    files.rmdir("d")
    files.truncate("f", 1)
    assert files.stat("f").size == 1
    files.unlink("f")
    assert not files.exists("f")
    assert not files.exists("f/g")


@pytest.mark.parametrize("size", [0, 1, 32767, 32768, 32769, WINDOW, 3 * WINDOW + 5])
def test_a_file_of_any_size_comes_whole(files: GuestTracefs, tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "big").write_bytes(content)
    assert files.read("big") == content


def test_many_files_are_read_by_one_request(files: GuestTracefs, tmp_path: Path) -> None:
    contents = {f"f{size}": os.urandom(size) for size in (0, 1, 7, 32767, 32768, 32769, 2 * WINDOW)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "d").mkdir()
    assert files.read_each(["no", *contents, "f1/x", "d", "f1"]) == contents
    assert files.read_each(["f7", "f32769", "no"], most=4096) == {
        "f7": contents["f7"],
        "f32769": contents["f32769"][:4096],
    }
    assert files.read_each([]) == {}
    with refused(errno.EINVAL, ""):
        files.read_each(["f7"], most=32769)


def test_refusals_are_the_kernels_with_the_path_as_given(files: GuestTracefs, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    (tmp_path / "d").mkdir()
    for call, number, path in [
        (lambda: files.read("no"), errno.ENOENT, "no"),
        (lambda: files.write("no", b"x"), errno.ENOENT, "no"),
        (lambda: files.read("d"), errno.EISDIR, "d"),
        (lambda: files.write("d", b"x"), errno.EISDIR, "d"),
        (lambda: files.listdir("f"), errno.ENOTDIR, "f"),
        (lambda: files.mkdir("d"), errno.EEXIST, "d"),
        (lambda: files.rmdir("f"), errno.ENOTDIR, "f"),
        (lambda: files.stream("no"), errno.ENOENT, "no"),
        (lambda: files.open("f/x", os.O_RDONLY), errno.ENOTDIR, "f/x"),
    ]:
        with refused(number, path):
            call()


def test_system_calls_on_an_open_file(files: GuestTracefs, tmp_path: Path) -> None:
    with files.open("f", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600) as file:
        assert file.write(b"hello") == 5
        assert file.lseek(-4, os.SEEK_END) == 1
        assert file.read(2) == b"el"
        assert file.read(100) == b"lo"
        assert file.read(100) == b""
        with refused(errno.EINVAL, "f"):
            file.lseek(-1)
    with refused(errno.EBADF, "f"):
        file.read(1)
    with refused(errno.EBADF, "f"):
        file.close()
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def test_only_the_agents_own_open_files_can_be_closed(local_channel: Channel, files: GuestTracefs) -> None:
    for descriptor in (0, 2, 3, 4, 2**31):
        request = local_channel.call(Op.CLOSE, descriptor.to_bytes(4, "little"), deadline=10)
        assert request.result == -errno.EBADF
    assert files.listdir("") == []


def test_a_write_as_large_as_a_frame_allows(files: GuestTracefs, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    content = os.urandom(FRAME_CAP - 4096)
    files.write("f", content)
    assert (tmp_path / "f").read_bytes() == content
    with pytest.raises(ValueError, match="don't fit"):
        files.write("f", content + b"x")


def test_a_blocked_read_holds_up_nobody_and_wakes(files: GuestTracefs, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    got: list[bytes] = []
    with files.open("fifo", os.O_RDWR) as reader:
        thread = threading.Thread(target=lambda: got.append(reader.read(100)))
        thread.start()
        assert files.listdir("") == ["fifo"]
        files.write("fifo", b"wake")
        thread.join(10)
        assert got == [b"wake"]
        assert reader.poll() == 0
        with pytest.raises(TimeoutError):
            reader.read(100, timeout=0.05)
        files.write("fifo", b"later")
        assert reader.poll(timeout=None) == 1
        assert reader.read(100) == b"later"  # the read that timed out has taken nothing


def test_an_interrupted_read_says_eintr(files: GuestTracefs, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    caught: list[OSError] = []
    with files.open("fifo", os.O_RDWR) as reader:

        def read() -> None:
            try:
                reader.read(1)
            except OSError as error:
                caught.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        while not caught and thread.is_alive():  # the read may not have been sent yet
            reader.interrupt()
            thread.join(0.01)
        thread.join(10)
    assert [(error.errno, error.filename) for error in caught] == [(errno.EINTR, "fifo")]


def test_closing_a_stream_ends_the_read_of_another_thread(files: GuestTracefs, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with files.open("fifo", os.O_RDWR):
        stream = files.stream("fifo")
        with pytest.raises(TimeoutError):
            stream.read(timeout=0.01)
        files.write("fifo", b"one")
        assert stream.read() == b"one"
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(stream.read()))
        thread.start()
        stream.close()
        thread.join(10)
        assert got == [b""]
        assert stream.read() == b""
        stream.close()


def test_an_interrupted_close_of_a_stream_is_done_again(
    local_channel: Channel, files: GuestTracefs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is closed then, which a kernel's instance waits for."""
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "pipe", "r+b", buffering=0):
        stream = files.stream("pipe")
        with monkeypatch.context() as interrupted:
            interrupted.setattr(Channel, "settle", interrupting)
            with pytest.raises(KeyboardInterrupt):
                stream.close()
        assert local_channel.is_awaited
        stream.close()
    assert not local_channel.is_awaited


def interrupting(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_stream_ends_with_its_file(files: GuestTracefs, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"all of it")
    with files.stream("f") as stream:
        assert stream.read() == b"all of it"
        assert stream.read() == b""


def test_an_unread_stream_stops_its_source_and_nothing_else(
    local_channel: Channel, files: GuestTracefs, tmp_path: Path
) -> None:
    total = 8 * WINDOW
    (tmp_path / "endless").write_bytes(bytes(total))
    stream = files.stream("endless")
    for _ in range(50):
        files.ping()  # replies come past the stream
    while not stream._request.out.get(Data.OUT):  # whose thread may be slow on a busy machine
        files.ping()
    held = len(stream._request.out[Data.OUT])
    assert held <= WINDOW
    taken = 0
    while data := stream.read(timeout=10):
        taken += len(data)
    assert taken == total
    stream.close()
    assert not local_channel.is_awaited


def test_many_threads_at_once(files: GuestTracefs, tmp_path: Path) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        name = f"f{number}"
        (tmp_path / name).write_bytes(b"")
        for turn in range(30):
            text = b"%d %d" % (number, turn)
            files.write(name, text, truncate=True)
            if files.read(name) != text:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []
    assert len(files.listdir("")) == 16


def test_more_blocked_calls_than_the_agent_has_threads_are_refused_not_lost(
    local_channel: Channel, files: GuestTracefs, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    with files.open("fifo", os.O_RDWR) as reader:
        size = (100).to_bytes(4, "little")
        requests = [local_channel.send(Op.READ, reader._fd, size) for _ in range(210)]
        assert local_channel.wait(requests[-1], 10)
        assert requests[-1].result == -errno.EAGAIN
        for request in requests:
            local_channel.cancel(request)
        results = {request.result for request in requests if local_channel.wait(request, 10)}
        assert results == {-errno.EAGAIN, -errno.EINTR}
    assert files.listdir("") == ["fifo"]


def test_a_process_gives_status_and_output_apart(local_channel: Channel) -> None:
    process = GuestProcess(local_channel, ["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert process.wait(10) == 7
    assert (process.stdout, process.stderr) == (b"out\n", b"err\n")
    assert process.pid > 1


def test_a_process_with_more_output_than_the_window(local_channel: Channel) -> None:
    process = GuestProcess(local_channel, ["head", "-c", "3000000", "/dev/zero"])
    assert process.wait(10) == 0
    assert len(process.stdout) == 3000000


def test_output_is_relayed_as_it_comes(local_channel: Channel, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    process = GuestProcess(local_channel, ["sh", "-c", f"echo one; cat {tmp_path}/go; echo two >&2"])
    came: list[bytes] = []

    def out(data: bytes) -> None:
        came.append(data)
        if data == b"one\n":  # only after we have seen this does it go on
            (tmp_path / "go").write_bytes(b"")

    assert process.relay(out, came.append) == 0
    assert came == [b"one\n", b"two\n"]


def test_a_process_is_killed_with_its_children(local_channel: Channel) -> None:
    process = GuestProcess(local_channel, ["sh", "-c", "sleep 1000 & echo $!; wait"], capture=True)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    process.kill()
    assert process.wait(10) == -signal.SIGKILL
    process.kill()  # of one that has ended: nothing


def test_a_signal_of_ones_choice(local_channel: Channel) -> None:
    process = GuestProcess(local_channel, ["sleep", "1000"], capture=False)
    process.kill(signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM


def test_environment_directory_and_input(local_channel: Channel, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"from a file")
    process = GuestProcess(
        local_channel, ["sh", "-c", "pwd; echo $A; cat"], env={"A": "b c"}, cwd=str(tmp_path), stdin=f"{tmp_path}/in"
    )
    assert process.wait(10) == 0
    assert process.stdout == f"{tmp_path}\nb c\nfrom a file".encode()


def test_a_process_is_fed(local_channel: Channel) -> None:
    """More than its pipe holds, in pieces; then the end."""
    process = GuestProcess(local_channel, ["sh", "-c", "wc -c; echo end"], stdin=None)
    for _ in range(5):
        process.feed(bytes(50000))
    process.feed(b"")
    assert process.wait(10) == 0
    assert process.stdout == b"250000\nend\n"


def test_feeding_one_that_does_not_read_ends_with_it(local_channel: Channel, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    process = GuestProcess(local_channel, ["cat", f"{tmp_path}/go"], stdin=None)
    ended: list[BaseException] = []

    def feed() -> None:
        try:
            process.feed(bytes(1000000))
        except OSError as error:
            ended.append(error)

    feeder = threading.Thread(target=feed)
    feeder.start()
    (tmp_path / "go").write_bytes(b"")
    assert process.wait(10) == 0
    feeder.join(10)
    assert [type(error) for error in ended] == [BrokenPipeError]
    with pytest.raises(BrokenPipeError):
        process.feed(b"late")
    other = GuestProcess(local_channel, ["true"])
    with pytest.raises(BrokenPipeError):
        other.feed(b"to one that has a file")
    assert other.wait(10) == 0
    assert not local_channel.is_awaited


def test_what_a_process_leaves_behind_is_not_waited_for(local_channel: Channel) -> None:
    """It holds the ends of the output, and goes on; all that was written before the end comes."""
    # not by grep: it takes a NUL for the end of a line, and the shell's own command has the word, too
    begun = "until [ \"$(tr '\\0' ' ' < /proc/$!/cmdline)\" = 'sleep 1000 ' ]; do :; done"
    script = f"sleep 1000 & {begun}; head -c 60000 /dev/zero; echo $! >&2; exit 3"
    process = GuestProcess(local_channel, ["sh", "-c", script])
    assert process.wait(10) == 3
    assert process.stdout == bytes(60000)
    left = int(process.stderr)
    assert Path(f"/proc/{left}/cmdline").read_bytes() == b"sleep\x001000\0"
    os.kill(left, signal.SIGKILL)


def test_what_a_process_leaves_behind_may_write_on_and_on(local_channel: Channel, tmp_path: Path) -> None:
    process = GuestProcess(local_channel, ["sh", "-c", "yes & echo $! >&2; exit 3"])
    assert process.wait(10) == 3
    with contextlib.suppress(ProcessLookupError):  # nobody takes what it writes
        os.kill(int(process.stderr), signal.SIGKILL)


@pytest.mark.parametrize(
    ("argv", "cwd", "number"),
    [(["/no/such"], "/", errno.ENOENT), (["/etc"], "/", errno.EACCES), (["true"], "/no/such", errno.ENOENT)],
)
def test_a_program_that_cannot_start(local_channel: Channel, argv: list[str], cwd: str, number: int) -> None:
    with refused(number, argv[0]):
        GuestProcess(local_channel, argv, cwd=cwd)
    assert not local_channel.is_awaited


def test_a_cancelled_run_kills_the_process(local_channel: Channel) -> None:
    process = GuestProcess(local_channel, ["sleep", "1000"])
    local_channel.cancel(process._request)
    assert process.wait(10) == -signal.SIGKILL


def test_an_agent_that_dies_fails_whoever_waits(agent_program: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    ours, theirs = socket.socketpair()
    with subprocess.Popen([agent_program, str(theirs.fileno())], pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        notes = Lost()
        channel = Channel(ours, lost=notes.lost, stuck=notes.stuck)
        files = GuestTracefs(channel, str(tmp_path))
        caught: list[BaseException] = []
        with files.open("fifo", os.O_RDWR) as keep:
            stream = files.stream("fifo")

            def read() -> None:
                try:
                    stream.read()
                except MachineDied as error:
                    caught.append(error)

            thread = threading.Thread(target=read)
            thread.start()
            process.kill()
            thread.join(10)
            assert [str(error) for error in caught] == ["lost"]
            with pytest.raises(MachineClosed, match="lost"):
                files.ping()
            keep._closed = True
        stream.close()
        channel.close()


def test_a_broken_protocol_closes_the_connection(local_channel: Channel) -> None:
    local_channel.wait_hello(10)
    local_channel._socket.sendall(b"\xff" * 9)

    def ask_until_noticed() -> None:
        for _ in range(1000):
            local_channel.call(Op.PING, deadline=10)

    with pytest.raises(MachineDied):
        ask_until_noticed()


def test_a_deadline_cancels(local_channel: Channel, files: GuestTracefs, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with files.open("fifo", os.O_RDWR):
        hasty = GuestTracefs(local_channel, str(tmp_path), deadline=0.05)
        with refused(errno.ETIMEDOUT, "fifo"):
            hasty.read("fifo")
    assert not local_channel.is_awaited
