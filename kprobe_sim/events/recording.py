"""A record on its way into the buffers: triggers, filters and pid filters of one event in one instance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kprobe_sim.events.event_file import EventFile, Hit, run_triggers
from kprobe_sim.events.trace_array import TraceArray
from kprobe_sim.events.tracing import Tracing
from kprobe_sim.machine.task import Task

Stack = Callable[[], Sequence[int]]  # return addresses, the innermost first, as the option stacktrace records them


class Recorder:
    """Gives records to the instances that want them."""

    __slots__ = ("_cmdlines", "_scratch")

    def __init__(self, tracing: Tracing) -> None:
        self._cmdlines = tracing.machine.cmdlines
        self._scratch = tracing.scratch

    def wants(self, file: EventFile, task: Task, cpu: int, also: Sequence[Task] = ()) -> bool:
        """Return False if a hit would leave no trace, whatever its record; `also`: other tasks that it is about."""
        if file.triggers or file.soft_disabled:
            return True
        instance = file.instance
        if not instance.records or cpu in instance.masked:
            return False
        return (instance.pids is None and instance.no_pids is None) or _traces(file, task, also)

    def emit(self, file: EventFile, task: Task, record: bytes, hit: Hit, also: Sequence[Task] = ()) -> None:
        """Emit an event in an instance that wants it; its record may have holes, its stack is that of the hit."""
        if file.triggers or file.soft_disabled:
            self.trigger(file, task, record, hit, lambda: hit.frames, also)
        elif self.record(file, task, record, hit.cpu, hit.comm, hit.timestamp):
            self.stacks(file.instance, task, record, hit.cpu, hit.frames, hit.timestamp)

    def record(self, file: EventFile, task: Task, record: bytes, cpu: int, comm: bytes, timestamp: int | None) -> bool:
        """Put the record of an event that has no triggers into the buffer of an instance, if the filter lets it pass.

        Returns whether stacks are to follow.
        """
        chosen, instance = file.filter, file.instance
        if chosen is not None:
            if not self._scratch.is_busy(cpu):
                record = self._scratch.write(cpu, record)
            if not chosen.match(record, cpu=cpu, comm=comm):
                return False
        self.remember(task, instance)
        return instance.write(cpu, record, timestamp) and instance.options.has_stacks

    def trigger(
        self, file: EventFile, task: Task, record: bytes, hit: Hit, stack: Stack, also: Sequence[Task] = ()
    ) -> None:
        """Let an event's triggers see a record, then put it into the buffer if the instance wants it."""
        cpu = hit.cpu
        aside = (file.filter is not None or file.soft_disabled) and self._scratch.take(cpu)
        if aside:
            record = self._scratch.write(cpu, record)
        try:
            self._triggered(file, task, record, hit, stack, also)
        finally:
            if aside:
                self._scratch.give_back(cpu)

    def stacks(
        self, instance: TraceArray, task: Task, record: bytes, cpu: int, stack: Sequence[int], timestamp: int | None
    ) -> None:
        """Put the stacks that the options ask for after a record; `stack` is the kernel's, the innermost first."""
        if instance.options["stacktrace"]:
            instance.write_stack(cpu, record, stack, timestamp)
        if instance.options["userstacktrace"]:
            instance.write_user_stack(cpu, record, task, timestamp)

    def remember(self, task: Task, instance: TraceArray) -> None:
        """Remember the task's name and thread group, as the options say."""
        options = instance.options
        if options.names_tasks and task is not self._cmdlines.newest:
            if task.known:
                self._cmdlines.save(task)
            else:
                self._cmdlines.forget(task)
        if options.groups_tasks:
            self._cmdlines.save_tgid(task)

    def _triggered(
        self, file: EventFile, task: Task, record: bytes, hit: Hit, stack: Stack, also: Sequence[Task]
    ) -> None:
        """Let an event's triggers act, and put its record into the buffer if the event isn't softly disabled.

        Source: trace_trigger_soft_disabled(), trace_event_buffer_lock_reserve() and event_trigger_unlock_commit().
        """
        instance = file.instance
        if not file.triggers_need_record:
            disabled = file.soft_disabled
            run_triggers(file, hit, record)
            if disabled:  # as it was before they acted: what they enable is recorded from the next hit on
                return
        # a record that may be discarded is written once that is known; others have room in the buffer now or never
        buffered = file.filter is not None or file.soft_disabled
        buffer = instance.buffer
        has_room = buffered or (instance.records and hit.cpu not in instance.masked)
        traced = has_room and _traces(file, task, also)
        # what event probes and histograms make of a record that has its room comes after it
        early = (
            traced
            and not buffered
            and file.triggers_need_record
            and all(trigger.target is not file for trigger in file.triggers)  # else one may disable it by now
        )
        if early:
            self.remember(task, instance)
        written = early and instance.write(hit.cpu, record, hit.timestamp, buffer=buffer)
        later = run_triggers(file, hit._replace(held=buffered), record) if file.triggers_need_record else []
        passes = file.filter is None or file.filter.match(record, cpu=hit.cpu, comm=hit.comm)
        if not early and traced and passes and not file.soft_disabled:
            self.remember(task, instance)
            written = instance.write(hit.cpu, record, hit.timestamp, buffer=buffer) and instance.options.has_stacks
        elif not early and later and instance.records:
            self.remember(task, instance)  # a stack is an entry of the task's too
        if written:
            self.stacks(instance, task, record, hit.cpu, stack(), hit.timestamp)
        for trigger in later:
            trigger.fire(hit, record)


def _traces(file: EventFile, task: Task, also: Sequence[Task]) -> bool:
    """Return True if the pid filters let one of the tasks through, or don't apply to the event."""
    instance = file.instance
    if instance.machine.gates.late_events_pass:
        number = instance.tracing.events.number(file.event)
        if number is not None and number > instance.pids_came:
            return True
    return instance.traces(task) or any(instance.traces(other) for other in also)
