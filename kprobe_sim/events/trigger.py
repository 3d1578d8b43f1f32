"""The triggers that switch, swap and record stacks: what they do when their event fires (struct event_trigger_data).

Sources: kernel/trace/trace_events_trigger.c of 6.1; fixtures/triggers.
"""

from __future__ import annotations

import struct

from kprobe_sim.events.event_file import EventFile, Hit, Trigger

_HEAD = struct.Struct("<HBBi")


class TraceOn(Trigger):
    """traceon."""

    group = "trace on or off"

    def is_idle(self) -> bool:
        return self.instance.tracing_on

    def act(self, hit: Hit) -> None:
        self.instance.set_tracing(True)


class TraceOff(Trigger):
    """traceoff: the event's record is still written."""

    group = "trace on or off"
    follows_record = True

    def is_idle(self) -> bool:
        return not self.instance.tracing_on

    def act(self, hit: Hit) -> None:
        if self.instance.tracing_on:
            self.instance.set_tracing(False)


class Snapshot(Trigger):
    """snapshot: swap the buffer with the spare one."""

    group = "snapshot"

    def prepare(self) -> None:
        self.instance.allocate_snapshot()

    def act(self, hit: Hit) -> None:
        instance = self.instance
        if hit.in_nmi:
            self._complain(hit, "*** SNAPSHOT CALLED FROM NMI CONTEXT ***", "*** snapshot is being ignored        ***")
        elif not instance.has_snapshot:
            self._complain(hit, "*** SNAPSHOT NOT ALLOCATED ***", "*** stopping trace here!   ***")
            instance.set_tracing(False)
        else:
            instance.swap_snapshot()

    def _complain(self, hit: Hit, *lines: str) -> None:
        """Print lines into the trace, in the context of the tracer itself.

        There preemption is off, which records of events don't count, and in an NMI interrupts are off too.  Source:
        tracing_gen_ctx(); conformance suite on 5.10, 6.1 and 7.3.
        """
        machine = self.instance.tracing.machine
        found = machine.symbols.lookup("tracing_snapshot_instance_cond")
        kind, flags, depth, pid = _HEAD.unpack_from(hit.head)
        depth += (1 + hit.held) * machine.profile.preemption
        head = _HEAD.pack(kind, flags | hit.in_nmi, depth & 0xFF, pid)
        for line in lines:
            self.instance.print(hit.cpu, found[0].address if found else 0, f"{line}\n".encode(), head, hit.timestamp)


class StackTrace(Trigger):
    """stacktrace: the kernel stack as a separate entry."""

    group = "stacktrace"
    follows_record = True

    def act(self, hit: Hit) -> None:
        self.instance.write_stack(hit.cpu, hit.head, hit.frames, hit.timestamp)


class EventSwitch(Trigger):
    """enable_event and disable_event: start or stop recording another event's hits."""

    group = "event"

    def __init__(self, file: EventFile, name: str, count: int | None, target: EventFile) -> None:
        super().__init__(file, name, count)
        self.target = target
        self._on = name == "enable_event"

    @property
    def head(self) -> str:
        assert self.target is not None
        return f"{self.name}:{self.target.event.system}:{self.target.event.name}"

    def is_idle(self) -> bool:
        assert self.target is not None
        return self._on is not self.target.soft_disabled

    def act(self, hit: Hit) -> None:
        assert self.target is not None
        self.target.soft_disabled = not self._on


class HistSwitch(EventSwitch):
    """enable_hist and disable_hist: let another event's hist triggers count, or pause them."""

    group = "hist switch"

    def __init__(self, file: EventFile, name: str, count: int | None, target: EventFile) -> None:
        super().__init__(file, name, count, target)
        self._on = name == "enable_hist"

    def is_idle(self) -> bool:
        return False

    def act(self, hit: Hit) -> None:
        assert self.target is not None
        for trigger in self.target.triggers:
            if trigger.group == "hist":
                trigger.paused = not self._on
