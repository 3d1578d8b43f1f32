"""Static events: a record by the profile's format, emitted into the instances that have the event enabled."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cached_property

from kprobe_sim.events.event import StaticEvent
from kprobe_sim.events.event_file import Hit
from kprobe_sim.events.instances import Instances
from kprobe_sim.events.recording import Recorder
from kprobe_sim.events.static.static_record import FieldValue, layout_of
from kprobe_sim.machine.task import Task
from kprobe_sim.named_tuple import NamedTuple
from kprobe_sim.text.c_expression import NotEvaluable
from kprobe_sim.text.static_text import static_text

_HEAD = struct.Struct("<HBBi")
_IRQS_OFF, _SOFTIRQ = 0x01, 0x10
# common_flags and common_preempt_count of events that don't fire in a task's plain context, on a kernel that counts
# the depth of preemption (fixtures/static)
_CONTEXTS: Mapping[str, tuple[int, int]] = {
    "sched/sched_switch": (_IRQS_OFF, 2),
    "sched/sched_stat_runtime": (_IRQS_OFF, 2),
    "sched/sched_wakeup_new": (_IRQS_OFF, 2),
    "sched/sched_waking": (_IRQS_OFF, 4),
    "sched/sched_wakeup": (_IRQS_OFF, 5),
    "sched/sched_process_free": (_SOFTIRQ, 0),
    "signal/signal_generate": (_IRQS_OFF, 2),
    "signal/signal_deliver": (_IRQS_OFF, 1),
}
_WAKEUPS = frozenset(["sched/sched_waking", "sched/sched_wakeup", "sched/sched_wakeup_new"])
_STRINGS = 0xFFFFFFFF90000000  # where strings of the kernel's code lie, as on the recorded kernels


class Context(NamedTuple):
    """Where and when a static event fires.

    `flags` and `preempt_count` are the record's common_flags and common_preempt_count, None for what is usual for the
    event; `timestamp` is in ns, None for now; `stack` has the return addresses for stack traces.
    """

    flags: int | None = None
    preempt_count: int | None = None
    cpu: int = 0
    timestamp: int | None = None
    stack: Sequence[int] = ()


_USUAL = Context()


class Emission:
    """Emits the static events of a kernel."""

    def __init__(self, instances: Instances, recorder: Recorder) -> None:
        self._instances = instances
        self._recorder = recorder
        self._machine = instances.top.machine
        self._events = instances.top.tracing.events
        self._showable: set[StaticEvent] = set()
        self._addresses: dict[bytes, int] = {}

    @cached_property
    def _by_text(self) -> dict[bytes, int]:
        return {text: address for address, text in reversed(self._machine.strings.items())}

    def event(self, name: str) -> StaticEvent:
        """Return the static event of a name as SYSTEM/EVENT or SYSTEM:EVENT.  Raises ValueError if there is none."""
        system, _, event = name.replace(":", "/").partition("/")
        found = self._events.static.find(system, event)
        if found is None:
            raise ValueError(f"{self._machine.release} has no static event {name!r}")
        if not found.can_enable:
            raise ValueError(f"{name} is an entry of the tracer's own, not an event that fires")
        return found

    def has(self, system: str, name: str) -> bool:
        """Return True if the kernel has that static event."""
        return self._events.static.find(system, name) is not None

    def is_enabled(self, system: str, name: str) -> bool:
        """Return True if the static event is enabled in some instance."""
        return bool(self._instances.enabled(self._events.static.find(system, name)))

    def emit(self, name: str, task: Task, fields: Mapping[str, FieldValue], context: Context = _USUAL) -> None:
        """Emit a static event.

        Raises ValueError for an event, field or value that the kernel lacks, and for an event that can't be shown.
        """
        event = self.event(name)
        layout = layout_of(event)
        files = list(self._instances.enabled(event))
        head = _HEAD.pack(event.id, *self._context(layout.name, context), task.pid)
        record = layout.pack(head, fields, self._intern)
        self._see(event, layout.name)
        if layout.name == "sched/sched_switch":
            self._learn(fields)
        also = self._involved(layout.name, fields)
        hit = Hit(context.cpu, task.name, record[:8], context.stack, context.timestamp)
        for file in files:
            if self._recorder.wants(file, task, context.cpu, also):
                self._recorder.emit(file, task, record, hit, also)

    def check(self, name: str, fields: Mapping[str, FieldValue]) -> None:
        """Raise the ValueError that `emit` would."""
        event = self.event(name)
        layout = layout_of(event)
        layout.pack(bytes(_HEAD.size), fields, self._intern)
        self._see(event, layout.name)

    def _see(self, event: StaticEvent, name: str) -> None:
        """Raise ValueError for an event that can't be shown."""
        if event in self._showable:
            return
        try:
            static_text(self._machine, event)
        except NotEvaluable as error:
            raise ValueError(f"{name} can't be shown: {error}") from error
        self._showable.add(event)

    def _context(self, name: str, context: Context) -> tuple[int, int]:
        machine = self._machine
        usual = _CONTEXTS.get(name, (0, 0))
        if name.startswith("syscalls/"):
            usual = (0, machine.gates.syscall_event_depth)
        elif name == "task/task_rename":
            usual = (0, machine.gates.rename_depth)
        if not machine.profile.preemption:
            usual = (usual[0], 0)
        return (
            usual[0] if context.flags is None else context.flags,
            usual[1] if context.preempt_count is None else context.preempt_count,
        )

    def _learn(self, fields: Mapping[str, FieldValue]) -> None:
        """Remember the names of both tasks of a switch (probe_sched_switch in trace_sched_switch.c)."""
        if not any(file.instance.options.names_tasks for file in self._instances.all_enabled()):
            return
        for which in ("prev", "next"):
            found = self._task(fields, f"{which}_pid", f"{which}_comm")
            if found is not None:
                self._machine.cmdlines.save(found)

    def _involved(self, name: str, fields: Mapping[str, FieldValue]) -> list[Task]:
        """Return the tasks besides the current one that make a pid filter record an event of the scheduler.

        Source: event_filter_pid_sched_switch_probe_pre() and event_filter_pid_sched_wakeup_probe_pre().
        """
        if name == "sched/sched_switch":
            found = [self._task(fields, "prev_pid", "prev_comm"), self._task(fields, "next_pid", "next_comm")]
        elif name in _WAKEUPS:
            found = [self._task(fields, "pid", "comm")]
        else:
            return []
        return [task for task in found if task is not None]

    def _task(self, fields: Mapping[str, FieldValue], pid: str, comm: str) -> Task | None:
        number, name = fields.get(pid), fields.get(comm, "")
        return Task(number, name) if isinstance(number, int) and isinstance(name, str | bytes) else None

    def _intern(self, text: bytes) -> int:
        """Return the address of one of the kernel's strings: a recorded one, or one that is added."""
        found = self._by_text.get(text) or self._addresses.get(text)
        if found is None:
            found = _STRINGS + 0x100 * len(self._addresses)
            self._addresses[text] = found
            self._machine.strings[found] = text
            self._machine.memory.put(found, text + b"\0")
        return found
