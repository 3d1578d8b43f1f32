"""What can go wrong with a machine, told apart from what a test on it finds.

    MachineError
    ├── NotReady                 the host lacks something; nothing was started
    │   ├── PackageMissing       a program of the host: one line that names the package
    │   │   └── QemuMissing
    │   ├── QemuTooOld
    │   ├── NoSuchKernel         no configured suite has that kernel, or the file is none
    │   ├── FetchFailed          apt could not fetch or verify a package
    │   └── BuildFailed          the compiler refused the agent
    └── MachineDied              a machine was started and is no more: console tail and QEMU's state are attached
        ├── BootTimeout          no hello from the guest within the deadline
        ├── GuestPanic
        │   ├── GuestOops        the panic came from an oops
        │   └── GuestOutOfMemory the panic came from the out-of-memory killer
        ├── GuestHang            the guest has stopped answering
        ├── GuestStopped         the guest powered off or rebooted
        ├── QemuDied             the QEMU process ended by itself or was killed
        ├── ChannelClosed        the guest's agent closed its port, or broke the protocol
        └── MachineClosed        used after close()

A refusal by the guest's kernel is never one of these: it is an `OSError` with the kernel's errno.
"""

from __future__ import annotations

from typing import Self

__all__ = [
    "BootTimeout",
    "BuildFailed",
    "ChannelClosed",
    "FetchFailed",
    "GuestHang",
    "GuestOops",
    "GuestOutOfMemory",
    "GuestPanic",
    "GuestStopped",
    "MachineClosed",
    "MachineDied",
    "MachineError",
    "NoSuchKernel",
    "NotReady",
    "PackageMissing",
    "QemuDied",
    "QemuMissing",
    "QemuTooOld",
]


class MachineError(Exception):
    """The machine, not what runs on it, has failed.

    `exit_status` is what a command ends with that could not do its work for this reason.
    """

    exit_status = 125


class NotReady(MachineError):
    """The host can't start a machine."""


class PackageMissing(NotReady):
    """A program that the host needs isn't there; the text is one line that says how to get it."""

    def __init__(self, program: str, packages: str, purpose: str) -> None:
        self.program = program
        self.packages = packages
        super().__init__(f"{program} is not installed ({purpose}): apt-get install {packages}")


class QemuMissing(PackageMissing):
    """There is no qemu-system-x86_64."""

    def __init__(self) -> None:
        super().__init__("qemu-system-x86_64", "qemu-system-x86", "runs the guest kernels")


class QemuTooOld(NotReady):
    """The QEMU that is there lacks what the machines need."""


class NoSuchKernel(NotReady):
    """No configured suite has the kernel that was asked for, or the file isn't a kernel."""


class FetchFailed(NotReady):
    """A package could not be fetched, or was not what the archive signed."""


class BuildFailed(NotReady):
    """The guest's agent could not be compiled."""


class MachineDied(MachineError):
    """A machine that was started is no more, or is of no more use.

    `console` is the tail of the guest's console, `console_file` the file that holds all of it, `qemu_state` what QEMU
    said or how its process ended.
    """

    def __init__(self, message: str, *, console: str = "", qemu_state: str = "", console_file: str = "") -> None:
        self.message = message
        self.console = console
        self.qemu_state = qemu_state
        self.console_file = console_file
        super().__init__(message)

    def again(self) -> Self:
        """Return an equal error, for another thread to raise (a raised one carries the first thread's traceback)."""
        return type(self)(
            self.message, console=self.console, qemu_state=self.qemu_state, console_file=self.console_file
        )

    def __str__(self) -> str:
        lines = [self.message]
        if self.qemu_state:
            lines.append(f"QEMU: {self.qemu_state}")
        if self.console:
            lines.append("console" + (f" (all of it: {self.console_file})" if self.console_file else "") + ":")
            lines += [f"  | {line}" for line in self.console.splitlines()]
        return "\n".join(lines)


class BootTimeout(MachineDied):
    """The guest's agent did not say hello within the deadline."""

    exit_status = 119


class GuestPanic(MachineDied):
    """The guest's kernel panicked."""

    exit_status = 120


class GuestOops(GuestPanic):
    """The guest's kernel panicked after an oops (the machines boot with oops=panic)."""

    exit_status = 121


class GuestOutOfMemory(GuestPanic):
    """The guest's kernel panicked for want of memory."""

    exit_status = 122


class GuestHang(MachineDied):
    """The guest stopped answering, or did not finish an operation that can't take that long."""

    exit_status = 123


class GuestStopped(MachineDied):
    """The guest powered off or rebooted."""

    exit_status = 118


class QemuDied(MachineDied):
    """The QEMU process ended by itself or was killed."""

    exit_status = 124


class ChannelClosed(MachineDied):
    """The guest's agent closed its port, or one side broke the protocol."""

    exit_status = 117


class MachineClosed(MachineDied):
    """The machine was used after it had been closed."""

    exit_status = 116
