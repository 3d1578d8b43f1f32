"""Every way a guest can die, provoked for real: a distinct error within its deadline, for the caller and for a blocked
read in another thread, and no QEMU left."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kprobe_vm import Machine
from kprobe_vm.errors import (
    BootTimeout,
    ChannelClosed,
    GuestHang,
    GuestOops,
    GuestOutOfMemory,
    GuestPanic,
    GuestStopped,
    MachineClosed,
    MachineDied,
    QemuDied,
)
from kprobe_vm.host.accelerator import Verdict
from kprobe_vm.machine.boot import Deadlines

pytestmark = pytest.mark.vm

SPIN = """
#include <sched.h>
int main(void) {
    struct sched_param top = { .sched_priority = 99 };
    if (sched_setscheduler(0, SCHED_FIFO, &top)) return 1;
    for (;;) ;
}
"""


class Victim:
    """A machine of its own, with a thread that is blocked in a read of its trace_pipe."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.stream = machine.tracefs.stream("trace_pipe")
        self.caught: list[BaseException] = []
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        try:
            while self.stream.read():
                pass
        except MachineDied as error:
            self.caught.append(error)

    def dies(self, kind: type[MachineDied], within: float, deed: Callable[[], object]) -> MachineDied:
        """Do the deed; check what everybody gets and that it is in time; return the error."""
        start = time.monotonic()
        with pytest.raises(MachineDied) as later:  # noqa: PT012 - the deed itself may or may not see the end
            deed()
            self.thread.join(within)
            self.machine.tracefs.ping()
        self.thread.join(within)
        took = time.monotonic() - start
        assert not self.thread.is_alive()
        (blocked,) = self.caught
        assert type(blocked) is kind
        assert type(later.value) is kind
        assert took < within
        print(f"{kind.__name__} after {took:.2f} s")
        self.stream.close()
        pid = self.machine.boot.qemu.pid
        self.machine.close()
        assert not Path(f"/proc/{pid}/exe").exists()
        return later.value


@pytest.fixture
def victim(series: str) -> Iterator[Victim]:
    with Machine(series, deadlines=Deadlines(silence=0.5, ping=3.0), template=True) as machine:
        held = Victim(machine)
        yield held
        machine.close()
        held.thread.join(10)


def test_a_killed_qemu(victim: Victim) -> None:
    error = victim.dies(QemuDied, 5, lambda: os.kill(victim.machine.boot.qemu.pid, signal.SIGKILL))
    assert error.qemu_state == "killed by SIGKILL"


def test_a_panic(victim: Victim) -> None:
    error = victim.dies(GuestPanic, 10, lambda: victim.machine.files.write("proc/sysrq-trigger", b"c"))
    assert error.message == "the guest's kernel panicked: sysrq triggered crash"
    assert "Kernel panic - not syncing: sysrq triggered crash" in error.console
    assert error.qemu_state == "exited with status 0, guest-reset"
    assert "sysrq: Trigger a crash" in Path(error.console_file).read_text()


def test_a_panic_from_a_command_in_the_guest(victim: Victim) -> None:
    command = ["sh", "-c", "echo c >/proc/sysrq-trigger"]
    victim.dies(GuestPanic, 10, lambda: victim.machine.run(command))


def test_an_oops(victim: Victim, tmp_path: Path) -> None:
    """A breakpointless debugger writes an invalid instruction over the entry of a system call."""
    machine = victim.machine
    symbols = machine.files.read("proc/kallsyms").decode().splitlines()
    address = next(line.split()[0] for line in symbols if line.endswith(" T ksys_read"))
    place = tmp_path / "gdb"
    machine.boot.control.execute(
        "human-monitor-command", {"command-line": f"gdbserver unix:{place},server=on,wait=off"}
    )

    def overwrite() -> None:
        with socket.socket(socket.AF_UNIX) as debugger:
            debugger.connect(str(place))
            for command in (f"M{address},2:0f0b", "c"):
                checksum = sum(command.encode()) & 0xFF
                debugger.sendall(b"+$" + command.encode() + b"#%02x" % checksum)
                time.sleep(0.2)
            machine.run(["cat", "/etc/hostname"])

    error = victim.dies(GuestOops, 20, overwrite)
    assert "invalid opcode: 0000 [#1]" in error.message
    assert "RIP: 0010:ksys_read" in error.console


def test_out_of_memory(victim: Victim) -> None:
    deed = ["sh", "-c", "sysctl -w vm.panic_on_oom=2; tail /dev/zero"]
    victim.dies(GuestOutOfMemory, 60, lambda: victim.machine.run(deed))


@pytest.mark.parametrize(("command", "words"), [("poweroff", "powered off"), ("reboot", "rebooted")])
def test_a_guest_that_stops(victim: Victim, command: str, words: str) -> None:
    error = victim.dies(GuestStopped, 10, lambda: victim.machine.run([command, "-f"]))
    assert error.message == f"the guest {words}"


def test_a_hang(victim: Victim, tmp_path: Path) -> None:
    """A program that never yields, at the highest real-time priority on the only CPU.

    Since 6.12 other tasks have a share of it by a deadline server, unless that is taken away.
    """
    machine = victim.machine
    source = tmp_path / "spin.c"
    source.write_text(SPIN)
    subprocess.run(["cc", "-static", "-o", tmp_path / "spin", source], check=True)
    machine.put("tmp/spin", (tmp_path / "spin").read_bytes())
    machine.run(["sysctl", "-w", "kernel.sched_rt_runtime_us=-1"], check=True)
    servers = "for f in /sys/kernel/debug/sched/*_server/cpu0/runtime; do [ ! -e $f ] || echo 0 > $f; done"
    machine.run(["sh", "-c", servers], check=True)
    patience = machine.boot.deadlines.ping  # 3 s, and more on a busy host
    error = victim.dies(GuestHang, 20, lambda: machine.run(["/tmp/spin"]))
    assert error.message == f"the guest has not answered for {patience:.0f} s"
    assert error.qemu_state.startswith("running, RIP=")


def test_a_paused_machine(victim: Victim) -> None:
    error = victim.dies(GuestHang, 20, lambda: victim.machine.boot.control.execute("stop"))
    assert error.qemu_state.startswith("paused, RIP=ffffffff")


def test_a_stopped_qemu(victim: Victim) -> None:
    error = victim.dies(GuestHang, 30, lambda: os.kill(victim.machine.boot.qemu.pid, signal.SIGSTOP))
    assert error.qemu_state == "no answer from QEMU: no answer to query-status in 3 s"


def test_an_agent_that_leaves(victim: Victim) -> None:
    error = victim.dies(ChannelClosed, 10, lambda: victim.machine.channel._socket.send(memoryview(b"\xff" * 9)))
    assert "is longer than 1048576: port closed" in error.console


def test_a_machine_closed_under_a_reader(victim: Victim) -> None:
    victim.dies(MachineClosed, 5, victim.machine.close)


def test_a_boot_that_takes_too_long(series: str) -> None:
    others = qemu_of(os.getpid())
    machine = Machine(series, deadlines=Deadlines(boot=0.05))
    with pytest.raises(BootTimeout, match="was not up in 0 s") as caught:
        machine.start()
    assert caught.value.qemu_state.startswith("running, ")
    assert qemu_of(os.getpid()) == others


def test_a_kernel_that_panics_at_boot(series: str) -> None:
    machine = Machine(series, command_line="rdinit=/nonexistent init=/nonexistent root=/dev/none")
    with pytest.raises(GuestPanic, match=r"panicked: (VFS: Unable to mount root|No working init)"):
        machine.start()


def test_too_little_memory_to_boot(series: str) -> None:
    others = qemu_of(os.getpid())
    with pytest.raises(MachineDied) as caught:
        Machine(series, memory=40, deadlines=Deadlines(boot=4)).start()
    assert type(caught.value) in (GuestPanic, GuestOutOfMemory, GuestStopped, BootTimeout)
    assert qemu_of(os.getpid()) == others


def test_kvm_that_opens_but_does_not_run_is_found_out_once(series: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever /dev/kvm is here, absent or not: the machine comes up, and the second time without trying."""
    said: list[str] = []
    boot_id = str(uuid.uuid4())  # a host that has just booted: nothing is known of it
    monkeypatch.setattr("kprobe_vm.machine.launch.Verdict", lambda cache, version: Verdict(cache, version, boot_id))
    monkeypatch.setattr("kprobe_vm.machine.launch.can_open_kvm", lambda: True)
    with Machine(series, progress=said.append) as machine:
        accelerator = machine.accelerator
        assert machine.tracefs.exists("README")
    assert said[0] == f"booting {series} (kvm)"
    if accelerator == "tcg":
        assert said[1].startswith("/dev/kvm opens but runs no kernel (")
        assert said[2] == f"booting {series} (tcg)"
    said.clear()
    with Machine(series, progress=said.append):
        assert said == [f"booting {series} ({accelerator})"]


# ---- the parent's end ----


def qemu_of(pid: int) -> list[int]:
    """The machines among the children of all threads of a process."""
    found = []
    with contextlib.suppress(OSError):  # one that has just ended
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in task.read_text().split():
                line = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"qemu-system" in line and b"-nodefaults" in line:
                    found.append(int(child))
    return found


def wait_gone(pid: int, seconds: float = 10) -> float:
    """Wait until a process is gone (or a zombie); return the seconds that took."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                break
        except (FileNotFoundError, ProcessLookupError):  # before it was opened, or after
            break
        time.sleep(0.005)
    else:
        pytest.fail(f"process {pid} is still there")
    return time.monotonic() - start


class Child:
    """Another Python that has a machine, in a terminal session of its own."""

    def __init__(self, series: str, body: str) -> None:
        program = "import sys\nfrom kprobe_vm import Machine\n" + textwrap.dedent(body)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, series],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.qemu = 0

    def wait_qemu(self) -> int:
        deadline = time.monotonic() + 60
        while not self.qemu and time.monotonic() < deadline and self.process.poll() is None:
            self.qemu = (qemu_of(self.process.pid) or [0])[0]
        assert self.qemu
        return self.qemu


@pytest.fixture
def child(series: str) -> Iterator[Callable[[str], Child]]:
    started: list[Child] = []

    def start(body: str) -> Child:
        started.append(Child(series, body))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


RUNNING = """
    with Machine(sys.argv[1], template=True) as machine:
        print("up", flush=True)
        machine.tracefs.stream("trace_pipe").read()
"""
BOOTING = """
    try:
        Machine(sys.argv[1], command_line="init=/bin/sh rdinit=/bin/sh").start()  # nobody there ever says hello
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_a_killed_parent_leaves_no_qemu(child: Callable[[str], Child]) -> None:
    one = child(RUNNING)
    qemu = one.wait_qemu()
    assert one.process.stdout is not None
    assert one.process.stdout.readline() == b"up\n"
    os.kill(one.process.pid, signal.SIGKILL)
    print(f"QEMU gone {wait_gone(qemu) * 1000:.0f} ms after kill -9 of its parent")


def test_a_parent_killed_in_boot_leaves_no_qemu(child: Callable[[str], Child]) -> None:
    one = child(BOOTING)
    qemu = one.wait_qemu()
    os.kill(one.process.pid, signal.SIGKILL)
    wait_gone(qemu)


def test_ctrl_c_in_boot_ends_both_tidily(child: Callable[[str], Child]) -> None:
    one = child(BOOTING)
    qemu = one.wait_qemu()
    assert os.getpgid(qemu) != os.getpgid(one.process.pid)  # the terminal's signal isn't for QEMU
    os.killpg(one.process.pid, signal.SIGINT)
    out, err = one.process.communicate(timeout=30)
    assert (one.process.returncode, out, err) == (0, b"interrupted\n", b"")
    wait_gone(qemu)


def test_ctrl_c_in_a_blocked_read_ends_both_tidily(child: Callable[[str], Child]) -> None:
    one = child(RUNNING)
    qemu = one.wait_qemu()
    assert one.process.stdout is not None
    assert one.process.stdout.readline() == b"up\n"
    os.killpg(one.process.pid, signal.SIGINT)
    _, err = one.process.communicate(timeout=30)
    assert err.rstrip().endswith(b"KeyboardInterrupt")
    wait_gone(qemu)


def test_a_machine_never_closed_leaves_no_qemu(child: Callable[[str], Child]) -> None:
    one = child(
        """
        machine = Machine(sys.argv[1], template=True)
        machine.start()
        print(machine.boot.qemu.pid)
        """
    )
    out, err = one.process.communicate(timeout=110)
    assert err == b""
    wait_gone(int(out))
