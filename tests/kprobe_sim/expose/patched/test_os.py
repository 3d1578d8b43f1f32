"""os, pathlib, shutil and what else is built on them."""

from __future__ import annotations

import errno
import glob
import os
import pathlib
import shutil
import stat
from typing import Any

import pytest

from kprobe_sim import SimulatedKernel

from .conftest import LISTED, PROBE, T, open_text

real_open = open


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
