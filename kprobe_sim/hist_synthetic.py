"""Synthetic events as histograms make them happen: which values fit, and who gets the record.

Sources: check_synth_field() in trace_events_hist.c and trace_event_raw_event_synth() in trace_events_synth.c of 6.1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kprobe_sim.hist_field import STACKTRACE, HistField, Sample, Value
from kprobe_sim.synthetic import SYSTEM, SyntheticEvent
from kprobe_sim.synthetic_field import SyntheticField
from kprobe_sim.synthetic_record import packed
from kprobe_sim.task import Task
from kprobe_sim.trigger import Hit

if TYPE_CHECKING:
    from kprobe_sim.kernel import SimulatedKernel

_IRQS_OFF, _NMI = 0x01, 0x40  # of common_flags


class SyntheticTarget:
    """A synthetic event of one kernel, as histograms make it happen."""

    def __init__(self, kernel: SimulatedKernel, event: SyntheticEvent) -> None:
        self._kernel = kernel
        self._event = event

    @property
    def types(self) -> Sequence[SyntheticField]:
        return self._event.own_fields

    def hold(self, by: int) -> None:
        """Keep it from being removed, or no longer."""
        self._event.users += by

    def happen(self, values: Sequence[Value], sample: Sample) -> None:
        """Let it happen in the instances that have it enabled, in the task that was hit."""
        flags, depth = sample.record[2:4]  # of the event that was hit, as its own code saw them
        if flags & _NMI:
            flags |= _IRQS_OFF
        depth = depth + self._kernel.gates.hist_depth & 0xFF
        head = struct.pack("<HBB", self._event.id, flags, depth) + sample.record[4:8]
        record = head + packed(self._event.own_fields, values)
        (pid,) = struct.unpack_from("<i", record, 4)
        task = self._kernel.tasks.get(pid) or Task(pid, sample.comm)
        recorder = self._kernel.hits.recorder
        frames = list(sample.frames)
        for instance in self._kernel.all_instances():
            file = instance.probe_files.get(self._event)
            if file is None or not file.enabled or not recorder.wants(file, task, sample.cpu):
                continue
            recorder.happen(
                file,
                task,
                record,
                lambda: Hit(sample.cpu, sample.comm, record[:8], frames, sample.at),
                lambda: frames,
                cpu=sample.cpu,
                comm=sample.comm,
                at=sample.at,
            )


def target_of(kernel: SimulatedKernel, name: str) -> SyntheticTarget | None:
    """Return the synthetic event of that name, or None."""
    event = kernel.probes.event(SYSTEM, name)
    return SyntheticTarget(kernel, event) if isinstance(event, SyntheticEvent) else None


def fits(target: SyntheticTarget, variable: HistField, place: int) -> bool:
    """True if a variable can be the value of a field."""
    if place >= len(target.types):
        return False
    field = target.types[place]
    if "char[" in variable.type and field.is_string and field.is_dynamic:
        return True
    if bool(variable.flags & STACKTRACE) != field.is_stack:
        return False
    if field.is_stack or field.type == variable.type:
        return True
    return field.size == variable.size and (field.is_string or field.signed == variable.signed)
