"""Synthetic events as histograms emit them: which values fit, and which instances get the record.

Sources: check_synth_field() in trace_events_hist.c and trace_event_raw_event_synth() in trace_events_synth.c of 6.1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kprobe_sim.events.event_file import Hit
from kprobe_sim.events.hist.field import STACKTRACE, HistField, Sample
from kprobe_sim.events.instances import Instances
from kprobe_sim.events.recording import Recorder
from kprobe_sim.machine.task import Task
from kprobe_sim.probes.synthetic import SYSTEM, SyntheticEvent
from kprobe_sim.probes.synthetic_field import SyntheticField
from kprobe_sim.probes.synthetic_record import SyntheticValue, packed

_IRQS_OFF, _NMI = 0x01, 0x40  # of common_flags


class SyntheticTarget:
    """A synthetic event of one kernel, as histograms emit it."""

    def __init__(self, instances: Instances, recorder: Recorder, event: SyntheticEvent) -> None:
        self._instances = instances
        self._machine = instances.top.machine
        self._recorder = recorder
        self._event = event

    @property
    def types(self) -> Sequence[SyntheticField]:
        return self._event.own_fields

    def hold(self, by: int) -> None:
        """Count one more user, or one less: a used event can't be removed."""
        self._event.users += by

    def emit(self, values: Sequence[SyntheticValue], sample: Sample) -> None:
        """Emit the event in the instances that have it enabled, in the task that was hit."""
        flags, depth = sample.record[2:4]  # of the event that was hit, as its code saw them
        if flags & _NMI:
            flags |= _IRQS_OFF
        depth = depth + self._machine.gates.hist_depth & 0xFF
        head = struct.pack("<HBB", self._event.id, flags, depth) + sample.record[4:8]
        record = head + packed(self._event.own_fields, values)
        (pid,) = struct.unpack_from("<i", record, 4)
        task = self._machine.tasks.get(pid) or Task(pid, sample.comm)
        recorder = self._recorder
        hit = Hit(sample.cpu, sample.comm, record[:8], list(sample.frames), sample.timestamp)
        for file in list(self._instances.enabled(self._event)):
            if not file.enabled or not recorder.wants(file, task, sample.cpu):
                continue
            recorder.emit(file, task, record, hit)


class SyntheticTargets:
    """The synthetic events of one kernel, for histograms."""

    def __init__(self, instances: Instances, recorder: Recorder) -> None:
        self._instances = instances
        self._recorder = recorder

    def find(self, name: str) -> SyntheticTarget | None:
        """Return the synthetic event of that name, or None."""
        event = self._instances.top.tracing.events.event(SYSTEM, name)
        return SyntheticTarget(self._instances, self._recorder, event) if isinstance(event, SyntheticEvent) else None


def fits(target: SyntheticTarget, variable: HistField, position: int) -> bool:
    """Return True if a variable can be the value of a field."""
    if position >= len(target.types):
        return False
    field = target.types[position]
    if not variable.data.gates.synthetic_fits_by_size:
        return field.type == variable.type
    if "char[" in variable.type and field.is_string and field.is_dynamic:
        return True
    if bool(variable.flags & STACKTRACE) != field.is_stack:
        return False
    if field.is_stack or field.type == variable.type:
        return True
    return field.size == variable.size and (field.is_string or field.signed == variable.signed)
