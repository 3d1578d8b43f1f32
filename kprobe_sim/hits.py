"""Calls of the simulated machine meeting probes: hits become records in the instances that want them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kprobe_sim.call import Call, Frame, as_passed, place_frame
from kprobe_sim.clock import VirtualClock
from kprobe_sim.probe_event import Probe
from kprobe_sim.render import FLAG_HARDIRQ, FLAG_NMI
from kprobe_sim.state import State

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

_ENTRY_HEAD = struct.Struct("<HBBiQ")
_RETURN_HEAD = struct.Struct("<HBBiQQ")
_TRAMPOLINE = "arch_rethook_trampoline"


class _Context(NamedTuple):
    """How the CPU got into the probe's handler, as common_flags and common_preempt_count tell it."""

    flags: int
    preempt_count: int


# Measured on 6.1 (fixtures: traces of types and offsets): entries go through ftrace, other places through int3, which
# runs like an NMI; a return goes through a trampoline in the task's own context.
_PLAIN = _Context(0, 0)
_BREAKPOINT = _Context(FLAG_NMI | FLAG_HARDIRQ, 0xFF)


class Hits:
    """Runs calls against the registered probes."""

    def __init__(self, kernel: SimulatedKernel) -> None:
        self._kernel = kernel

    def run(self, call: Call) -> None:
        """Run one call: its entry (or the instruction at its offset), then its return."""
        kernel = self._kernel
        frame = place_frame(kernel, call)
        armed = [probe for probe in kernel.probes if probe.address is not None and kernel.is_busy(probe.event)]
        here = frame.entry + call.offset
        # the newest probe of an address runs first; a return probe armed there has replaced the return address
        # for those that run behind it
        replaced = False
        entered = call.at
        returning: list[Probe] = []
        for probe in reversed(armed):
            if probe.event.is_return:
                if probe.address == here:
                    replaced = True
                    returning.append(probe)
            elif probe.address == here:
                context = _PLAIN if kernel.symbols.is_traceable(here) else _BREAKPOINT
                self._hit(probe, call, self._state(call, frame, here, replaced), here, context, frame.chain, entered)
        behind = self._behind_entry(here)
        if not call.offset and behind:
            for probe in reversed(armed):
                if probe.address == behind and not probe.event.is_return:
                    state = self._state(call, frame, behind, replaced)
                    self._hit(probe, call, state, behind, _BREAKPOINT, frame.chain, entered)
        if call.returns is not None:
            self._return(call, frame, returning)

    def _return(self, call: Call, frame: Frame, probes: Sequence[Probe]) -> None:
        caller = frame.chain[0] if frame.chain else 0
        prototype = self._kernel.profile.prototype(call.function)
        value = as_passed(call.returns or 0, prototype.returns if prototype else None)
        registers = {**frame.registers, "ax": value, "ip": caller, "sp": frame.registers["sp"] + 8}
        state = State(registers, frame.memory, frame.stack[1:], call.task.name, value)
        at = None if call.at is None else call.at + (1_000 if call.duration is None else call.duration)
        if call.at is None and call.duration is not None and isinstance(self._kernel.clock, VirtualClock):
            self._kernel.clock.advance(call.duration)
        for probe in probes:
            self._hit(probe, call, state, caller, _PLAIN, frame.chain, at, func=probe.address)

    def _behind_entry(self, entry: int) -> int | None:
        """Return the address behind the call to __fentry__: who enters comes there with the same registers."""
        return entry + 5 if self._kernel.symbols.is_traceable(entry) else None

    def _state(self, call: Call, frame: Frame, here: int, replaced: bool) -> State:
        stack = frame.stack
        if replaced:
            trampoline = self._kernel.symbols.lookup(_TRAMPOLINE)
            stack = (trampoline[0].address if trampoline else 0, *stack[1:])
        return State({**frame.registers, "ip": here + 1}, frame.memory, stack, call.task.name)

    def _hit(
        self,
        probe: Probe,
        call: Call,
        state: State,
        ip: int,
        context: _Context,
        chain: Sequence[int],
        at: int | None,
        func: int | None = None,
    ) -> None:
        kernel = self._kernel
        event = probe.event
        task = call.task
        probe.hits += 1
        record = b""
        for instance in kernel.all_instances():
            file = instance.probe_files.get(event)
            if file is None or not file.enabled or not instance.tracing_on or not instance.traces(task):
                continue
            if not record:
                head = (event.id, context.flags, context.preempt_count, task.pid)
                packed = _ENTRY_HEAD.pack(*head, ip) if func is None else _RETURN_HEAD.pack(*head, func, ip)
                record = packed + probe.evaluate(state)
            if file.filter is not None and not file.filter.match(record, cpu=call.cpu, comm=task.name):
                continue
            if task.known and instance.options["record-cmd"]:
                kernel.cmdlines.save(task)
            if instance.options["record-tgid"]:
                kernel.cmdlines.save_tgid(task)
            if instance.write(call.cpu, record, at) and instance.options["stacktrace"]:
                frames = list(chain) if func is not None else [ip + 1, *chain]
                instance.write_stack(call.cpu, record, frames, at)
