"""The hidden trigger by which an event probe gets the records of the event that it is attached to (trace_eprobe.c)."""

from __future__ import annotations

import struct
from typing import ClassVar

from kprobe_sim.events.event_file import EventFile, Hit, Trigger
from kprobe_sim.events.recording import Recorder
from kprobe_sim.language.fetch.event_field import RECORD
from kprobe_sim.language.filters.predicate import Predicate
from kprobe_sim.machine.memory import CallMemory
from kprobe_sim.machine.state import Current, State, task_address
from kprobe_sim.machine.task import Task
from kprobe_sim.probes.probe_event import Probe

_PID = struct.Struct("<i")


class EprobeTrigger(Trigger):
    """Makes a record of an event probe from each record of the event that the probe is attached to."""

    needs_record: ClassVar[bool] = True
    group = "eprobe"

    def __init__(self, file: EventFile, probe: Probe, target: EventFile, chosen: Predicate | None) -> None:
        super().__init__(file, "eprobe", None)
        self.probe = probe
        self.filter = chosen
        self._made = target  # the file of the event that the probe makes
        self._recorder = Recorder(file.instance.tracing)

    def fire(self, hit: Hit, record: bytes) -> None:
        machine, probe = self.instance.machine, self.probe
        (pid,) = _PID.unpack_from(hit.head, 4)
        task = machine.tasks.get(pid) or Task(pid, hit.comm)
        probe.hits += 1
        if not self._recorder.wants(self._made, task, hit.cpu):
            return
        strings = {address: text + b"\0" for address, text in machine.strings.items()}
        memory = CallMemory(machine.memory, {**strings, **machine.user_memory, RECORD: record})
        state = State({}, memory, (), hit.comm, 0, Current(task_address(pid), 0, 0), record)
        # what is made within an event is made with preemption off
        depth = hit.head[3] + bool(machine.profile.preemption)
        made = probe.evaluate(state, (probe.event.id, hit.head[2], depth & 0xFF, pid))
        self._recorder.emit(self._made, task, made, hit._replace(head=made[:8]))
