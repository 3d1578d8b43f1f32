"""The errors of a machine, kept apart from what a test on it finds.

    MachineError
    ├── NotReady                 the host lacks something; nothing was started
    │   ├── PackageMissing       a program of the host: one line that names the package
    │   │   ├── QemuMissing
    │   │   └── CompilerMissing
    │   ├── ExtraMissing         a Python package of the extra [vm]
    │   ├── QemuTooOld
    │   ├── NoSuchKernel         no configured suite has that kernel, or the file isn't one
    │   │   └── KernelGone       the lock names it, or it had that release, and the archive has it no more
    │   ├── WrongArchitecture    a package, a kernel or a compiler for another processor
    │   ├── FetchFailed          a package or an index could not be fetched
    │   │   ├── ArchiveUnreachable
    │   │   ├── BadSignature     the index isn't signed by a key of the keyring, or is that of another suite
    │   │   ├── PackageCorrupt   what came isn't what the signed index or the lock names, or can't be unpacked
    │   │   └── CacheCorrupt     a cached file was damaged, and could not be fetched again
    │   ├── DiskFull             no room for the cache
    │   ├── CacheUnsafe          the cache directory is somebody else's, or others can write to it
    │   ├── TemplateStale        a saved guest can't be used any more; machines then boot instead
    │   ├── BuildFailed          the compiler refused the agent
    │   ├── SchedulerUnreachable no scheduler of a distributed engine answers at the address
    │   └── NoWorkers            it has no worker that can do the work
    ├── SchedulerLost            it answered, and is gone
    ├── ShardFailed              a piece of some work failed on every worker that tried
    └── MachineDied              a machine was started and has ended: console tail and QEMU's state are attached
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
    "ArchiveUnreachable",
    "BadSignature",
    "BootTimeout",
    "BuildFailed",
    "CacheCorrupt",
    "CacheUnsafe",
    "ChannelClosed",
    "CompilerMissing",
    "DiskFull",
    "ExtraMissing",
    "FetchFailed",
    "GuestHang",
    "GuestOops",
    "GuestOutOfMemory",
    "GuestPanic",
    "GuestStopped",
    "KernelGone",
    "MachineClosed",
    "MachineDied",
    "MachineError",
    "NoSuchKernel",
    "NoWorkers",
    "NotReady",
    "PackageCorrupt",
    "PackageMissing",
    "QemuDied",
    "QemuMissing",
    "QemuTooOld",
    "SchedulerLost",
    "SchedulerUnreachable",
    "ShardFailed",
    "TemplateStale",
    "WrongArchitecture",
]


class MachineError(Exception):
    """The machine, not what runs on it, has failed.

    A command that fails for this reason ends with `exit_status`.
    """

    exit_status = 125


class NotReady(MachineError):
    """The host can't start a machine."""


class PackageMissing(NotReady):
    """A program that the host needs isn't there; the text is one line that says how to get it."""

    exit_status = 115

    def __init__(self, program: str, packages: str, purpose: str) -> None:
        self.program = program
        self.packages = packages
        super().__init__(f"{program} is not installed ({purpose}): apt-get install {packages}")


class QemuMissing(PackageMissing):
    """There is no qemu-system-x86_64."""

    exit_status = 114

    def __init__(self) -> None:
        super().__init__("qemu-system-x86_64", "qemu-system-x86", "runs the guest kernels")


class CompilerMissing(PackageMissing):
    """There is no C compiler."""

    exit_status = 113

    def __init__(self) -> None:
        super().__init__("cc", "gcc libc6-dev", "compiles the guest's agent")


class ExtraMissing(NotReady, ImportError):
    """A Python package that machines, or tests on them, need isn't there; the text says in one line how to get it."""

    exit_status = 112

    def __init__(
        self, text: str = "kprobe_vm needs the Python packages pexpect and qemu.qmp: pip install 'kprobe-sim[vm]'"
    ) -> None:
        super().__init__(text)


class QemuTooOld(NotReady):
    """The QEMU that is there lacks what the machines need."""

    exit_status = 111


class NoSuchKernel(NotReady):
    """No configured suite has the kernel that was asked for, or the file isn't a kernel."""

    exit_status = 110


class KernelGone(NoSuchKernel):
    """The archive no longer has this kernel; the text names the nearest one that it has."""

    exit_status = 109


class WrongArchitecture(NotReady):
    """A package, a kernel or a compiler is for another processor than x86-64."""

    exit_status = 108


class FetchFailed(NotReady):
    """A package or an index could not be fetched."""

    exit_status = 107


class ArchiveUnreachable(FetchFailed):
    """The archive's server doesn't answer."""

    exit_status = 106


class BadSignature(FetchFailed):
    """The archive's index isn't signed by a key of the keyring, or is that of another suite."""

    exit_status = 105


class PackageCorrupt(FetchFailed):
    """A fetched file isn't the one that the signed index or the lock names, or can't be unpacked."""

    exit_status = 104


class CacheCorrupt(FetchFailed):
    """A file in the cache was damaged, and could not be fetched again."""

    exit_status = 103


class DiskFull(NotReady):
    """The file system of the cache is full."""

    exit_status = 102


class CacheUnsafe(NotReady):
    """The cache directory belongs to somebody else, or others can write to it: what is in it would be run."""

    exit_status = 99


class TemplateStale(NotReady):
    """The saved memory of a booted guest can't be used: it is damaged, or QEMU doesn't take it."""

    exit_status = 100


class BuildFailed(NotReady):
    """The guest's agent could not be compiled."""

    exit_status = 101


class SchedulerUnreachable(NotReady):
    """No scheduler of a distributed engine answers at the address."""

    exit_status = 98


class NoWorkers(NotReady):
    """The scheduler has no worker that can do the work; the text says of each what it lacks."""

    exit_status = 97


class SchedulerLost(MachineError):
    """The scheduler of a distributed engine answered, and is gone."""

    exit_status = 96


class ShardFailed(MachineError):
    """A piece of some work failed on every worker that tried; `exit_status` is the last fault's, if that has one."""

    exit_status = 95

    def __init__(self, text: str, status: int = MachineError.exit_status) -> None:
        super().__init__(text)
        if status != MachineError.exit_status:
            self.exit_status = status


class MachineDied(MachineError):
    """A machine that was started has ended, or is no longer usable.

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
        equal = type(self)(
            self.message, console=self.console, qemu_state=self.qemu_state, console_file=self.console_file
        )
        equal.__cause__ = self.__cause__
        return equal

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
