"""One real guest, and what can be done with it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pexpect
import pytest

from kprobe_vm import Machine
from kprobe_vm.guest.backend import open_vm
from kprobe_vm.images.root import APPLETS

pytestmark = pytest.mark.vm

PROBE = b"p:vmtest do_sys_openat2 filename=+0(%si):string\n"


def test_the_kernel_is_the_one_that_was_asked_for(machine: Machine, series: str) -> None:
    assert machine.kernel is not None
    assert machine.release == machine.kernel.release
    assert machine.release.startswith(f"{series}.") or machine.release.startswith(f"{series}-")
    assert machine.run(["uname", "-r"], check=True).stdout.decode().strip() == machine.release
    assert machine.version.startswith("#1 SMP")


def test_the_root_has_what_a_tracer_needs(machine: Machine) -> None:
    mounts = {tuple(line.split()[1:3]) for line in machine.files.read("proc/mounts").decode().splitlines()}
    assert mounts >= {
        ("/proc", "proc"),
        ("/sys", "sysfs"),
        ("/dev", "devtmpfs"),
        ("/tmp", "tmpfs"),
        ("/sys/kernel/debug", "debugfs"),
        ("/sys/kernel/tracing", "tracefs"),
    }
    assert machine.files.read("etc/hostname") == b"guest\n"
    assert machine.run(["hostname"]).stdout == b"guest\n"
    assert {"README", "kprobe_events", "trace_pipe"} <= set(machine.tracefs.listdir(""))
    assert set(machine.run(["busybox", "--list"]).stdout.decode().split()) >= set(APPLETS.split())


def test_the_clock_is_right_and_can_be_set(machine: Machine) -> None:
    def clock() -> float:
        return float(machine.run(["date", "+%s"]).stdout)

    assert abs(clock() - time.time()) < 60
    machine.set_clock(1_000_000_000)
    assert 0 <= clock() - 1_000_000_000 < 60
    machine.set_clock(time.time())


def test_a_probe_is_written_read_and_deleted(machine: Machine) -> None:
    tracefs = machine.tracefs
    tracefs.write("kprobe_events", PROBE)
    try:
        assert tracefs.read("kprobe_events") == b"p:kprobes/vmtest do_sys_openat2 filename=+0(%si):string\n"
        assert "vmtest" in tracefs.listdir("events/kprobes")
    finally:
        tracefs.write("kprobe_events", b"-:vmtest")
    assert not tracefs.exists("events/kprobes/vmtest")


def test_refusals_have_the_kernels_errno(machine: Machine) -> None:
    tracefs = machine.tracefs
    older = machine.kernel is not None and machine.kernel.series in ("5.10", "6.1")
    unknown = errno.ENOENT if older else errno.EINVAL
    tracefs.write("kprobe_events", PROBE)
    try:
        for call, number, path in [
            (lambda: tracefs.write("kprobe_events", b"p:x no_such_function"), unknown, "kprobe_events"),
            (lambda: tracefs.write("kprobe_events", b"r:vmtest do_sys_openat2"), errno.EEXIST, "kprobe_events"),
            (lambda: tracefs.write("kprobe_events", b"nonsense"), errno.EINVAL, "kprobe_events"),
            (lambda: tracefs.write("kprobe_events", b"-:kprobes/none"), errno.ENOENT, "kprobe_events"),
            (lambda: tracefs.write("README", b"x"), errno.EINVAL, "README"),
            (lambda: tracefs.write("events/kprobes/vmtest/enable", b"2"), errno.EINVAL, "events/kprobes/vmtest/enable"),
            (lambda: tracefs.write("nosuch", b"x"), errno.ENOENT, "nosuch"),
            (lambda: tracefs.read("nosuch"), errno.ENOENT, "nosuch"),
            (lambda: tracefs.read("events"), errno.EISDIR, "events"),
            (lambda: tracefs.mkdir("events/new"), errno.EPERM, "events/new"),
            (lambda: tracefs.rmdir("instances/none"), errno.ENOENT, "instances/none"),
        ]:
            with pytest.raises(OSError) as caught:
                call()
            assert (caught.value.errno, caught.value.filename) == (number, path)
        tracefs.write("events/kprobes/vmtest/enable", b"1")
        with pytest.raises(OSError) as caught:
            tracefs.write("kprobe_events", b"-:vmtest")
        assert caught.value.errno == errno.EBUSY
        tracefs.write("events/kprobes/vmtest/enable", b"0")
    finally:
        tracefs.write("kprobe_events", b"-:vmtest")


def test_an_instance_is_made_and_removed(machine: Machine) -> None:
    machine.tracefs.mkdir("instances/vmtest")
    assert machine.tracefs.exists("instances/vmtest/trace_pipe")
    machine.tracefs.rmdir("instances/vmtest")
    assert machine.tracefs.listdir("instances") == []


def test_system_calls_on_an_open_file(machine: Machine) -> None:
    with machine.tracefs.open("README", os.O_RDONLY) as readme:
        start = readme.read(16)
        assert start == b"tracing mini-HOW"
        assert readme.lseek(8) == 8
        assert readme.read(8) == b"mini-HOW"
    with machine.tracefs.open("trace_pipe", os.O_RDONLY | os.O_NONBLOCK) as pipe:
        assert pipe.poll() == 0
        with pytest.raises(BlockingIOError):
            pipe.read(4096)


def test_trace_pipe_blocks_and_wakes_and_ends(machine: Machine) -> None:
    tracefs = machine.tracefs
    with tracefs.stream("trace_pipe") as pipe:
        with pytest.raises(TimeoutError):
            pipe.read(timeout=0.1)
        wakes = []
        for turn in range(5):
            start = time.perf_counter()
            tracefs.write("trace_marker", b"marker %d" % turn)
            text = pipe.read(timeout=30)
            wakes.append(time.perf_counter() - start)
            assert text.rstrip().endswith(b": tracing_mark_write: marker %d" % turn)
        print(f"wake of a blocked read: {sorted(wakes)[2] * 1000:.1f} ms")
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(pipe.read()))
        thread.start()
        start = time.perf_counter()
        pipe.close()
        thread.join(30)
        print(f"cancel: {(time.perf_counter() - start) * 1000:.1f} ms")
        assert got == [b""]
    with tracefs.stream("trace_pipe") as pipe, pytest.raises(TimeoutError):
        pipe.read(timeout=0.05)  # the one before has let go of it


def test_an_unread_stream_holds_up_nothing(machine: Machine) -> None:
    tracefs = machine.tracefs
    line = b"x" * 200
    with tracefs.stream("trace_pipe") as pipe:
        script = (
            f"i=0; while [ $i -lt 3000 ]; do echo {line.decode()} >/sys/kernel/tracing/trace_marker; i=$((i+1)); done"
        )
        assert machine.run(["sh", "-c", script]).returncode == 0
        assert tracefs.read("tracing_on") == b"1\n"
        text = b""
        while text.count(line) < 3000:
            text += pipe.read(timeout=30)
    assert text.count(line) == 3000
    assert b"LOST" not in text


def test_a_write_may_be_long(machine: Machine) -> None:
    count = 300
    machine.tracefs.write("kprobe_events", b"".join(b"p:vmtest%d vfs_read\n" % n for n in range(count)))
    try:
        assert machine.tracefs.read("kprobe_events").count(b"\n") == count
    finally:
        machine.tracefs.write("kprobe_events", b"".join(b"-:vmtest%d\n" % n for n in range(count)))


def test_run_is_like_subprocess_run(machine: Machine) -> None:
    done = machine.run(["sh", "-c", "cat; echo err >&2; exit 3"], input=b"some input")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"some input", b"err\n")
    with pytest.raises(subprocess.CalledProcessError):
        machine.run(["false"], check=True)
    with pytest.raises(FileNotFoundError):
        machine.run(["no-such-program"])
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        machine.run(["sleep", "1000"], timeout=0.2)
    assert time.monotonic() - start < 10
    assert machine.files.listdir("tmp") == []


def test_a_large_file_goes_in_and_comes_back(machine: Machine) -> None:
    content = os.urandom(3_000_000)
    machine.put("tmp/large", content)
    try:
        assert machine.files.read("tmp/large") == content
    finally:
        machine.files.unlink("tmp/large")


def test_threads_of_a_process(machine: Machine) -> None:
    process = machine.start_process(["sleep", "1000"])
    assert machine.tracefs.threads(process.pid) == [process.pid]
    process.kill()
    assert process.wait(30) == -9
    with pytest.raises(ProcessLookupError):
        machine.tracefs.threads(process.pid)


def test_lines_of_the_kernels_log_since(machine: Machine) -> None:
    """The guest's kernel may say something of its own meanwhile."""
    machine.run(["sh", "-c", "echo ours: before > /dev/kmsg"])
    since = machine.tracefs.kernel_log()
    machine.run(["sh", "-c", "echo 'ours: first; of two' > /dev/kmsg; echo '<4>ours: second' > /dev/kmsg"])
    assert [line for line in since() if line.startswith("ours: ")] == ["ours: first; of two", "ours: second"]
    assert not [line for line in machine.tracefs.kernel_log()() if line.startswith("ours: ")]


def test_orphans_are_reaped(machine: Machine) -> None:
    machine.run(["sh", "-c", "(sleep 0.1 &) ; true"])
    deadline = time.monotonic() + 30
    while (processes := machine.run(["ps", "-o", "stat,comm"]).stdout.decode()) and time.monotonic() < deadline:
        if "sleep" not in processes:
            break
    assert "sleep" not in processes


def test_the_backend_plays_until_it_is_closed(series: str) -> None:
    tracefs = open_vm(f"{series},cpus=2")
    try:
        assert tracefs.machine.run(["nproc"]).stdout == b"2\n"
        assert tracefs.machine.accelerator in ("kvm", "tcg,thread=single")
        tracefs.write("kprobe_events", PROBE)
        tracefs.write("events/kprobes/vmtest/filter", b'filename ~ "*host*"')
        tracefs.write("events/kprobes/vmtest/enable", b"1")
        with tracefs.stream("trace_pipe") as pipe:
            with pytest.raises(TimeoutError):
                pipe.read(timeout=1.5)
            tracefs.play()
            tracefs.play()
            text = b""
            while b"/etc/hostname" not in text or b"/etc/hosts" not in text:
                text += pipe.read(timeout=30)
        assert b" vmtest: (do_sys_openat2+0x0/" in text
    finally:
        tracefs.close()
    assert not Path(f"/proc/{tracefs.machine.boot.qemu.pid}/exe").exists()


def test_a_kernel_from_a_file(machine: Machine, tmp_path: Path) -> None:
    assert machine.kernel is not None
    copy = tmp_path / "vmlinux"
    copy.write_bytes(machine.kernel.image.read_bytes())
    with Machine(str(copy)) as other:
        assert other.release == machine.release
        assert other.kernel is not None
        assert other.kernel.image == copy
        assert other.tracefs.exists("kprobe_events")


def test_the_command_gives_cmds_output_and_status(series: str) -> None:
    script = ["sh", "-c", "echo out; echo err >&2; exit 7"]
    command = [sys.executable, "-m", "kprobe_vm", "-q", "run", series, "--", *script]
    done = subprocess.run(command, capture_output=True, timeout=110, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_a_shell_on_the_console(series: str) -> None:
    terminal = pexpect.spawn(sys.executable, ["-m", "kprobe_vm", "shell", series], timeout=60)
    try:
        terminal.expect("Ctrl-] leaves it")
        terminal.expect("# ")
        terminal.sendline("echo $((6*7)); tty")
        terminal.expect("42\r\n.*/dev/ttyS0")
        terminal.sendline("exit 5")
        terminal.expect(pexpect.EOF)
        terminal.wait()
        assert terminal.exitstatus == 5
    finally:
        terminal.close(force=True)
