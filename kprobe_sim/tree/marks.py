"""Marks: what programs write to trace_marker and trace_marker_raw."""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence

from kprobe_sim.events.event_file import Hit, run_triggers
from kprobe_sim.events.instance import Instance
from kprobe_sim.language.primitives.refusal import refuse
from kprobe_sim.machine.task import Task
from kprobe_sim.records.entry_type import TRACE_PRINT


def _is_off(instance: Instance) -> bool:
    """Return whether marks are refused; kernels without the option `markers` (3.2) always take them."""
    return "markers" in instance.options and not instance.options["markers"]


def mark(instance: Instance, text: bytes, task: Task, cpu: int = 0) -> int:
    """Take one write to trace_marker; return the bytes consumed (at most 1024 up to 6.7)."""
    if _is_off(instance):
        raise refuse(errno.EINVAL)
    return [_mark(target, text, task, cpu) for target in _targets(instance)][-1]


def _targets(instance: Instance) -> Sequence[Instance]:
    """Return the instances that a mark goes to: from the top instance, those with copy_trace_marker, newest first."""
    if instance.name or "copy_trace_marker" not in instance.options:
        return (instance,)
    marked = [each for each in instance.everyone() if each.marked_since]
    if not marked:
        raise refuse(errno.ENODEV)
    return sorted(marked, key=lambda each: each.marked_since, reverse=True)


def _mark(instance: Instance, text: bytes, task: Task, cpu: int) -> int:
    text = text[: instance.machine.gates.marker_size]
    size = len(text) + 2
    if instance.machine.gates.mark_room:
        size += max(0, len(b"<faulted>") - len(text))
    body = text + (b"\0" if text.endswith(b"\n") else b"\n\0")
    data = (
        _builtin(instance, TRACE_PRINT, task) + struct.pack("<Q", instance.machine.marker_ip) + body.ljust(size, b"\0")
    )
    if not instance.records or cpu in instance.masked:
        raise refuse(errno.EBADF)
    event = instance.print_file
    if event is None or not event.triggers:
        stored = instance.write(cpu, data)
    else:
        buffer = instance.buffer
        hit = Hit(cpu, task.name, data, instance.tracing.tracer_frames.marker(), None)
        # triggers see the text as it was written, without the newline that is added
        later = run_triggers(event, hit, data[:16] + (text + b"\0").ljust(size, b"\0"))
        stored = instance.write(cpu, data, buffer=buffer)
        for trigger in later:
            trigger.fire(hit._replace(head=data[:2] + instance.machine.gates.marker_stack + data[4:8]), data)
    if not stored:
        raise refuse(errno.EBADF)
    return len(text)


def mark_raw(instance: Instance, blob: bytes, task: Task, cpu: int = 0) -> int:
    """Take one write to trace_marker_raw: a 4-byte id and data."""
    most, taken = instance.machine.gates.raw_mark_sizes
    if _is_off(instance) or not 4 <= len(blob) <= most:
        raise refuse(errno.EINVAL)
    return [_mark_raw(target, blob[:taken], task, cpu) for target in _targets(instance)][-1]


def _mark_raw(instance: Instance, blob: bytes, task: Task, cpu: int) -> int:
    data = _builtin(instance, instance.machine.gates.raw_data_type, task) + blob
    # the kernel counts the id twice, and reserves room for "<faulted>"; the rest holds old data there, zeros here
    size = len(data)
    if instance.machine.gates.mark_room:
        size += 4 + max(0, len(b"<faulted>") + 4 - len(blob))
    data = data.ljust(-(-size // 4) * 4, b"\0")
    if not instance.write(cpu, data):
        raise refuse(errno.EBADF)
    return len(blob)


def _builtin(instance: Instance, kind: int, task: Task) -> bytes:
    return struct.pack("<HBBi", kind, 0, instance.machine.gates.marker_depth, task.pid)
