"""One boot of one guest: QEMU with its console, control and agent connections, all of them watched.

Whatever ends the guest, every waiting thread gets an error that names the cause; nobody waits longer than a deadline.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import NamedTuple

from kprobe_vm.agent.channel import CANCEL_DEADLINE, SEND_DEADLINE, Channel
from kprobe_vm.agent.frames import Hello, Op
from kprobe_vm.agent.line import Either
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
from kprobe_vm.host.pace import Deadline, Pace
from kprobe_vm.machine.console import NO_MEMORY, NO_MODULE, NO_SERIAL, OOPS, PANIC, Console
from kprobe_vm.machine.control import Control, Incoming
from kprobe_vm.machine.qemu import Hardware, Qemu, Ram


class Deadlines(NamedTuple):
    """The deadlines, in seconds as the guest gets them (pace.py); generous, as emulation is slow."""

    boot: float = 120.0
    first_byte: float = 5.0  # of a boot that tests whether KVM works
    operation: float = 60.0  # of a system call that should not block
    silence: float = 2.0  # of silence, while a request waits, until the guest is pinged
    ping: float = 10.0
    panic: float = 3.0  # from the panic's message to QEMU's end
    port: float = 1.0  # from the end of the agent's port to QEMU's
    resume: float = 20.0  # of a clone's first answer
    cancel: float = CANCEL_DEADLINE
    send: float = SEND_DEADLINE

    def scaled(self, factor: float) -> Deadlines:
        """Return all of them multiplied."""
        return Deadlines(*(value * factor for value in self))


def clock_parts(seconds: float) -> list[bytes]:
    """Return a wall clock time (seconds since 1970) as the payload of a SET_CLOCK request."""
    return [value.to_bytes(8, "little") for value in divmod(int(seconds * 1e9), 10**9)]


def _no_port(module: str) -> str:
    """Say why the agent found no virtio port; `module` is a module that failed to load."""
    if module:
        return f"the guest has no virtio port, as a module that it was given does not load: {module}"
    return (
        "the guest has no virtio port: this kernel has no virtio_pci and virtio_console, or has them as modules, which "
        "are looked for beside it, in modules/ or lib/modules/RELEASE, and where --modules DIR says"
    )


class Saved(NamedTuple):
    """What a clone starts from."""

    ram: Ram
    state: int  # descriptor, at the first byte of the devices' state
    hello: Hello  # what the agent said when it started


class Boot:
    """A guest that was started, or resumed from `saved`; call `wait_ready` before using its `channel`."""

    def __init__(
        self,
        program: str,
        hardware: Hardware,
        console_file: Path,
        deadlines: Deadlines,
        *,
        ram: Ram | None = None,
        saved: Saved | None = None,
    ) -> None:
        self.deadlines = deadlines
        self._closing = False
        self._saved = saved
        self.qemu = Qemu(program, hardware, ram=saved.ram if saved else ram, state=saved.state if saved else None)
        self.pace = Pace(self.qemu.pid)
        try:
            self.console = Console(self.qemu.console, console_file)
            incoming = saved and Incoming(saved.state, saved.ram.descriptor is not None, self._not_resumed)
            self.control = Control(self.qemu.control, port_closed=self._port_closed, incoming=incoming)
            self.channel = Channel(
                Either(self.qemu.agent, self.qemu.serial, port=saved.hello.port if saved else ""),
                lost=self._autopsy,
                stuck=self._stuck,
                pace=self.pace,
                patience=(deadlines.cancel, deadlines.send),
                greets=saved is None,
            )
            self._watcher = threading.Thread(target=self._watch, name="kprobe-vm watch", daemon=True)
            self._watcher.start()
        except BaseException:
            self.qemu.kill()
            raise

    @property
    def stage(self) -> str:
        """The stage of the start, in words."""
        if self._saved is not None:
            return "resuming"
        if not self.control.is_connected:
            return "starting QEMU"
        return self.console.tail(1).strip() or "the kernel starts"

    def wait_ready(self, *, prove: bool = False) -> Hello:
        """Wait until the agent speaks; with `prove` the console must print something within a few seconds.

        Raise `BootTimeout`, or what else ended the guest.
        """
        if self._saved is not None:
            return self._wait_resumed(self._saved.hello)
        deadline = Deadline(self.pace, self.deadlines.boot)
        if prove and not self.pace.wait(self.console.first_byte, self.deadlines.first_byte):
            raise self._give_up(BootTimeout, f"no byte on the console in {self.deadlines.first_byte:.0f} s")
        try:
            return self.channel.wait_hello(deadline.left())
        except TimeoutError:
            raise self._give_up(BootTimeout, f"the guest was not up in {self.deadlines.boot:.0f} s") from None

    def _wait_resumed(self, hello: Hello) -> Hello:
        """Set the clone's clock, which still shows when its template was saved; its answer shows that it lives."""
        if hello.port == "serial":
            # bytes that come before its state are lost, as they go into a UART that is then overwritten
            self.pace.wait(self.control.resumed, self.deadlines.resume)
        request = self.channel.send(Op.SET_CLOCK, *clock_parts(time.time()))
        if not self.channel.wait_patiently(request, self.deadlines.resume):
            raise self._give_up(BootTimeout, f"the clone did not answer in {self.deadlines.resume:.0f} s")
        self.channel.hello = hello
        return hello

    def _not_resumed(self, reason: str) -> None:
        if not self._closing and not self.pace.wait(self.qemu.ended, self.deadlines.panic):
            self._give_up(QemuDied, f"QEMU does not resume: {reason}")

    def without_virtio(self) -> str:
        """Say why the agent uses the serial port, if it does."""
        return _no_port(self.console.find(NO_MODULE))

    def close(self) -> None:
        """End the guest at once, as it has nothing to save, and release everything.  May be called twice."""
        self._closing = True
        self.channel.fail(MachineClosed("the machine was closed"))
        self.qemu.kill()
        self.channel.close()
        self.console.close()
        self.control.close()
        if threading.current_thread() is not self._watcher:
            self._watcher.join(5)

    # ---- what went wrong ----

    def _error(self, kind: type[MachineDied], message: str, state: str) -> MachineDied:
        return kind(message, console=self.console.tail(), qemu_state=state, console_file=str(self.console.file))

    def _give_up(self, kind: type[MachineDied], message: str) -> MachineDied:
        """Fail everything with a new error and end QEMU; return the error, or an earlier one."""
        if self.channel.failure is None and not self._closing:
            self.channel.fail(self._error(kind, message, self.control.state()))
        self.qemu.kill()
        return (self.channel.failure or MachineClosed("the machine was closed")).again()

    def _stuck(self, message: str) -> MachineDied:
        return self._give_up(GuestHang, message)

    def _port_closed(self) -> None:
        """QEMU reports that the agent has closed its port; called on the control thread, which goes on."""
        if self.channel.hello is not None:
            threading.Thread(target=self._agent_is_gone, name="kprobe-vm port", daemon=True).start()

    def _agent_is_gone(self) -> None:
        """Fail everything, unless QEMU ends soon: a kernel that powers off closes the port too, shortly before."""
        if not self.pace.wait(self.qemu.ended, self.deadlines.port):
            self.channel.fail(self._error(ChannelClosed, "the guest's agent has closed its port", self.qemu.describe()))

    def _autopsy(self, reason: str) -> MachineDied:
        """Say why the agent's connection has ended; called on the channel's reading thread."""
        if self._closing:
            return MachineClosed("the machine was closed")
        if not self.pace.wait(self.qemu.ended, self.deadlines.panic):
            return self._give_up(ChannelClosed, f"the connection to the guest's agent was lost: {reason or 'closed'}")
        self.console.ended.wait(2)
        self.control.ended.wait(2)
        state = ", ".join(filter(None, [self.qemu.describe(), self.control.shutdown_reason]))
        if self.qemu.status:
            return self._error(QemuDied, f"QEMU {self.qemu.describe()}", state)
        if self.console.panicked.is_set():
            return self._panic(state)
        if self.control.shutdown_reason.startswith("guest-"):
            how = "rebooted" if self.control.shutdown_reason == "guest-reset" else "powered off"
            return self._error(GuestStopped, f"the guest {how}", state)
        return self._error(QemuDied, f"QEMU {self.qemu.describe()}", state)

    def _panic(self, state: str) -> MachineDied:
        words = self.console.find(PANIC)
        if oops := self.console.find(OOPS):
            return self._error(GuestOops, f"the guest's kernel oopsed: {oops}", state)
        if self.console.find(NO_SERIAL):
            words = f"{self.without_virtio()}; and no second serial port to do without, which takes CONFIG_SERIAL_8250"
            return GuestPanic(words, console_file=str(self.console.file))
        kind = GuestOutOfMemory if NO_MEMORY.search(words) else GuestPanic
        return self._error(kind, f"the guest's kernel panicked: {words}", state)

    def _watch(self) -> None:
        while not self.qemu.ended.wait(min(1.0, self.deadlines.silence)) and not self._closing:
            if self.console.panicked.is_set() and not self.pace.wait(self.qemu.ended, self.deadlines.panic):
                self._give_up(GuestPanic, f"the guest's kernel panicked: {self.console.find(PANIC)}")
            self.pace.now()
            channel = self.channel
            if channel.hello is None or channel.failure is not None or not channel.is_awaited:
                continue
            if time.monotonic() - channel.last_frame < self.deadlines.silence:
                continue
            if not self._answers():
                self._give_up(GuestHang, f"the guest has not answered for {self.deadlines.ping:.0f} s")

    def _answers(self) -> bool:
        before = self.channel.last_frame
        try:
            ping = self.channel.send(Op.PING)
            answered = self.channel.wait_patiently(ping, self.deadlines.ping)
            self.channel.forget(ping)
        except MachineDied:
            return True  # a worse error is already known
        return answered or self.channel.last_frame > before
