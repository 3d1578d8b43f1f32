"""The QEMU process: its command line and its start, and the guarantee that it never outlives us."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

from kprobe_vm.errors import QemuDied
from kprobe_vm.host import programs

# nokaslr: symbols stay at their addresses in every run.  cryptomgr.notests: 0.3 s less.  no_timer_check: on a busy host
# the kernel finds its emulated timer too slow, and panics ("IO-APIC + timer doesn't work").  rcu_expedited: removing a
# probe, an event or a buffer waits for a grace period, 20 to 60 ms on an idle guest and now less than 1.  panic=-1
# and oops=panic, with QEMU's -no-reboot: a dead kernel ends QEMU at once.  Mitigations stay on: they are part of the
# kernel under test.
COMMAND_LINE = (
    "console=ttyS0 nokaslr cryptomgr.notests tsc=reliable no_timer_check rcupdate.rcu_expedited=1 panic=-1 oops=panic"
)


class Hardware(NamedTuple):
    """The virtual machine to start."""

    kernel: Path
    initrd: Path
    accelerator: str  # "kvm", "tcg" or "tcg,thread=single"
    memory: int = 256  # MiB
    cpus: int = 1
    command_line: str = ""  # added to COMMAND_LINE
    virtio: bool = True  # whether there is a virtio port; without it there is the serial one alone


class Ram(NamedTuple):
    """Guest memory with a name, as a template or a clone needs it."""

    descriptor: int | None = None  # of the file that is mapped; None for memory without a file
    shared: bool = False  # whether the guest's writes go to the file; else the guest keeps them to itself

    def arguments(self, memory: int) -> list[str]:
        """Return QEMU's arguments that make this the machine's memory, with its size in MiB."""
        if self.descriptor is None:
            return ["-object", f"memory-backend-ram,id=ram,size={memory}M"]
        share = "on" if self.shared else "off"
        path = f"/proc/self/fd/{self.descriptor}"
        return ["-object", f"memory-backend-file,id=ram,mem-path={path},size={memory}M,share={share}"]


class Descriptors(NamedTuple):
    """QEMU's ends of four socket pairs."""

    agent: int  # the virtio port
    serial: int  # ttyS1, which the agent uses on a kernel without virtio
    console: int
    control: int


def arguments(hardware: Hardware, ends: Descriptors, *, ram: Ram | None = None, incoming: bool = False) -> list[str]:
    """Return QEMU's arguments; with `incoming` the machine does nothing until it is given another machine's state."""
    return [
        "-nodefaults",
        "-no-user-config",
        *("-display", "none"),
        *("-machine", "pc" if ram is None else "pc,memory-backend=ram"),
        *([] if ram is None else ram.arguments(hardware.memory)),
        *(("-incoming", "defer") if incoming else ()),
        *("-accel", hardware.accelerator),
        *_processor(hardware),
        *("-m", f"{hardware.memory}M"),
        *("-smp", str(hardware.cpus)),
        *("-kernel", str(hardware.kernel)),
        *("-initrd", str(hardware.initrd)),
        *("-append", f"{COMMAND_LINE} {hardware.command_line}".strip()),
        "-no-reboot",
        *("-chardev", f"socket,id=console,fd={ends.console}"),
        *("-serial", "chardev:console"),
        *("-chardev", f"socket,id=control,fd={ends.control}"),
        *("-mon", "chardev=control,mode=control"),
        *("-chardev", f"socket,id=serial,fd={ends.serial}"),
        *("-serial", "chardev:serial"),
        *(_virtio(ends.agent) if hardware.virtio else ()),
    ]


def _processor(hardware: Hardware) -> list[str]:
    """Return the arguments for the kind of processor.

    An emulated one of a guest without virtio has no cmpxchg16b: where many interrupts come, as those of a serial port
    do, TCG of QEMU 7.2 leaves in EFLAGS what RAX holds, and 6.12, whose kmalloc() uses it, ends in a double fault.
    """
    if hardware.accelerator == "kvm":
        return ["-cpu", "host"]
    return [] if hardware.virtio else ["-cpu", "qemu64,-cx16"]


def _virtio(agent: int) -> list[str]:
    return [
        *("-chardev", f"socket,id=agent,fd={agent}"),
        *("-device", "virtio-serial-pci"),
        # with an id, as QEMU reports the closing of a port only then
        *("-device", "virtserialport,chardev=agent,name=kprobe.agent,id=agent"),
    ]


def dying_with(parent: int) -> list[str]:
    """Return the command that runs another one so that it dies with its parent, and doesn't start after the parent's
    death.

    The kernel reports only deaths that come after the request.
    """
    return [
        programs.find("setpriv"),
        "--pdeathsig",
        "KILL",
        "/bin/sh",
        "-c",
        '[ "$PPID" = "$0" ] && exec "$@"',
        str(parent),
    ]


class Qemu:
    """A running QEMU, connected by inherited socket pairs: no file system holds a name that could clash or stay behind.

    The kernel kills it (PR_SET_PDEATHSIG) when the thread that started it ends; that is a thread of ours that waits
    for QEMU, so this happens when our process dies and not before.  QEMU has its own session: a Ctrl-C in the terminal
    doesn't reach it.
    """

    def __init__(self, program: str, hardware: Hardware, *, ram: Ram | None = None, state: int | None = None) -> None:
        """Start it; `ram` is the memory unless it is ordinary, `state` a descriptor to resume from."""
        self.agent, agent = socket.socketpair()
        self.serial, serial = socket.socketpair()
        self.console, console = socket.socketpair()
        self.control, control = socket.socketpair()
        theirs = (agent, serial, console, control)
        self._command = [
            *dying_with(os.getpid()),
            program,
            *arguments(
                hardware,
                Descriptors(
                    agent=agent.fileno(), serial=serial.fileno(), console=console.fileno(), control=control.fileno()
                ),
                ram=ram,
                incoming=state is not None,
            ),
        ]
        inherited = [end.fileno() for end in theirs]
        inherited += [number for number in (ram.descriptor if ram else None, state) if number is not None]
        self.ended = threading.Event()
        self.status: int | None = None
        self.complaint = ""
        self._process: subprocess.Popen[bytes] | None = None
        born: queue.SimpleQueue[OSError | None] = queue.SimpleQueue()
        thread = threading.Thread(target=self._keep, args=(inherited, born), name="kprobe-vm qemu", daemon=True)
        thread.start()
        try:
            error = born.get()
        except BaseException:  # Ctrl-C: the process may appear in a moment
            thread.join(0.5)
            self.kill()
            raise
        finally:
            for end in theirs:
                end.close()
        if error is not None:
            raise QemuDied(f"QEMU could not be started: {error}")

    @property
    def pid(self) -> int:
        """QEMU's process id."""
        return self._process.pid if self._process else 0

    def kill(self) -> None:
        """End it now, and wait until it has."""
        if self._process is not None and not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            self.ended.wait(10)

    def describe(self) -> str:
        """Return the state of the process."""
        if self.status is None:
            return f"running as process {self.pid}"
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        complaint = f": {self.complaint}" if self.complaint else ""
        return f"exited with status {self.status}{complaint}"

    def _keep(self, descriptors: list[int], born: queue.SimpleQueue[OSError | None]) -> None:
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=descriptors,
                start_new_session=True,
            )
        except OSError as error:
            born.put(error)
            self.ended.set()
            return
        born.put(None)
        _, complaint = self._process.communicate()
        self.complaint = complaint.decode(errors="replace").strip()
        self.status = self._process.returncode
        self.ended.set()
