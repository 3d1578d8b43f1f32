"""Python code that opens /sys/kernel/tracing itself, on the simulator in the same process."""

# ruff: noqa: SIM115  (when a file is closed is what these tests are about)

from __future__ import annotations

import codecs
import errno
import glob
import io
import mmap
import os
import pathlib
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from os import open as open_bound_before
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel, Task
from kprobe_sim.expose import NotCovered, patched

T = "/sys/kernel/tracing"
PROBE = "p:probe do_sys_openat2 path=+0(%si):string"
LISTED = "p:kprobes/probe do_sys_openat2 path=+0(%si):string\n"
real_open, real_stat = open, os.stat


@pytest.fixture
def kernel() -> Iterator[SimulatedKernel]:
    with patched("6.1") as kernel:
        yield kernel


def refused(error: pytest.ExceptionInfo[OSError]) -> tuple[int | None, object]:
    return error.value.errno, error.value.filename


# open()


def test_text_write_fails_at_close_and_the_file_is_closed(kernel: SimulatedKernel) -> None:
    file = open(f"{T}/kprobe_events", "w")
    assert file.write("nonsense") == 8
    with pytest.raises(OSError) as error:
        file.close()
    assert refused(error) == (errno.EINVAL, None)
    assert file.closed
    file.close()


def test_text_write_fails_at_flush_and_again_at_close(kernel: SimulatedKernel) -> None:
    file = open(f"{T}/kprobe_events", "w")
    file.write("nonsense")
    for call in (file.flush, file.close):
        with pytest.raises(OSError) as error:
            call()
        assert refused(error) == (errno.EINVAL, None)
    assert file.closed


def test_with_statement_fails_at_its_end(kernel: SimulatedKernel) -> None:
    reached = False
    with pytest.raises(OSError) as error, open(f"{T}/kprobe_events", "w") as file:  # noqa: PT012
        file.write("p nosuchsymbol\n")
        reached = True
    assert (reached, error.value.errno) == (True, errno.ENOENT)


def test_line_buffering_fails_at_the_newline(kernel: SimulatedKernel) -> None:
    file = open(f"{T}/kprobe_events", "w", buffering=1)
    with pytest.raises(OSError, match="No such file"):
        file.write("p nosuchsymbol\n")
    with pytest.raises(OSError, match="No such file"):
        file.close()


def test_unbuffered_fails_at_write(kernel: SimulatedKernel) -> None:
    with open(f"{T}/kprobe_events", "wb", 0) as file, pytest.raises(OSError, match="No such file"):
        file.write(b"p nosuchsymbol\n")


def test_one_write_per_flush(kernel: SimulatedKernel) -> None:
    with open(f"{T}/trace_marker", "w") as file:
        print("one", "two", file=file)
        print("three", file=file)
        file.flush()
        print("four", file=file)
    records = open_text("trace").split("tracing_mark_write: ")[1:]
    assert [record.split(" <...>")[0].strip() for record in records] == ["one two\nthree", "four"]


def open_text(name: str) -> str:
    with open(f"{T}/{name}") as file:
        return file.read()


def test_appending_to_a_seq_file_fails_as_it_does_on_the_kernel(kernel: SimulatedKernel) -> None:
    with pytest.raises(OSError, match="Invalid argument"):  # FileIO seeks to the end, and seq_lseek can't
        open(f"{T}/kprobe_events", "a")
    with open(f"{T}/tracing_on", "a") as file:
        file.write("0")
    assert open_text("tracing_on") == "0\n"


@pytest.mark.parametrize(
    ("mode", "number"),
    [("w", errno.EACCES), ("a", errno.EACCES), ("x", errno.EACCES), ("r", errno.ENOENT), ("r+", errno.ENOENT)],
)
def test_no_such_file(kernel: SimulatedKernel, mode: str, number: int) -> None:
    with pytest.raises(OSError) as error:
        open(f"{T}/nosuch", mode)
    assert refused(error) == (number, f"{T}/nosuch")


def test_exclusive_creation_of_a_file_that_is_there(kernel: SimulatedKernel) -> None:
    with pytest.raises(FileExistsError):
        open(f"{T}/trace", "x")


def test_a_directory(kernel: SimulatedKernel) -> None:
    with pytest.raises(IsADirectoryError) as error:
        open(f"{T}/events")
    assert refused(error) == (errno.EISDIR, f"{T}/events")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "z"}, "invalid mode: 'z'"),
        ({"mode": "rr"}, "invalid mode: 'rr'"),
        ({"mode": "rw"}, "exactly one of create/read/write/append"),
        ({"mode": "rbt"}, "text and binary"),
        ({"mode": "rb", "encoding": "utf-8"}, "encoding argument"),
        ({"mode": "r", "buffering": 0}, "unbuffered text"),
        ({"mode": "r", "closefd": False}, "closefd"),
    ],
)
def test_bad_arguments_are_refused_as_for_any_file(
    kernel: SimulatedKernel, arguments: dict[str, Any], message: str
) -> None:
    for path in (f"{T}/trace", "/dev/null"):
        with pytest.raises(ValueError, match=message):
            open(path, **arguments)


@pytest.mark.parametrize("mode", ["r", "w", "rb", "wb", "r+", "rb+", "r+b"])
@pytest.mark.parametrize("buffering", [-1, 0])
def test_the_layers_look_as_for_any_file(kernel: SimulatedKernel, mode: str, buffering: int) -> None:
    if not buffering and "b" not in mode:
        pytest.skip("text is always buffered")
    with open(f"{T}/tracing_on", mode, buffering) as ours, open("/dev/null", mode, buffering) as other:
        assert repr(ours).replace(f"{T}/tracing_on", "/dev/null").replace("name=3", "") == repr(other)
        if buffering:
            assert type(ours) is type(other)
        assert (ours.mode, ours.readable(), ours.writable()) == (other.mode, other.readable(), other.writable())


def test_reading_and_writing_one_file(kernel: SimulatedKernel) -> None:
    with open(f"{T}/tracing_on", "r+") as file:
        assert file.read() == "1\n"
        file.seek(0)
        file.write("0")
        file.flush()
        file.seek(0)
        assert file.read() == "0\n"


def test_encodings_and_newlines(kernel: SimulatedKernel) -> None:
    with open(f"{T}/tracing_on", encoding="utf-16-le") as file:
        assert file.read() == "\u0a31"
    with open(f"{T}/kprobe_events", newline="\n") as file:
        assert file.readlines() == []
    with codecs.open(f"{T}/tracing_on", "r", "ascii") as file:
        assert file.readlines() == ["1\n"]


def test_descriptor_to_stream_and_back(kernel: SimulatedKernel) -> None:
    descriptor = os.open(f"{T}/kprobe_events", os.O_WRONLY)
    with os.fdopen(descriptor, "w") as file:
        assert file.fileno() == descriptor
        file.write(PROBE)
    assert open_text("kprobe_events") == LISTED
    with pytest.raises(OSError, match="Bad file"):
        os.write(descriptor, b"")


# os, pathlib and what is built on them


def test_paths_in_all_spellings(kernel: SimulatedKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = os.open(T, os.O_RDONLY | os.O_DIRECTORY)
    spellings = [
        f"{T}/../tracing/./tracing_on",
        "//sys//kernel/tracing/tracing_on",
        "/sys/kernel/debug/tracing/tracing_on",
    ]
    for path in (*spellings, f"{T}/tracing_on".encode(), pathlib.Path(T, "tracing_on")):
        with open(path, "rb") as file:
            assert file.read() == b"1\n"
    handle = os.open("tracing_on", os.O_RDONLY, dir_fd=directory)
    assert os.read(handle, 10) == b"1\n"
    os.chdir(f"{T}/events")
    assert os.getcwd() == f"{T}/events"
    with open("../tracing_on") as file:
        assert file.read() == "1\n"
    with open("../../../../etc/hostname") as file, real_open("/etc/hostname") as real:
        assert file.read() == real.read()
    os.chdir("/")
    with open("sys/kernel/tracing/tracing_on") as file:
        assert file.read() == "1\n"
    os.close(handle)
    os.close(directory)


def test_pathlib(kernel: SimulatedKernel) -> None:
    root = pathlib.Path(T)
    assert (root / "tracing_on").read_text() == "1\n"
    assert (root / "kprobe_events").write_text(PROBE) == len(PROBE)
    probe = root / "events/kprobes/probe"
    assert sorted(path.name for path in probe.iterdir()) == ["enable", "filter", "format", "hist", "id", "trigger"]
    assert (probe.is_dir(), (probe / "id").is_file(), (probe / "nosuch").exists()) == (True, True, False)
    assert [path.name for path in root.glob("events/kprobes/*/i*")] == ["id"]
    (root / "instances/one").mkdir()
    assert (root / "instances/one/tracing_on").exists()
    (root / "instances/one").rmdir()
    assert not (root / "instances/one").exists()
    assert probe.resolve() == probe


def test_shutil_and_glob_and_walk(kernel: SimulatedKernel, tmp_path: pathlib.Path) -> None:
    pathlib.Path(T, "kprobe_events").write_text(PROBE)
    shutil.copyfile(f"{T}/kprobe_events", tmp_path / "probes")
    assert (tmp_path / "probes").read_text() == LISTED
    shutil.copy(tmp_path / "probes", f"{T}/dynamic_events")
    shutil.copytree(f"{T}/events/kprobes", tmp_path / "events")
    assert (tmp_path / "events/probe/enable").read_text() == "0\n"
    assert glob.glob(f"{T}/events/kprobes/*/fil*") == [f"{T}/events/kprobes/probe/filter"]
    assert [len(files) for _, _, files in os.walk(f"{T}/events/kprobes")] == [2, 6]
    with os.scandir(f"{T}/events/kprobes") as entries:
        entry = next(entries)
        assert (entry.name, entry.is_dir(), entry.path) == ("probe", True, f"{T}/events/kprobes/probe")


def test_stat(kernel: SimulatedKernel) -> None:
    status = os.stat(f"{T}/trace")
    assert stat.filemode(status.st_mode) == "-rw-r-----"
    assert (status.st_size, status.st_uid, status.st_gid, status.st_nlink, status.st_blksize) == (0, 0, 0, 1, 4096)
    assert stat.S_ISDIR(os.lstat(T).st_mode)
    assert os.path.ismount(T) == os.path.isdir("/sys/kernel")  # the directory above is the machine's own
    assert os.path.realpath(f"{T}/events/..") == T
    assert (os.access(f"{T}/trace", os.W_OK), os.access(f"{T}/trace", os.X_OK)) == (True, False)
    os.chmod(f"{T}/trace", 0o600)
    assert stat.S_IMODE(os.stat(f"{T}/trace").st_mode) == 0o600


def test_an_event_directory_made_again_is_another(kernel: SimulatedKernel) -> None:
    path = pathlib.Path(T, "events/kprobes/probe")
    numbers = set()
    for _ in range(20):
        pathlib.Path(T, "kprobe_events").write_text(PROBE)
        numbers |= {path.stat().st_ino, path.stat().st_ino}
    assert len(numbers) == 20


@pytest.mark.parametrize(
    ("call", "number"),
    [
        (lambda: os.unlink(f"{T}/trace"), errno.EPERM),
        (lambda: os.remove(f"{T}/trace"), errno.EPERM),
        (lambda: os.rename(f"{T}/trace", f"{T}/other"), errno.EPERM),
        (lambda: os.rename(f"{T}/trace", "/tmp/other"), errno.EXDEV),
        (lambda: os.link(f"{T}/trace", f"{T}/other"), errno.EPERM),
        (lambda: os.symlink("/etc", f"{T}/other"), errno.EPERM),
        (lambda: os.readlink(f"{T}/trace"), errno.EINVAL),
        (lambda: os.mkdir(f"{T}/other"), errno.EPERM),
        (lambda: os.mkdir(T), errno.EEXIST),
        (lambda: os.makedirs(f"{T}/other/below"), errno.EPERM),
        (lambda: os.rmdir(T), errno.EBUSY),
        (lambda: os.listdir(f"{T}/trace"), errno.ENOTDIR),
        (lambda: os.chdir(f"{T}/trace"), errno.ENOTDIR),
        (lambda: os.truncate(f"{T}/events", 0), errno.EISDIR),
    ],
)
def test_what_tracefs_refuses(kernel: SimulatedKernel, call: Any, number: int) -> None:
    with pytest.raises(OSError) as error:
        call()
    assert error.value.errno == number
    assert T in f"{error.value.filename} {error.value.filename2}"


def test_truncate_is_taken_and_does_nothing(kernel: SimulatedKernel) -> None:
    pathlib.Path(T, "kprobe_events").write_text(PROBE)
    os.truncate(f"{T}/kprobe_events", 0)
    assert open_text("kprobe_events") == LISTED


def test_each_part_of_a_vector_is_a_write_of_its_own(kernel: SimulatedKernel) -> None:
    """As writev(2) on guests of 6.1 and 7.2; a part that is refused ends it, and the parts before count."""
    handle = os.open(f"{T}/trace_marker", os.O_WRONLY)
    assert os.writev(handle, [b"one", b"two\n", b"", b"three"]) == 12
    os.close(handle)
    lines = [line.partition(": ")[2] for line in open_text("trace").splitlines() if line[0] != "#"]
    assert lines == ["tracing_mark_write: one", "tracing_mark_write: two", "tracing_mark_write: three"]
    handle = os.open(f"{T}/kprobe_events", os.O_WRONLY)
    assert os.writev(handle, [PROBE.encode() + b"\n", b"p:bad nosuch", b"p:never vfs_read"]) == len(PROBE) + 1
    with pytest.raises(OSError):
        os.writev(handle, [b"p:bad nosuch", b"p:never vfs_read"])
    os.close(handle)
    assert open_text("kprobe_events") == LISTED
    handle = os.open(f"{T}/tracing_on", os.O_WRONLY)
    assert os.writev(handle, [b"0", b"x"]) == 1
    os.close(handle)
    assert open_text("tracing_on") == "0\n"


def test_positional_and_vector_calls(kernel: SimulatedKernel) -> None:
    handle = os.open(f"{T}/kprobe_events", os.O_RDWR)
    assert os.writev(handle, [PROBE.encode(), b"\n"]) == len(PROBE) + 1
    assert os.pread(handle, 9, 2) == LISTED.encode()[2:11]
    first, second = bytearray(2), bytearray(8)
    assert os.preadv(handle, [first, second], 0) == 10
    assert (first, second) == (b"p:", b"kprobes/")
    assert os.lseek(handle, 0, os.SEEK_SET) == 0
    assert os.readv(handle, [first]) == 2
    with pytest.raises(OSError, match="Invalid argument"):
        os.fsync(handle)
    pipe = os.open(f"{T}/trace_pipe", os.O_RDONLY)
    with pytest.raises(OSError, match="Illegal seek"):
        os.pread(pipe, 1, 0)
    os.close(pipe)
    os.close(handle)


def test_duplicates_share_the_position_and_keep_the_file_open(kernel: SimulatedKernel) -> None:
    first = os.open(f"{T}/trace_pipe", os.O_RDONLY)
    second = os.dup(first)
    os.close(first)
    with pytest.raises(OSError, match="busy"):
        os.open(f"{T}/trace_pipe", os.O_RDONLY)
    third = os.open(f"{T}/tracing_on", os.O_RDONLY)
    os.dup2(third, second)  # closes the pipe
    os.close(os.open(f"{T}/trace_pipe", os.O_RDONLY))
    assert (os.read(third, 1), os.read(second, 1)) == (b"1", b"\n")
    os.close(second)
    os.close(third)


def test_descriptors_are_real_numbers(kernel: SimulatedKernel) -> None:
    ours = os.open(f"{T}/trace", os.O_RDONLY)
    other = os.open("/dev/null", os.O_RDONLY)
    assert ours != other
    os.close(ours)
    os.close(other)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(ours)


# waiting


def test_select_poll_and_epoll(kernel: SimulatedKernel) -> None:
    pipe = os.open(f"{T}/trace_pipe", os.O_RDONLY)
    poll, epoll = select.poll(), select.epoll()
    poll.register(pipe, select.POLLIN)
    epoll.register(pipe, select.EPOLLIN)

    def ready() -> tuple[bool, bool, bool]:
        return bool(select.select([pipe], [], [], 0)[0]), bool(poll.poll(0)), bool(epoll.poll(0))

    assert ready() == (False, False, False)
    pathlib.Path(T, "trace_marker").write_text("hello")
    assert ready() == (True, True, True)
    os.read(pipe, 4096)
    assert ready() == (False, False, False)
    epoll.close()
    os.close(pipe)


def test_edge_triggered_epoll(kernel: SimulatedKernel) -> None:
    """One edge for each event, whether the last one was read or not; a guest answers the same (see limits.c)."""
    pipe = os.open(f"{T}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    with select.epoll() as epoll:
        epoll.register(pipe, select.EPOLLIN | select.EPOLLET)
        assert epoll.poll(0) == []
        for is_read in (True, True, True, False, False, False):
            with open(f"{T}/trace_marker", "w") as marker:
                marker.write("an event")
            assert epoll.poll(0) == [(pipe, select.EPOLLIN)]
            if is_read:
                os.read(pipe, 4096)
            assert epoll.poll(0) == []
    os.close(pipe)


def test_non_blocking_by_flag_and_later(kernel: SimulatedKernel) -> None:
    pipe = os.open(f"{T}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert not os.get_blocking(pipe)
    with pytest.raises(BlockingIOError):
        os.read(pipe, 10)
    os.close(pipe)
    with open(f"{T}/trace_pipe", "rb", buffering=0) as file:
        os.set_blocking(file.fileno(), False)
        assert file.read(10) is None


def test_a_thread_waits_for_an_event(kernel: SimulatedKernel) -> None:
    pathlib.Path(T, "kprobe_events").write_text(PROBE)
    pathlib.Path(T, "events/kprobes/probe/enable").write_text("1")
    heard: list[str] = []

    def listen() -> None:
        with open(f"{T}/trace_pipe") as file:
            heard.append(file.readline())

    thread = threading.Thread(target=listen)
    thread.start()
    kernel.call("do_sys_openat2", task=Task(42, "cat"), args=(-100, "/etc/passwd"), returns=3)
    thread.join(20)
    assert heard[0].split()[0] == "cat-42"
    assert heard[0].endswith('path="/etc/passwd"\n')


def test_a_signal_breaks_a_waiting_read(kernel: SimulatedKernel) -> None:
    class Alarm(Exception):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    old = signal.signal(signal.SIGALRM, ring)
    with open(f"{T}/trace_pipe") as file:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            file.readline()
    signal.signal(signal.SIGALRM, old)


# the rest of the machine


def test_the_files_beside(kernel: SimulatedKernel) -> None:
    kernel.call("do_sys_openat2", task=Task(99942, "worker", tgid=99941))
    kernel.call("do_sys_openat2", task=Task(99941, "main"))
    assert f"tracefs {T} tracefs rw," in pathlib.Path("/proc/mounts").read_text()
    assert os.listdir("/proc/99941/task") == ["99941", "99942"]
    assert pathlib.Path("/proc/99941/comm").read_text() == "main\n"
    assert "99941" in os.listdir("/proc")
    assert sorted(os.listdir("/sys/kernel/debug")) == ["kprobes", "tracing"]
    pathlib.Path(T, "kprobe_events").write_text(PROBE)
    probes = pathlib.Path("/sys/kernel/debug/kprobes/list").read_text()
    assert probes.split("  ")[1:] == ["k", "do_sys_openat2+0x0", "", "[DISABLED][FTRACE]\n"]
    address = probes.split()[0]
    assert f"{address} t do_sys_openat2\n" in pathlib.Path("/proc/kallsyms").read_text()


def test_other_files_are_this_machines(kernel: SimulatedKernel, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("text")
    os.rename(tmp_path / "file", tmp_path / "other")
    assert os.listdir(tmp_path) == ["other"]
    with io.FileIO(str(tmp_path / "other")) as file:
        assert isinstance(file, io.FileIO)
        assert file.read() == b"text"
    assert subprocess.run(["cat", tmp_path / "other"], stdout=subprocess.PIPE, check=True).stdout == b"text"


def test_nothing_stays_patched(tmp_path: pathlib.Path) -> None:
    before = {name: getattr(os, name) for name in dir(os)}
    with patched("6.1"):
        handle = os.open(f"{T}/trace_pipe", os.O_RDONLY)
        assert os.open is not before["open"]
    assert {name: getattr(os, name) for name in dir(os)} == before
    assert (open, io.open, os.stat) == (real_open, real_open, real_stat)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(handle)
    with pytest.raises(FileNotFoundError):
        open(f"{T}/kprobe_events")


# what isn't covered


@pytest.mark.parametrize(
    "call",
    [
        lambda: open_bound_before(f"{T}/trace", os.O_RDONLY),
        lambda: real_open(f"{T}/trace"),
        lambda: subprocess.run(["cat", f"{T}/trace"]),
        lambda: subprocess.run(f"echo 1 > {T}/tracing_on", shell=True),
        lambda: os.system(f"echo 1 > {T}/tracing_on"),
        lambda: os.posix_spawn("/bin/cat", ["cat", f"{T}/trace"], {}),
    ],
)
def test_what_is_not_covered_says_what_is(kernel: SimulatedKernel, call: Any) -> None:
    with pytest.raises(NotCovered, match="kprobe-sim run -- COMMAND"):
        call()


def test_a_forked_process(kernel: SimulatedKernel) -> None:
    """It has a copy: what it wrote there would be lost."""
    file = os.open(f"{T}/tracing_on", os.O_RDWR)
    attempts = (
        lambda: open(f"{T}/tracing_on", "w"),
        lambda: os.stat("/proc/kallsyms"),
        lambda: os.write(file, b"0"),
        lambda: os.read(file, 1),
    )
    child = os.fork()
    if not child:
        refused = 0
        for attempt in attempts:
            try:
                attempt()
            except NotCovered:
                refused += 1
        os._exit(refused if os.path.exists("/proc/self/stat") else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(attempts)
    assert os.read(file, 2) == b"1\n"
    os.close(file)


@pytest.mark.parametrize("name", ["sqlite3", "ctypes"])
def test_extension_modules(kernel: SimulatedKernel, name: str) -> None:
    """Those that report to Python what they open."""
    module = __import__(name)
    call = module.connect if name == "sqlite3" else module.CDLL
    with pytest.raises(NotCovered, match="kprobe-sim run -- COMMAND"):
        call(f"{T}/trace")


def test_mapping(kernel: SimulatedKernel) -> None:
    with open(f"{T}/trace", "rb") as file, pytest.raises(OSError, match="No such device"):
        mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ)


def test_a_process_in_a_simulated_directory(kernel: SimulatedKernel) -> None:
    os.chdir(T)
    with pytest.raises(NotCovered, match="can't be started in a simulated directory"):
        subprocess.run(["true"])
    os.chdir("/")


def test_a_process_with_a_simulated_file(kernel: SimulatedKernel) -> None:
    with open(f"{T}/trace_marker", "wb", 0) as file, pytest.raises(NotCovered):
        subprocess.run(["echo", "hello"], stdout=file)


def test_blocks_are_not_nested(kernel: SimulatedKernel) -> None:
    with pytest.raises(RuntimeError, match="can't be nested"), patched("6.1"):
        pass
    assert open_text("tracing_on") == "1\n"


def test_no_such_kernel() -> None:
    with pytest.raises(ValueError, match=r"no profile of kernel '2\.4'"), patched("2.4"):
        pass


# names that aren't UTF-8

NAME = b"\xff\xfe"


def check_names() -> None:
    """Go through the calls with a name as bytes and as str."""
    instances = f"{T}/instances"
    os.mkdir(os.path.join(os.fsencode(instances), NAME))
    for path, name in ((instances, os.fsdecode(NAME)), (os.fsencode(instances), NAME)):
        place = os.path.join(path, name)
        assert os.listdir(path) == [name]
        assert [(entry.name, entry.path, entry.is_dir()) for entry in os.scandir(path)] == [(name, place, True)]
        file = os.path.join(place, os.fsencode("current_tracer") if isinstance(place, bytes) else "current_tracer")
        assert open(file).read() == "nop\n"
        assert os.path.isdir(place)
        with pytest.raises(FileExistsError) as caught:
            os.mkdir(place)
        assert caught.value.filename == place
        with pytest.raises(FileNotFoundError) as missing:
            os.rmdir(place + place[-1:])
        assert missing.value.filename == place + place[-1:]
    os.chdir(os.path.join(os.fsencode(instances), NAME))
    try:
        assert os.getcwdb() == os.fsencode(instances) + b"/" + NAME
        assert open("tracing_on").read() == "1\n"
    finally:
        os.chdir("/")
    with open(f"{T}/kprobe_events", "wb") as writer:
        writer.write(b"p:\xff/\xe9 do_sys_openat2\n")
    assert os.listdir(f"{T}/events/\udcff") == ["\udce9", "enable", "filter"]
    assert os.listdir(os.fsencode(T) + b"/events/\xff") == [b"\xe9", b"enable", b"filter"]
    assert os.path.exists(os.fsencode(T) + b"/events/\xff/\xe9/id")
    assert not os.path.exists(f"{T}/events/\xff")
    os.rmdir(f"{instances}/{os.fsdecode(NAME)}")
    assert os.listdir(instances) == []


def test_names_that_are_no_utf_8(kernel: SimulatedKernel) -> None:
    check_names()
    os.mkdir(f"{T}/instances/\udcff")
    for root, name in ((f"{T}/instances", "\udcff"), (os.fsencode(T) + b"/instances", b"\xff")):
        assert next((place, names) for place, names, _ in os.walk(root)) == (root, [name])


# pyfakefs


def test_names_that_are_no_utf_8_in_pyfakefs(machine: SimulatedKernel) -> None:
    check_names()


@pytest.fixture
def machine(fs: Any) -> Iterator[SimulatedKernel]:
    with patched("6.1", fs=fs) as kernel:
        yield kernel


def test_a_whole_fake_machine(machine: SimulatedKernel, fs: Any) -> None:
    fs.create_file("/etc/tool.conf", contents="probe do_sys_openat2\n")
    pathlib.Path("/var/tmp/.ftrace-lock").write_text(str(os.getpid()))
    _, function = pathlib.Path("/etc/tool.conf").read_text().split()
    with open(f"{T}/kprobe_events", "w") as file:
        file.write(f"p:probe {function} path=+0(%si):string")
    path = pathlib.Path(T, "events/kprobes/probe")
    assert (path.is_dir(), path.exists(), os.path.isdir(path)) == (True, True, True)
    (path / "enable").write_text("1")
    machine.call("do_sys_openat2", task=Task(42, "cat"), args=(-100, "/etc/passwd"), returns=3)
    assert pathlib.Path("/sys/kernel/debug/tracing/trace").read_text().endswith('path="/etc/passwd"\n')
    assert os.listdir("/proc/42/task") == ["42"]
    assert pathlib.Path("/proc/sys/kernel/osrelease").read_text() == "6.1.0-54-cloud-amd64\n"
    switches = {"kernel/kptr_restrict": "0", "kernel/ftrace_enabled": "1", "debug/kprobes-optimization": "1"}
    assert {name: pathlib.Path("/proc/sys", name).read_text().strip() for name in switches} == switches
    assert " t do_sys_openat2\n" in pathlib.Path("/proc/kallsyms").read_text()
    assert " do_sys_openat2+0x0 " in pathlib.Path("/sys/kernel/debug/kprobes/list").read_text()
    assert pathlib.Path("/sys/kernel/debug/kprobes/enabled").read_text() == "1\n"
    assert "\tdo_int3\n" in pathlib.Path("/sys/kernel/debug/kprobes/blacklist").read_text()
    pathlib.Path("/var/log/tool.log").write_text("done\n")
    pathlib.Path("/run/tool.pid").write_text("1\n")
    assert pathlib.Path("/proc/mounts").read_text() == (
        "proc /proc proc rw,relatime 0 0\nsysfs /sys sysfs rw,relatime 0 0\n"
        "tracefs /sys/kernel/tracing tracefs rw,nosuid,nodev,noexec,relatime 0 0\n"
        "debugfs /sys/kernel/debug debugfs rw,nosuid,nodev,noexec,relatime 0 0\n"
        "tracefs /sys/kernel/debug/tracing tracefs rw,nosuid,nodev,noexec,relatime 0 0\n"
    )
    os.remove("/var/tmp/.ftrace-lock")
    assert os.listdir("/var/tmp") == []


def test_errors_surface_as_cpythons_within_pyfakefs(machine: SimulatedKernel) -> None:
    file = open(f"{T}/kprobe_events", "w")
    file.write("nonsense")
    with pytest.raises(OSError, match="Invalid argument"):
        file.close()
    assert file.closed
    with pytest.raises(OSError, match="Invalid argument"):
        pathlib.Path(T, "events/sched/sched_switch/enable").write_text("2")


def test_pyfakefs_is_itself_again(fs: Any) -> None:
    with patched("6.1", fs=fs):
        pass
    assert not os.path.exists(f"{T}/trace")
    pathlib.Path("/file").write_text("text")
    assert sys.modules["os"].path.getsize("/file") == 4
