"""The entry point behind `vm:...` specs: a guest's tracefs whose `close` shuts the guest down."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kprobe_vm.agent.process import GuestProcess
from kprobe_vm.agent.tracefs import GuestTracefs
from kprobe_vm.errors import NotReady
from kprobe_vm.guest import slots
from kprobe_vm.guest.lab import Lab
from kprobe_vm.guest.surroundings import Surroundings
from kprobe_vm.host.progress import LATER, Progress, ProgressPrinter
from kprobe_vm.images.kernels import image_of
from kprobe_vm.images.kerneltree import series_of
from kprobe_vm.machine.machine import Machine

# What an idle machine does: enough to be seen, little enough to be read.
PLAY = "while :; do cat /etc/hostname >/dev/null; sleep 0.5; cat /etc/hosts >/dev/null; sleep 0.5; done"


class Spec(NamedTuple):
    """What stands after `vm:`: a kernel, then words after commas: `idle`, `cold`, `serial`, `cpus=N`, `memory=MiB`.

    A `cold` machine boots instead of being cloned from a template; a `serial` one has no virtio devices.
    """

    kernel: str = "6.1"
    idle: bool = False
    cpus: int = 1
    memory: int = 256
    cold: bool = False
    serial: bool = False

    @classmethod
    def parse(cls, argument: str) -> Spec:
        """Read the text after `vm:`; raise `ValueError` with what is wrong."""
        kernel, *words = argument.split(",")
        spec = cls(kernel or cls().kernel)
        for word in words:
            name, equals, value = word.partition("=")
            if word == "idle":
                spec = spec._replace(idle=True)
            elif word in ("cold", "serial"):
                spec = spec._replace(cold=True) if word == "cold" else spec._replace(serial=True)
            elif name in ("cpus", "memory") and equals and value.isdecimal() and int(value) > 0:
                spec = spec._replace(cpus=int(value)) if name == "cpus" else spec._replace(memory=int(value))
            else:
                raise ValueError(f"vm:{argument}: {word!r} is none of idle, cold, serial, cpus=N, memory=MiB")
        return spec


class VmTracefs(GuestTracefs):
    """A tracefs with its own machine."""

    def __init__(
        self,
        machine: Machine,
        spec: Spec,
        lab: Lab,
        slot: slots.GuestSlot,
        begun: Callable[[], Progress] = ProgressPrinter,
    ) -> None:
        super().__init__(machine.channel, machine.tracefs_path, deadline=machine.boot.deadlines.operation)
        self.machine = machine
        self._spec = spec
        self._lab = lab
        self._slot = slot
        self._begun = begun
        self._workload: GuestProcess | None = None

    def play(self) -> None:
        """Let the guest open files, about twice a second, until `close`; nothing for an idle machine."""
        if not self._spec.idle and (self._workload is None or self._workload.returncode is not None):
            self._workload = self.machine.start_process(["sh", "-c", PLAY])

    @property
    def is_alive(self) -> bool:
        """Whether nothing has ended the machine."""
        return self.machine.channel.failure is None

    def surroundings(self) -> Surroundings:
        """Return the present state of what surrounds the tracefs."""
        return Surroundings(self.machine)

    def renew(self) -> VmTracefs:
        """End the machine, and return the tracefs of another that is as if it had just booted.

        While that one is used, the next gets ready, as a caller of this will call it again.
        """
        self.machine.close()
        slot = self._slot if self._slot.is_held else _slot(self._spec, self._begun())
        try:
            machine = self._lab.machine()
        except BaseException:
            slot.close()
            raise
        if machine.is_clone:
            self._lab.prepare()
        return VmTracefs(machine, self._spec, self._lab, slot, self._begun)

    def close(self) -> None:
        """End the machine, and the spare one."""
        self.machine.close()
        self._lab.close()
        self._slot.close()


def _machine(spec: Spec, progress: Progress | None) -> Machine:
    return Machine(
        spec.kernel,
        cpus=spec.cpus,
        memory=spec.memory,
        progress=progress,
        template=not spec.cold,
        virtio=not spec.serial,
    )


def _slot(spec: Spec, progress: Progress) -> slots.GuestSlot:
    return slots.take(slots.limit(os.environ, spec.memory), waiting=progress)


def check(argument: str) -> None:
    """Raise `ValueError` for a spec that no kernel can fit, or a file that isn't a kernel; fetch nothing."""
    kernel = Spec.parse(argument).kernel
    if "/" in kernel:
        path = Path(kernel).expanduser()
        try:
            image_of(path)
        except NotReady as error:
            raise ValueError(str(error).replace(str(path), kernel, 1)) from error
    elif not series_of(kernel):
        raise ValueError(
            f"{kernel!r} is neither a kernel series (such as 6.1) nor a release nor a path (which has a /)"
        )


def open_vm(argument: str, *, progress: Progress | None = None) -> VmTracefs:
    """Start the guest that a spec describes and return its tracefs, which must be closed.

    If all guest slots of this host are taken, wait for one, but not for long.  `progress` is called with one line at
    each step; without it, standard error says what takes more than a second.  Raise `ValueError` for a bad spec,
    `NotReady` if the host lacks something (one line that says what), `MachineDied` if the guest doesn't come up.
    """
    spec = Spec.parse(argument)

    def begun() -> Progress:
        return progress or ProgressPrinter(after=LATER)

    def make() -> Machine:
        return _machine(spec, begun())

    lab = Lab(make, spare=lambda: _machine(spec, None))
    slot = _slot(spec, begun())
    try:
        return VmTracefs(lab.machine(), spec, lab, slot, begun)
    except BaseException:
        slot.close()
        raise
