"""The start of a machine: cloned from a template, booted and made into one, or just booted; on KVM or emulated."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kprobe_vm.agent.frames import Hello, Op
from kprobe_vm.errors import BootTimeout, DiskFull, MachineDied, MachineError, NotReady, QemuDied, TemplateStale
from kprobe_vm.host import pace
from kprobe_vm.host.accelerator import Verdict, can_open_kvm, kvm_trouble
from kprobe_vm.host.cache import Cache
from kprobe_vm.host.progress import Progress, measured
from kprobe_vm.machine import template
from kprobe_vm.machine.boot import Boot, Deadlines, Saved, clock_parts
from kprobe_vm.machine.control import ControlLost
from kprobe_vm.machine.migration import take_state
from kprobe_vm.machine.qemu import Hardware, Ram
from kprobe_vm.machine.template import MEMORY, NONE, Contents, Template

CONSOLE_FILES_KEPT = 50
SAVE_DEADLINE = 60.0  # seconds


class Started(NamedTuple):
    """A guest that answers."""

    boot: Boot
    hello: Hello
    accelerator: str
    is_clone: bool
    seconds: float  # as the guest got them, from QEMU's start to its answer (pace.py)


@dataclass
class Launch:
    """Everything that a start needs; `start` does it.

    `faults` lists what went wrong on the way and was worked around: a stale template, a full disk, a useless KVM.
    """

    name: str  # for people
    hardware: Hardware  # whose accelerator is a kind of "tcg"
    deadlines: Deadlines
    cache: Cache
    progress: Progress
    program: str  # QEMU
    version: str
    accelerator: str | None
    kernel_digest: str | None  # without one no template is used or made
    faults: list[MachineError] = field(default_factory=list)

    def start(self) -> Started:
        """Return a guest that answers; raise `MachineDied` if none comes up."""
        verdict = Verdict(self.cache, self.version)
        if self.accelerator == "kvm":
            return self._boot(self.hardware._replace(accelerator="kvm"))
        if self.accelerator is None and can_open_kvm() and verdict.read() is not False:
            return self._start_with_kvm(verdict)
        return self._start_emulated()

    def _start_with_kvm(self, verdict: Verdict) -> Started:
        proven = verdict.read() is True
        try:
            started = self._boot(self.hardware._replace(accelerator="kvm"), prove=not proven)
        except (BootTimeout, QemuDied) as error:
            if proven:
                raise
            self.faults.append(error)
            verdict.write(False, error.message)
            self.progress(
                f"/dev/kvm opens but runs no kernel ({error.message}): emulating from now on, which is slower"
            )
            return self._start_emulated()
        verdict.write(True, "booted")
        return started

    def _start_emulated(self) -> Started:
        # Templates are for emulated guests: with KVM a boot is quick, and clones were never tried there.
        if self.kernel_digest is None:
            return self._boot(self.hardware)
        hardware = _quiet(self.hardware)
        saved = Template(self.cache, template.template_key(self.program, self.version, hardware, self.kernel_digest))
        if saved.method == NONE:
            return self._boot(self.hardware)
        return self._clone(saved) or self._boot_and_save(saved)

    def _clone(self, saved: Template) -> Started | None:
        """Return a clone; None if there is no usable template."""
        try:
            with saved.opened() as contents:
                if contents is None:
                    return None
                started = self._boot(self.hardware, saved=contents)
        except TemplateStale as error:
            self._work_around(error, "making another")
            saved.drop()
            return None
        except MachineDied as error:
            stale = TemplateStale(f"the clone of the template {saved.path} did not come up: {error}")
            stale.__cause__ = error
            self._work_around(stale, "booting instead")
            saved.failed()
            return None
        saved.proven()
        return started

    def _boot_and_save(self, saved: Template) -> Started:
        with saved.turn():
            # another process may have made it while we waited
            if started := self._clone(saved):
                return started
            with contextlib.ExitStack() as stack:
                memory = os.memfd_create("kprobe-vm guest memory")
                stack.callback(os.close, memory)
                os.ftruncate(memory, self.hardware.memory << 20)
                started = self._boot(self.hardware, ram=Ram(memory, shared=True))
                try:
                    self._save(saved, started, memory)
                except BaseException:  # Ctrl-C as well
                    started.boot.close()
                    raise
                return started

    def _save(self, saved: Template, started: Started, memory: int) -> None:
        """Save the freshly booted guest as the template; the guest then goes on as if nothing had happened."""
        channel, control = started.boot.channel, started.boot.control
        self.progress("saving the guest as a template for the next")
        # clones then have in memory what every user does first
        tracing = started.hello.tracing
        for op, path in ((Op.STAT, f"{tracing}\0"), (Op.READ_FILE, f"{tracing}/kprobe_events\0")):
            channel.call(op, path.encode(), deadline=self.deadlines.operation)
        with_memory = saved.method == MEMORY
        try:
            state = take_state(control, shared_ram=with_memory, deadline=SAVE_DEADLINE)
            saved.save(Contents(memory if with_memory else None, state, started.hello, started.seconds))
        except (DiskFull, OSError) as error:
            fault = error if isinstance(error, DiskFull) else TemplateStale(f"no template could be saved: {error}")
            self._work_around(fault, "doing without")
        except ControlLost as error:
            if channel.failure is not None:
                raise channel.failure.again() from error
            saved.failed()
            self._work_around(TemplateStale(f"QEMU can't save a template: {error}"), "doing without")
        with contextlib.suppress(ControlLost):  # then the watching thread reports why
            control.execute("cont")
        channel.call(Op.SET_CLOCK, *clock_parts(time.time()), deadline=self.deadlines.operation)

    def _work_around(self, fault: MachineError, how: str) -> None:
        self.faults.append(fault)
        self.progress(f"{fault}: {how}")

    def _boot(
        self, hardware: Hardware, *, prove: bool = False, ram: Ram | None = None, saved: Saved | None = None
    ) -> Started:
        # A kernel that must prove that it runs has to print from its first moment on.
        hardware = _quiet(hardware) if not prove else _with_words(hardware, "earlyprintk=serial,ttyS0")
        doing = "booting" if saved is None else "cloning"
        if saved is None and self.accelerator is None and not hardware.accelerator.startswith("kvm"):
            trouble = kvm_trouble()
            if trouble not in ("", "not there"):
                self.progress(f"{trouble}; emulating, which is slower")
        line = f"{doing} {self.name} ({hardware.accelerator.partition(',')[0]})"
        boot: Boot | None = None
        with measured(self.progress, line, lambda: boot.stage if boot else ""):
            boot = Boot(self.program, hardware, self._console_file(), self.deadlines, ram=ram, saved=saved)
            try:
                hello = boot.wait_ready(prove=prove)
            except BaseException:  # Ctrl-C as well
                boot.close()
                raise
        seconds = boot.pace.now()
        nominal = pace.NOMINAL_BOOT if saved is None else pace.NOMINAL_CLONE
        boot.deadlines = self.deadlines.scaled(pace.after_start(seconds, nominal))
        if hello.port == "serial" and hardware.virtio and saved is None:
            self._work_around(NotReady(boot.without_virtio()), "by its second serial port, which is slower")
        return Started(boot, hello, hardware.accelerator, saved is not None, seconds)

    def _console_file(self) -> Path:
        directory = self.cache.directory("console")
        with contextlib.suppress(OSError):
            old = sorted(directory.glob("*.log"), key=lambda path: path.stat().st_mtime)
            for path in old[: -CONSOLE_FILES_KEPT + 1]:
                path.unlink()
        label = re.sub(r"[^\w.+-]+", "_", self.name)[-40:]
        try:
            handle, name = tempfile.mkstemp(prefix=f"{label}-", suffix=".log", dir=directory)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._work_around(DiskFull(f"no room for the console's file in {directory}"), "keeping none")
            return Path(os.devnull)
        os.close(handle)
        return Path(name)


def _quiet(hardware: Hardware) -> Hardware:
    return _with_words(hardware, "quiet")


def _with_words(hardware: Hardware, words: str) -> Hardware:
    return hardware._replace(command_line=f"{words} {hardware.command_line}")
