"""Calls of programs on the simulated machine that hit uprobes: a task's work in user space, as probes see it.

Sources: uprobe_dispatcher(), uretprobe_dispatcher() and __uprobe_trace_func() in kernel/trace/trace_uprobe.c of 4.9.229
and 5.4.273; recorded traces: 16_uprobe2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from kprobe_sim.events.event_file import Hit
from kprobe_sim.events.instances import Instances
from kprobe_sim.events.recording import Recorder
from kprobe_sim.language.fetch.expression import ARGUMENT_REGISTERS
from kprobe_sim.machine.clock import VirtualClock
from kprobe_sim.machine.memory import CallMemory
from kprobe_sim.machine.state import NOWHERE, TASK_SIZE, State
from kprobe_sim.probes.hits.call import CLOBBERED, as_bytes, check_state
from kprobe_sim.probes.hits.program_call import ProgramCall
from kprobe_sim.probes.uprobes import Uprobe, Uprobes

_STACK = 0x7FFD_0000_0000  # of the program, with zeroes above it
_STACK_ABOVE = 0x1000
_MASK = (1 << 64) - 1
_BASE = {"cs": 0x33, "ss": 0x2B, "flags": 0x246, "orig_ax": _MASK}  # those that aren't 0


class _UserMemory:
    """The memory of a call without the kernel's part, where copy_from_user() reads nothing."""

    def __init__(self, memory: CallMemory) -> None:
        self._memory = memory

    def read(self, address: int, size: int) -> bytes | None:
        return self._memory.read(address, size) if address + size <= TASK_SIZE else None

    def string(self, address: int, limit: int) -> bytes | None:
        return self._memory.string(address, limit) if address < TASK_SIZE else None


class ProgramHits:
    """Runs calls of programs against the uprobes of a kernel."""

    def __init__(self, instances: Instances, uprobes: Uprobes, recorder: Recorder) -> None:
        machine = self._machine = instances.top.machine
        self._instances = instances
        self._uprobes = uprobes
        self._recorder = recorder
        self._context = (1, 0)  # the handler says that interrupts are off
        if machine.gates.program_depth_taken:
            self._context = (0xFF, 0xFF) if machine.profile.preemption else (0, 0)

    def run(self, call: ProgramCall, within: Callable[[], None] | None = None) -> None:
        """Run one call: its first instruction, what happens within it, its return.

        Raises ValueError for a file, CPU or registers that don't exist.
        """
        check_state(self._machine, call.cpu, call.registers)
        probes = self._uprobes.in_place(self._file(call.path), call.offset)
        before = self._state(call)
        for probe in probes:
            probe.hits += 1  # also of a return probe, whether the call returns or not
            if not probe.event.is_return:
                self._hit(probe, call, before, (before.registers["ip"],), call.at)
        if within is not None:
            within()
        if call.returns is None:
            return
        if call.at is None and call.duration is not None and isinstance(self._machine.clock, VirtualClock):
            self._machine.clock.advance(call.duration)
        timestamp = None if call.at is None else call.at + (1_000 if call.duration is None else call.duration)
        after = self._returned(call, before, call.returns)
        for probe in probes:
            if probe.event.is_return:
                self._hit(probe, call, after, (before.registers["ip"], after.registers["ip"]), timestamp)

    def _file(self, path: str) -> object:
        try:
            file = self._machine.files.find(path)
        except OSError as error:
            raise ValueError(f"no file {path!r} in this machine: add it with files.add()") from error
        if not file.is_regular:
            raise ValueError(f"{path!r} is no program: it isn't a regular file")
        return file.identity

    def _state(self, call: ProgramCall) -> State:
        """Return the registers and memory at the first instruction."""
        memory = CallMemory(self._machine.memory, call.memory)
        values = [arg & _MASK if isinstance(arg, int) else memory.put_string(as_bytes(arg)) for arg in call.args]
        stack = [call.caller & _MASK, *values[len(ARGUMENT_REGISTERS) :]]
        memory.put(_STACK, struct.pack(f"<{len(stack)}Q", *stack), _STACK_ABOVE)
        registers = {**_BASE, **dict(zip(ARGUMENT_REGISTERS, values, strict=False)), "sp": _STACK}
        registers |= {name: value & _MASK for name, value in call.registers.items()}
        registers["ip"] = call.base + call.offset & _MASK
        return State(registers, _UserMemory(memory), (), call.task.name, 0, NOWHERE, mapped=call.base)

    def _returned(self, call: ProgramCall, before: State, returns: int) -> State:
        """Return the state at the return: a function restores its caller's registers."""
        stated = {name: value & _MASK for name, value in call.registers.items()}
        registers = {**before.registers, **CLOBBERED, **stated, "ax": returns & _MASK, "ip": call.caller & _MASK}
        registers["sp"] = before.registers["sp"] + 8 & _MASK
        return before._replace(registers=registers, return_value=registers["ax"])

    def _hit(
        self, probe: Uprobe, call: ProgramCall, state: State, addresses: tuple[int, ...], timestamp: int | None
    ) -> None:
        event, task = probe.event, call.task
        record = b""
        for file in self._instances.enabled(event):
            if not self._recorder.wants(file, task, call.cpu):
                continue
            if not record:
                flags, depth = call.context or self._context
                # where a read fails, the kernel leaves whatever the arguments' buffer held: here zeroes
                record = bytes(probe.evaluate(state, (event.id, flags, depth, task.pid, *addresses)))
            self._recorder.emit(file, task, record, Hit(call.cpu, state.comm, record[:8], (), timestamp))
