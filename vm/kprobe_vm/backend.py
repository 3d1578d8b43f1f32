"""The entry point behind `vm:...` specs: a guest's tracefs whose `close` ends the guest."""

from __future__ import annotations

from typing import NamedTuple

from kprobe_vm.apt import Progress
from kprobe_vm.machine import Machine
from kprobe_vm.process import GuestProcess
from kprobe_vm.tracefs import GuestTracefs

__all__ = ["Spec", "VmTracefs", "open_vm"]

# What a machine that has nothing to do does: enough to be seen, little enough to be read.
PLAY = "while :; do cat /etc/hostname >/dev/null; sleep 0.5; cat /etc/hosts >/dev/null; sleep 0.5; done"


class Spec(NamedTuple):
    """What stands after `vm:`: a kernel, then words after commas: `idle`, `cpus=N`, `memory=MiB`."""

    kernel: str = "6.1"
    idle: bool = False
    cpus: int = 1
    memory: int = 256

    @classmethod
    def parse(cls, argument: str) -> Spec:
        """Read the text after `vm:`; raise `ValueError` with what is wrong."""
        kernel, *words = argument.split(",")
        spec = cls(kernel or cls().kernel)
        for word in words:
            name, equals, value = word.partition("=")
            if word == "idle":
                spec = spec._replace(idle=True)
            elif name in ("cpus", "memory") and equals and value.isdecimal() and int(value) > 0:
                spec = spec._replace(cpus=int(value)) if name == "cpus" else spec._replace(memory=int(value))
            else:
                raise ValueError(f"vm:{argument}: {word!r} is none of idle, cpus=N, memory=MiB")
        return spec


class VmTracefs(GuestTracefs):
    """The tracefs of a machine of its own."""

    def __init__(self, machine: Machine, *, idle: bool = False) -> None:
        super().__init__(machine.channel)
        self.machine = machine
        self._idle = idle
        self._workload: GuestProcess | None = None

    def play(self) -> None:
        """Let the guest open files, about twice a second, until `close`; nothing for an idle machine."""
        if not self._idle and self._workload is None:
            self._workload = self.machine.start_process(["sh", "-c", PLAY])

    def close(self) -> None:
        """End the machine."""
        self.machine.close()


def open_vm(argument: str, *, progress: Progress | None = None) -> VmTracefs:
    """Boot the guest that a spec describes and return its tracefs, which must be closed.

    `progress` is called with one line at each step. Raise `ValueError` for a bad spec, `NotReady` if the host lacks
    something (one line that says what), `MachineDied` if the guest doesn't come up.
    """
    spec = Spec.parse(argument)
    machine = Machine(spec.kernel, cpus=spec.cpus, memory=spec.memory, progress=progress)
    machine.start()
    return VmTracefs(machine, idle=spec.idle)
